import type { Clock } from "@gateway/shared/clock";
import { errorText } from "@gateway/shared/errors";
import { readNamedText } from "@gateway/shared/files";
import { findInside, resolveRoots } from "../context/secret_files.ts";
import type { Tool } from "../engine/ports.ts";
import type { Settings } from "../settings/config.ts";
import type { Redact, ToolOffer, ToolPorts } from "./define_tool.ts";
import { explainPostgres, runDbExplain } from "./explain_postgres.ts";
import { createHttpPorts } from "./http_fetch.ts";
import { httpGet, queryElasticsearch } from "./http_tools.ts";
import { listLoki, queryLoki } from "./loki.ts";
import { listPrometheus, queryPrometheus } from "./prometheus.ts";
import type { McpServer } from "./mcp_server.ts";
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

/** The built-in tools in a fixed order. */
export function createTools(settings: Settings, ports: ToolPorts): readonly ToolOffer[] {
  const world = { settings, ports, allowed: compileAllowList(settings.HTTP_ALLOWED_HOSTS) };
  return TOOLS.map((open) => open(world));
}

/** A tool in `GET /api/settings`. */
interface ToolStatus extends Pick<Tool, "name" | "description"> {
  readonly available: boolean;
  /** The reason why the tool is off; `null` if it is available. */
  readonly why: string | null;
  /** Whether calls wait for approval in a run that requires it. */
  readonly needs_approval: boolean;
}

export interface Toolset {
  /** The tools that can work. */
  readonly tools: readonly Tool[];
  readonly statuses: readonly ToolStatus[];
}

/** Programs and servers are checked again after this time. */
const FRESH_MS = 60_000;

/** Returns a function that finds the tools that can work. Unknown names in `ENABLED_TOOLS` are ignored. */
export function openToolset(
  settings: Settings,
  ports: ToolPorts,
  servers: readonly McpServer[] = [],
): () => Promise<Toolset> {
  const { TOOLS_ENABLED, ENABLED_TOOLS, APPROVAL_REQUIRED_TOOLS } = settings;
  const builtIn = createTools(settings, ports);
  const whyOff = async (tool: ToolOffer) => {
    if (!TOOLS_ENABLED) return "TOOLS_ENABLED is false";
    const isListed = ENABLED_TOOLS.length === 0 || ENABLED_TOOLS.includes(tool.name);
    return isListed ? await tool.missing() : "ENABLED_TOOLS does not contain it";
  };
  const check = async (): Promise<Toolset> => {
    const offers = [
      ...builtIn,
      ...(await Promise.all((TOOLS_ENABLED ? servers : []).map((offers) => offers()))).flat(),
    ];
    const checked = await Promise.all(
      offers.map(async (tool) => ({ tool, why: await whyOff(tool).catch(errorText) })),
    );
    return {
      tools: checked.flatMap(({ tool, why }) => why === undefined ? tool : []),
      statuses: checked.map(({ tool: { name, description, needsApproval = false }, why }) => ({
        name,
        description,
        available: why === undefined,
        why: why ?? null,
        needs_approval: needsApproval || APPROVAL_REQUIRED_TOOLS.includes(name),
      })),
    };
  };
  let last: { readonly at: number; readonly found: Promise<Toolset> } | undefined;
  return () => {
    const now = ports.clock.now();
    if (last === undefined || now - last.at > FRESH_MS || now < last.at) last = { at: now, found: check() };
    return last.found;
  };
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
    exists,
    folders: {
      roots,
      find: async (path) => await findInside(path, await roots()),
    },
  };
}

async function exists(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => true, (error) => error instanceof Deno.errors.NotCapable);
}

/** The CAs of the settings as PEM, or `undefined` for the built-in CAs. */
export async function readCa(
  { REQUESTS_CA_BUNDLE: bundle, SSL_CERT_FILE: file }: Pick<Settings, "REQUESTS_CA_BUNDLE" | "SSL_CERT_FILE">,
): Promise<string | undefined> {
  if (bundle !== "") return await readNamedText("REQUESTS_CA_BUNDLE", bundle);
  return file === "" ? undefined : await readNamedText("SSL_CERT_FILE", file);
}
