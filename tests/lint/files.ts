/** The folder of the workspace, with a slash at its end. */
export const ROOT = new URL("../../", import.meta.url).pathname;

/** The folders of the workspace that hold code. */
export const MEMBERS = [
  "signer",
  "control_plane",
  "broker",
  "shim",
  "ctl",
  "debate",
  "deploy",
  "shared",
  "tests",
] as const;

/** A member of the workspace, or `deploy`. */
export type Member = (typeof MEMBERS)[number];

/**
 * Files that decide or encode and touch nothing else, each ending in `/` for a folder. They run with no
 * permission, and the same input gives the same output.
 */
const PURE = [
  "shared/audit/chain.ts",
  "shared/audit/chain_check.ts",
  "shared/audit/lines.ts",
  "shared/audit/record.ts",
  "shared/audit/segment_names.ts",
  "shared/audit/tail.ts",
  "shared/bytes.ts",
  "shared/characters.ts",
  "shared/ca/agent_protocol.ts",
  "shared/ca/model.ts",
  "shared/ca/vault_failure.ts",
  "shared/ca/vault_key.ts",
  "shared/config/comment_keys.ts",
  "shared/config/config_object.ts",
  "shared/config/json_notes.ts",
  "shared/config/json_pieces.ts",
  "shared/config/json_text.ts",
  "shared/config/jsonc.ts",
  "shared/config/near_miss.ts",
  "shared/config/plain_json.ts",
  "shared/config/problems.ts",
  "shared/config/reference.ts",
  "shared/config/shape.ts",
  "shared/config/signer_client.ts",
  "shared/envelope.ts",
  "shared/errors.ts",
  "shared/http/answer_parser.ts",
  "shared/http/caller.ts",
  "shared/http/listen_address.ts",
  "shared/http/problem.ts",
  "shared/json.ts",
  "shared/key_path.ts",
  "shared/oidc/claims.ts",
  "shared/oidc/model.ts",
  "shared/permissions/",
  "shared/policy/",
  "shared/quote.ts",
  "shared/redact/",
  "shared/shell_quote.ts",
  "shared/ssh/",
  "shared/state/columns.ts",
  "shared/steps.ts",
  "shared/strict_json.ts",
  "shared/visible.ts",
  "shared/wire/",
  "broker/config.ts",
  "broker/host_config.ts",
  "broker/permissions.ts",
  "broker/authority/ignored_keys.ts",
  "broker/authority/local_policy.ts",
  "broker/recording/asciicast.ts",
  "broker/route.ts",
  "broker/sessions/shell_protocol.ts",
  "control_plane/config.ts",
  "control_plane/permissions.ts",
  "control_plane/approval/age_queue.ts",
  "control_plane/approval/approval.ts",
  "control_plane/approval/key.ts",
  "control_plane/approval/record.ts",
  "control_plane/approval/transitions.ts",
  "control_plane/state/migrations.ts",
  "control_plane/state/rows.ts",
  "control_plane/state/store.ts",
  "control_plane/ui/",
  "control_plane/behavior/anomaly.ts",
  "control_plane/behavior/digest.ts",
  "control_plane/behavior/fingerprint.ts",
  "control_plane/behavior/rate_window.ts",
  "control_plane/behavior/subject.ts",
  "control_plane/behavior/subject_table.ts",
  "control_plane/behavior/tracker.ts",
  "control_plane/notify/approval_link.ts",
  "control_plane/notify/card_words.ts",
  "control_plane/notify/facts.ts",
  "control_plane/notify/log_line.ts",
  "control_plane/notify/redacted_record.ts",
  "control_plane/notify/signature.ts",
  "control_plane/notify/teams_message_card.ts",
  "control_plane/notify/teams_workflow.ts",
  "control_plane/notify/text.ts",
  "control_plane/notify/webhook_target.ts",
  "signer/config.ts",
  "signer/permissions.ts",
  "signer/state/migrations.ts",
  "signer/state/rows.ts",
  "signer/state/store.ts",
  "ctl/arguments.ts",
  "ctl/client_config.ts",
  "ctl/edit/",
  "ctl/init/der.ts",
  "ctl/init/guide.ts",
  "ctl/init/layout.ts",
  "ctl/init/options.ts",
  "ctl/start_arguments.ts",
  "shim/check.ts",
  "debate/graph/",
  "debate/report/",
  "debate/runs/prior_run.ts",
  "debate/runs/record.ts",
  "debate/web/same_origin.ts",
  "debate/tools/argv.ts",
  "debate/tools/command_words.ts",
  "debate/tools/elasticsearch_body.ts",
  "debate/tools/ip_address.ts",
  "debate/tools/kubectl_rules.ts",
  "debate/tools/net_guard.ts",
  "debate/tools/present.ts",
  "debate/tools/program_rules.ts",
  "debate/tools/sql_check.ts",
  "debate/context/glob.ts",
  "debate/context/secret_files.ts",
  "debate/context/redact_context.ts",
  "debate/models/model.ts",
  "debate/models/model_id.ts",
  "debate/models/families.ts",
  "debate/models/list_prices.ts",
  "debate/models/chat_request.ts",
  "debate/models/chat_reply.ts",
  "debate/models/chat_failure.ts",
  "debate/models/scenario.ts",
  "debate/benchmark/similarity.ts",
  "debate/benchmark/metrics.ts",
  "debate/benchmark/report.ts",
  "debate/cli/streamed_text.ts",
  "debate/cli/terminal.ts",
  "debate/prompts/parse_template.ts",
];

/** Where time, chance, the environment and the end of the process come from, beside every `main.ts`. */
const AMBIENT = [
  "ctl/start.ts",
  "debate/start.ts",
  "deploy/compile.ts",
  "deploy/gateway.ts",
  "shared/clock.ts",
  "shared/http/exchange.ts",
  "shared/http/mtls_server.ts",
  "shared/http/tls_listener.ts",
  "shared/random.ts",
  "shared/service.ts",
];

/**
 * The topics of `shared`, and which others each may build on; all may use the files beside these folders, which use
 * nothing but each other. What is below does not know who uses it.
 */
const SHARED_TOPICS: Readonly<Record<string, readonly string[]>> = {
  wire: [],
  ssh: [],
  config: [],
  redact: [],
  state: [],
  oidc: [],
  http: [],
  audit: ["redact"],
  // The policy pins host keys, and does not take one that nobody can read.
  policy: ["wire", "ssh"],
  ca: ["ssh", "policy"],
  permissions: ["ca", "http"],
};

/** The members that work with the others' contracts: they read and write configs, and start processes. */
const TOOLS: readonly string[] = ["ctl", "deploy"];

/** What the one program for everything is made of. */
const PROGRAMS: Readonly<Record<string, readonly string[]>> = {
  "deploy/gateway.ts": ["../broker/main.ts", "../ctl/program.ts"],
};

/** What may set timers beside tests: the one clock, and the debate's page, which a browser runs. */
const TIMING = ["shared/clock.ts", "debate/web/page/"];

/** The topics of `shared` that the debate may use: it has nothing to do with access. */
const DEBATE_TOPICS = [
  "config",
  "http",
  "errors",
  "clock",
  "redact",
  "atomic_file",
  "shell_quote",
  "token_bucket",
  "within",
  "testing/fake_clock",
  "testing/linear_work",
];

/** A path relative to the workspace, or `undefined` for a file outside. */
export function relativePath(fileName: string): string | undefined {
  const path = fileName.replace(/^file:\/\//, "");
  if (path.startsWith(ROOT)) return path.slice(ROOT.length);
  return path.startsWith("/") ? undefined : path;
}

/** The member that a path belongs to. */
export function memberOf(path: string): Member | undefined {
  return MEMBERS.find((member) => path.startsWith(`${member}/`));
}

/** Whether a path is a test, a bench, or a help to them. */
export function isTest(path: string): boolean {
  return path.startsWith("tests/") || path.includes("/testing/") || /_(?:test|bench)\.tsx?$/.test(path);
}

/** Whether a path must be pure. */
export function isPure(path: string): boolean {
  return !isTest(path) && PURE.some((entry) => entry.endsWith("/") ? path.startsWith(entry) : path === entry);
}

/** Whether a path may read the clock, chance and the environment, and end the process. */
export function isAmbient(path: string): boolean {
  return isTest(path) || AMBIENT.includes(path) || /(?:^|\/)main\.ts$/.test(path);
}

/** Whether a file of `shared` may import another one: of its own topic, or of one below. */
export function mayBuildOn(from: string, target: string): boolean {
  const [own, other] = [topicOf(from), topicOf(target)];
  return isTest(from) || own === other || other === "" || SHARED_TOPICS[own]?.includes(other) === true;
}

/** The folder of a file in `shared`; empty beside the folders. */
function topicOf(path: string): string {
  const [, topic = "", ...rest] = path.split("/");
  return rest.length === 0 ? "" : topic;
}

/** Whether a file may import another member's contract under this name: `@gateway/signer/config`, or its permissions. */
export function isContract(specifier: string, from: string): boolean {
  return PROGRAMS[from]?.includes(specifier) === true ||
    (TOOLS.includes(memberOf(from) ?? "") && /^@gateway\/[a-z-]+\/(?:config|permissions)$/.test(specifier));
}

/** Whether a path may wait by the machine's clock. */
export function mayTime(path: string): boolean {
  return isTest(path) || TIMING.some((entry) => path.startsWith(entry));
}

/** Whether the debate may use a file of `shared`. */
export function isForDebate(path: string): boolean {
  return DEBATE_TOPICS.some((topic) => path.startsWith(`shared/${topic}/`) || path === `shared/${topic}.ts`);
}

/** The file that an import means, relative to the workspace; `undefined` when it is a package or built in. */
export function resolveImport(specifier: string, from: string): string | undefined {
  const workspace = /^@gateway\/([^/]+)(?:\/(.*))?$/.exec(specifier);
  if (workspace !== null) return `${workspace[1]?.replaceAll("-", "_")}/${workspace[2] ?? "main"}.ts`;
  if (!specifier.startsWith(".")) return undefined;
  return new URL(specifier, `file:///${from}`).pathname.slice(1);
}
