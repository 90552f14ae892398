import type { Clock } from "@gateway/shared/clock";
import type { Settings } from "../settings/config.ts";
import { createGitRecentChanges } from "./git_recent_changes.ts";
import { type Explain, explainPostgres } from "./explain_postgres.ts";
import { createHttpGet } from "./http_get.ts";
import type { HttpPorts } from "./http_fetch.ts";
import { compileAllowList } from "./net_guard.ts";
import type { Redact } from "./define_tool.ts";
import { createQueryElasticsearch } from "./query_elasticsearch.ts";
import { createQueryLoki } from "./query_loki.ts";
import { createQueryPrometheus } from "./query_prometheus.ts";
import { createRunDbExplain } from "./run_db_explain.ts";
import { createRunKubectl } from "./run_kubectl.ts";
import { createRunLocalCommand, type ReadableFolders } from "./run_local_command.ts";
import { createProgramRunner, type RunProgram } from "./run_program.ts";
import { createRunSshCommand } from "./run_ssh_command.ts";
import type { Tool } from "../engine/ports.ts";
import { AppError } from "@gateway/shared/errors";
import { findInside, resolveRoots } from "../context/roots.ts";
import { createHttpExchange, systemResolve } from "./http_exchange.ts";

/** What gives tools access to the outside world; `createToolPorts` creates the ports of this machine. */
export interface ToolPorts {
  readonly clock: Clock;
  readonly redact: Redact;
  readonly http: HttpPorts;
  readonly runProgram: RunProgram;
  readonly explain: Explain;
  readonly folders: ReadableFolders;
  readonly env: Readonly<Record<string, string>>;
}

/** The variables by which `ssh` and `kubectl` find keys, agent and clusters; no other program gets them. */
export const TOOL_ENV_NAMES = [
  "HOME",
  "SSH_AUTH_SOCK",
  "KUBECONFIG",
  "KUBERNETES_SERVICE_HOST",
  "KUBERNETES_SERVICE_PORT",
] as const;

/** The enabled tools, always in the same order. Unknown names in `ENABLED_TOOLS` are ignored. */
export function createTools(settings: Settings, ports: ToolPorts): readonly Tool[] {
  if (!settings.TOOLS_ENABLED) return [];
  const { http, runProgram, folders, explain, env } = ports;
  const pick = (...names: readonly string[]) =>
    Object.fromEntries(Object.entries(env).filter(([name]) => names.includes(name)));
  const ssh = {
    defaultUser: settings.SSH_DEFAULT_USER,
    keyPath: settings.SSH_KEY_PATH,
    knownHosts: settings.SSH_KNOWN_HOSTS,
    connectTimeoutSeconds: settings.SSH_CONNECT_TIMEOUT,
    env: pick("HOME", "SSH_AUTH_SOCK"),
  };
  const tools = [
    createHttpGet(http, compileAllowList(settings.HTTP_ALLOWED_HOSTS), ports),
    createQueryPrometheus(settings.PROMETHEUS_URL, http, ports),
    createQueryLoki(settings.LOKI_URL, http, ports),
    createQueryElasticsearch(settings.ELASTICSEARCH_URL, http, ports),
    createGitRecentChanges({ runProgram, folders }, ports),
    createRunDbExplain(settings.DATABASE_URL, explain, ports),
    createRunLocalCommand({ runProgram, folders }, ports),
    createRunSshCommand(ssh, runProgram, ports),
    createRunKubectl(
      pick("HOME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"),
      runProgram,
      ports,
    ),
  ];
  const { ENABLED_TOOLS: enabled } = settings;
  return enabled.length === 0 ? tools : tools.filter(({ name }) => enabled.includes(name));
}

interface ToolPortsOptions {
  readonly settings: Pick<Settings, "ALLOWED_PROJECT_ROOTS" | "REQUESTS_CA_BUNDLE" | "SSL_CERT_FILE">;
  readonly clock: Clock;
  readonly redact: Redact;
  readonly env: Readonly<Record<string, string>>;
}

export async function createToolPorts(
  { settings, clock, redact, env }: ToolPortsOptions,
): Promise<ToolPorts> {
  const ca = await readCa(settings);
  const roots = () => resolveRoots(settings.ALLOWED_PROJECT_ROOTS);
  return {
    clock,
    redact,
    env,
    http: { exchange: createHttpExchange(ca), resolve: systemResolve },
    runProgram: createProgramRunner(clock),
    explain: explainPostgres,
    folders: { roots, find: async (path) => await findInside(path, await roots()) },
  };
}

async function readCa(
  { REQUESTS_CA_BUNDLE: bundle, SSL_CERT_FILE: file }: ToolPortsOptions["settings"],
): Promise<string | undefined> {
  const path = bundle === "" ? file : bundle;
  if (path === "") return undefined;
  try {
    return await Deno.readTextFile(path);
  } catch (cause) {
    const name = bundle === "" ? "SSL_CERT_FILE" : "REQUESTS_CA_BUNDLE";
    throw new AppError("invalid_config", `Cannot read ${name} "${path}"`, { cause });
  }
}
