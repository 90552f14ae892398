import { AppError } from "@gateway/shared/errors";
import {
  type CommandPolicy,
  type CommandVerdict,
  type CompiledHost,
  decideCommand,
  type HostPolicy,
  parseCommand,
  type SshDecision,
  toWireDecision,
} from "@gateway/shared/policy";
import { decideRequest, findHostRemedies, type HostQuestion } from "@gateway/shared/policy/analysis";
import { quoteText } from "@gateway/shared/text";
import { SESSION_MODES } from "@gateway/shared/wire";
import type { SignerConfig } from "@gateway/signer/config";
import { command, type Given, oneOf, optionOf } from "../kit/command.ts";
import { HintedError, invalid } from "../kit/output.ts";
import { formatWarnings, lintRule } from "../kit/lint_warnings.ts";
import { compileSigner, loadHosts, loadSignerFile } from "../kit/signer_file.ts";
import { EMPTY_CELL, formatRow, formatTable } from "../kit/table.ts";
import { explainCluster } from "./explain_cluster.ts";
import { findPlaces, formatChanges } from "./remedies.ts";

const TAKES = {
  "--host <name>": "host name",
  "--cluster <name>": "cluster name, instead of --host",
  "--command <text>": "command to decide",
  "--action <text>": "with --cluster: action to decide",
  "--session-mode <mode>": oneOf(SESSION_MODES, "session mode; without --command: decide opening a session"),
  "--caller <cn>": "caller CN (default: any caller that may use the host)",
  "--end-user <user>": "end user",
  "--end-user-groups <groups>": 'groups of the end user, separated by commas; "" for none',
  "--sudo": "run with sudo",
  "--sudo-user <user>": "with --sudo: account (default: root)",
  "--pty": "request a terminal",
  "--file-transfer": "decide a file transfer",
} as const;

type Flags = Given<typeof TAKES>;

const HOW = ["sudo", "sudoUser", "pty", "fileTransfer"] as const;

/** Options that apply to hosts only. */
const HOST_FLAGS = ["command", "sessionMode", ...HOW] as const;

/** Options that apply to a decision only. */
const INTENT_FLAGS = ["caller", "endUser", "endUserGroups", ...HOW] as const;

/** `policy explain`: the signer's decision, and its rule. */
export const EXPLAIN = command({
  name: "explain",
  summary: "Show the signer's decision and the matching rule.",
  takes: TAKES,
  help: `
Examples:
  broker-ctl policy explain --config /etc/gateway/signer.json --host web01
  broker-ctl policy explain --host web01 --command "systemctl restart nginx" --sudo
  broker-ctl policy explain --host web01 --command "ps aux | grep nginx" --caller broker-1 --end-user-groups web,db
  broker-ctl policy explain --host web01 --session-mode shell
  broker-ctl policy explain --cluster prod --action "delete pods web/shop-1" --end-user-groups ops

Decides from the signer's config alone, without the grants, waivers and freezes of a running signer. An action has the
form "<verb> <resource>[.<group>] [<namespace>[/<name>]]" with a plural resource; a list has no name, and - means
no namespace. For a denied request, "To allow" lists all changes of the config that it needs together. The exit code is
0 for every decision; scripts read decision.allowed of --json.
`,
  async run(flags, { workingFolder }) {
    const target = readTarget(flags);
    if (target.kind === "cluster") {
      refuseFlags(flags, HOST_FLAGS, "with --cluster");
      if (flags.action === undefined) refuseFlags(flags, INTENT_FLAGS, "without --action");
      const { action, caller, endUser = "" } = flags;
      const question = { action, caller, endUser, endUserGroups: readGroups(flags.endUserGroups) };
      return explainCluster(await loadSignerFile(flags.config, workingFolder), target.name, question);
    }
    const intent = readIntent(flags, target.name);
    const config = await loadHosts(flags.config, workingFolder);
    const policy = compileSigner(config);
    const host = policy.hosts.get(target.name);
    if (host === undefined) {
      const message = `Cannot find host ${quoteText(target.name)} in the config`;
      throw new HintedError(new AppError("unknown_host", message), "broker-ctl host list");
    }
    const source = config.hosts[host.name];
    const policies = source === undefined ? [] : listContributions(config, source);
    const sessions = host.commands.restricts ? "exec" : "any";
    const about = { host: host.name, groups: host.groups, policies, sessions };
    const lines = formatHost(host, policies);
    if (intent === undefined) return { json: about, lines };
    const decision = decideRequest(policy, host, intent);
    const steps = listSteps(host, intent.command).map(({ command, verdict }) => ({
      command,
      verdict: nameVerdict(verdict),
      rule: verdict.rule,
      policies: findPlaces(host, policies, verdict.rule),
    }));
    const texts = steps.map(({ command }) => command);
    const placesOf = (rule: string) =>
      findPlaces(host, policies, rule).map((name) => name === "<inline>" ? name : `policy ${name}`);
    const changes = decision.kind === "denied"
      ? findHostRemedies(policy, host, intent, { texts, placesOf })
      : undefined;
    const findings = decision.kind === "denied" ? [] : lintRule(decision.matchedRule, host.commands);
    return {
      json: {
        ...about,
        ...{ command: intent.command, steps, decision: toWireDecision(decision), changes, findings },
      },
      lines: [
        ...lines,
        ...formatDecision(intent.command, steps, decision),
        ...formatChanges(changes),
        ...formatWarnings(findings),
      ],
    };
  },
});

export function readTarget(
  { host, cluster, action }: { readonly host?: string; readonly cluster?: string; readonly action?: unknown },
): { readonly kind: "host" | "cluster"; readonly name: string } {
  if (cluster !== undefined && host === undefined) return { kind: "cluster", name: cluster };
  if (host === undefined || cluster !== undefined) throw invalid("Pass either --host or --cluster");
  if (action === undefined) return { kind: "host", name: host };
  throw invalid("Option '--action' has no effect with --host");
}

/** The intent in the flags; `undefined` if only the host is to be shown. */
function readIntent(flags: Flags, host: string): HostQuestion | undefined {
  const { command, sessionMode } = flags;
  if (command === undefined && sessionMode === undefined) {
    refuseFlags(flags, INTENT_FLAGS, "without --command");
    return undefined;
  }
  if (command === "") throw invalid("Cannot explain an empty command");
  if (flags.sudoUser !== undefined && flags.sudo !== true) {
    throw invalid("Option '--sudo-user' has no effect without --sudo");
  }
  const { caller, endUser = "", sudo = false, sudoUser = "", pty = false, fileTransfer = false } = flags;
  return {
    ...(caller !== undefined && { caller }),
    ...{ endUser, endUserGroups: readGroups(flags.endUserGroups), host, role: "target" },
    purpose: sessionMode === undefined ? "oneshot" : "session",
    ...{ sessionMode: sessionMode ?? "", command: command ?? "", ttlSeconds: 0 },
    ...{ sudo, sudoUser, pty, fileTransfer, contentSha256: "" },
  };
}

function refuseFlags(flags: Flags, names: readonly (keyof Flags)[], where: string): void {
  const name = names.find((name) => flags[name] !== undefined);
  if (name !== undefined) throw invalid(`Option '${optionOf(name)}' has no effect ${where}`);
}

function readGroups(text: string | undefined): readonly string[] | null {
  if (text === undefined) return null;
  return text.split(",").map((group) => group.trim()).filter((group) => group !== "");
}

const NAME_WIDTH = 16;

/** The facts about a host that are the same for every command. */
function formatHost(host: CompiledHost, contributions: ReturnType<typeof listContributions>) {
  const { restricts } = host.commands;
  return [
    `Host:      ${host.name} (${host.user} at ${host.addr})`,
    `Groups:    ${host.groups.length === 0 ? EMPTY_CELL : host.groups.join(", ")}`,
    "Command policies:",
    ...contributions.map(({ name, sources, label }) =>
      `  ${formatRow([name, `[${sources.join(",")}]`, label], [NAME_WIDTH, 10])}`
    ),
    ...(restricts ? [] : ["  (no restrictions: every command is allowed)"]),
    `Sessions:  ${
      restricts
        ? "exec only, and each command is decided before it runs; shell and pty are denied"
        : "allowed"
    }`,
  ];
}

function formatDecision(
  command: string,
  steps: readonly (Readonly<Record<"command" | "verdict" | "rule", string>> & {
    readonly policies: readonly string[];
  })[],
  decision: SshDecision,
): readonly string[] {
  const rows = steps.map(({ command, verdict, rule, policies }, index) => [
    ...[
      `${index + 1}.`,
      command,
      verdict,
      rule || EMPTY_CELL,
      policies.length === 0 ? "" : `in ${policies.join(", ")}`,
    ],
  ]);
  const table = formatTable(["", "", "", "", ""], rows);
  return [
    "",
    `Command:   ${command === "" ? "(open a session)" : command}`,
    ...(steps.length === 0 ? [] : table.slice(1).map((line) => `  ${line}`)),
    `Decision:  ${describeDecision(decision)}`,
    ...(decision.kind === "denied" ? [`Reason:    ${decision.reason}`] : [
      ...(decision.forceCommand === "" ? [] : [`Runs:      ${decision.forceCommand}`]),
      ...(decision.elevationPrefix === "" ? [] : [`Prefix:    ${decision.elevationPrefix}`]),
      `Valid for: ${decision.ttlSeconds}s`,
    ]),
  ];
}

/** The verdict in capitals, and the rule behind it. */
function describeDecision(decision: SshDecision): string {
  const rule = `(${decision.matchedRule || EMPTY_CELL})`;
  if (decision.kind === "denied") return `DENIED ${rule}`;
  const { wouldDeny, wouldRequireApproval } = decision;
  if (wouldDeny || wouldRequireApproval) {
    const would = [
      ...(wouldDeny ? ["would deny"] : []),
      ...(wouldRequireApproval ? ["would require approval"] : []),
    ];
    return `ALLOWED with audit warning (${would.join(" and ")}) ${rule}`;
  }
  return decision.requireApproval ? `ALLOWED, requires approval ${rule}` : `ALLOWED ${rule}`;
}

function nameVerdict({ kind, requireApproval }: CommandVerdict): string {
  if (kind === "denied") return "denied";
  return requireApproval ? "approval" : "allowed";
}

/**
 * The command policies of a host in the order of evaluation, each once: those of `_default`, of its groups, and its own
 * if that restricts anything. Each has its name in the library, the first group and all groups that bring it, and its
 * contents in a few words.
 */
export function listContributions(
  library: Pick<SignerConfig, "command_policies" | "group_command_policies">,
  host: HostPolicy,
) {
  const found = new Map<
    string,
    Readonly<Record<"name" | "via" | "label", string>> & { readonly sources: string[] }
  >();
  for (const via of new Set(["_default", ...(host.groups ?? [])])) {
    for (const name of new Set(library.group_command_policies[via])) {
      const policy = library.command_policies[name];
      found.get(name)?.sources.push(via);
      if (policy !== undefined && !found.has(name)) {
        found.set(name, { name, via, sources: [via], label: describePolicy(policy) });
      }
    }
  }
  const inline = host.command_policy;
  const { mode = "", require_approval: approval = [] } = inline ?? {};
  return inline === undefined || ((mode === "" || mode === "off") && approval.length === 0)
    ? [...found.values()]
    : [...found.values(), {
      name: "<inline>",
      via: "host",
      sources: ["host"],
      label: describePolicy(inline),
    }];
}

function describePolicy(policy: CommandPolicy): string {
  const { mode = "", allow = [], deny = [], require_approval: approval = [] } = policy;
  const parts = [
    ...(mode === "allowlist" ? [`allowlist(allow:${allow.length})`] : []),
    ...(mode === "denylist" ? [`denylist(deny:${deny.length})`] : []),
    ...(mode === "allowlist" && deny.length > 0 ? [`deny:${deny.length}`] : []),
    ...(approval.length > 0 ? [`approval:${approval.length}`] : []),
    ...(policy.shell_parse === false ? ["shell_parse:off"] : []),
    ...(policy.enforcement === "audit" ? ["audit"] : []),
  ];
  return parts.length === 0 ? "off" : parts.join(" ");
}

/**
 * The simple commands in a text, their words joined by spaces as patterns match them, each with the verdict of a host's
 * rules before enforcement; none for a host without rules.
 */
export function listSteps({ commands }: CompiledHost, command: string) {
  if (!commands.restricts || command === "") return [];
  const parsed = commands.parses ? parseCommand(command) : undefined;
  if (parsed === undefined || parsed.kind === "refused") {
    return [{ command, verdict: decideCommand(commands, command) }];
  }
  // Each command is already parsed: patterns match its words, which no shell parses again.
  const rules = { ...commands, parses: false };
  return parsed.commands.map((words) => {
    const text = words.join(" ");
    return { command: text, verdict: decideCommand(rules, text) };
  });
}
