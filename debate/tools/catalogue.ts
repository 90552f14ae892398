import type { Clock } from "@gateway/shared/clock";
import { readNamedText } from "@gateway/shared/files";
import { findInside, resolveRoots } from "../context/secret_files.ts";
import type { Tool } from "../engine/ports.ts";
import type { Settings } from "../settings/config.ts";
import type { Redact, ToolPorts } from "./define_tool.ts";
import { explainPostgres, runDbExplain } from "./explain_postgres.ts";
import { createHttpPorts } from "./http_fetch.ts";
import { httpGet, queryElasticsearch } from "./http_tools.ts";
import { listLoki, queryLoki } from "./loki.ts";
import { listPrometheus, queryPrometheus } from "./prometheus.ts";
import { compileAllowList } from "./net_guard.ts";
import { gitRecentChanges, runKubectl, runLocalCommand, runSshCommand } from "./program_tools.ts";
import { PROGRAM_RULES } from "./program_rules.ts";
import { createProgramRunner } from "./run_program.ts";
import { openRunner } from "./sandbox.ts";

/** `ssh` and `kubectl` find keys, agent and clusters by these variables. No other program gets them. */
export const TOOL_ENV_NAMES = [
  "HOME",
  "SSH_AUTH_SOCK",
  "KUBECONFIG",
  "KUBERNETES_SERVICE_HOST",
  "KUBERNETES_SERVICE_PORT",
] as const;

const TOOLS = [
  httpGet,
  queryPrometheus,
  listPrometheus,
  queryLoki,
  listLoki,
  queryElasticsearch,
  gitRecentChanges,
  runDbExplain,
  runLocalCommand,
  runSshCommand,
  runKubectl,
];

const PROGRAMS_OF_TOOLS: Readonly<Record<string, readonly string[]>> = {
  git_recent_changes: ["git"],
  run_local_command: Object.keys(PROGRAM_RULES),
  run_ssh_command: ["ssh"],
  run_kubectl: ["kubectl"],
};

type Enabled = Pick<Settings, "TOOLS_ENABLED" | "ENABLED_TOOLS">;

/** The programs that the enabled tools start. */
export function programsOf({ TOOLS_ENABLED, ENABLED_TOOLS }: Enabled): readonly string[] {
  if (!TOOLS_ENABLED) return [];
  const programs = Object.entries(PROGRAMS_OF_TOOLS).flatMap(([tool, names]) =>
    ENABLED_TOOLS.length === 0 || ENABLED_TOOLS.includes(tool) ? names : []
  );
  return [...new Set(programs)];
}

/** The enabled tools in a fixed order. Unknown names in `ENABLED_TOOLS` are ignored. */
export function createTools(settings: Settings, ports: ToolPorts): readonly Tool[] {
  if (!settings.TOOLS_ENABLED) return [];
  const world = { settings, ports, allowed: compileAllowList(settings.HTTP_ALLOWED_HOSTS) };
  const { ENABLED_TOOLS: enabled } = settings;
  return TOOLS.map((open) => open(world))
    .filter(({ name }) => enabled.length === 0 || enabled.includes(name));
}

export async function createToolPorts({ settings, clock, redact, env }: {
  readonly settings:
    & Enabled
    & Pick<Settings, "ALLOWED_PROJECT_ROOTS" | "REQUESTS_CA_BUNDLE" | "SSL_CERT_FILE">;
  readonly clock: Clock;
  readonly redact: Redact;
  readonly env: Readonly<Record<string, string>>;
}): Promise<ToolPorts & { readonly sandboxProblem: string | undefined }> {
  const roots = () => resolveRoots(settings.ALLOWED_PROJECT_ROOTS);
  const plain = createProgramRunner(clock);
  const { runProgram, problem } = programsOf(settings).length === 0
    ? { runProgram: plain, problem: undefined }
    : await openRunner(plain, clock);
  return {
    sandboxProblem: problem,
    clock,
    redact,
    env,
    http: createHttpPorts(await readCa(settings)),
    runProgram,
    explain: explainPostgres,
    folders: { roots, find: async (path) => await findInside(path, await roots()) },
  };
}

/** The CAs of the settings as PEM, or `undefined` for the built-in CAs. */
export async function readCa(
  { REQUESTS_CA_BUNDLE: bundle, SSL_CERT_FILE: file }: Pick<Settings, "REQUESTS_CA_BUNDLE" | "SSL_CERT_FILE">,
): Promise<string | undefined> {
  if (bundle !== "") return await readNamedText("REQUESTS_CA_BUNDLE", bundle);
  return file === "" ? undefined : await readNamedText("SSL_CERT_FILE", file);
}
