/**
 * The tools of a debate.
 *
 * @module
 */
import type { Clock } from "@gateway/shared/clock";
import type { Settings } from "../settings/config.ts";
import { createGitRecentChanges } from "./git_recent_changes.ts";
import type { Explain } from "./explain_postgres.ts";
import { createHttpGet } from "./http_get.ts";
import type { HttpPorts } from "./http_fetch.ts";
import { compileAllowList } from "./net_guard.ts";
import type { Redact } from "./present.ts";
import { createQueryElasticsearch } from "./query_elasticsearch.ts";
import { createQueryLoki } from "./query_loki.ts";
import { createQueryPrometheus } from "./query_prometheus.ts";
import { createRunDbExplain } from "./run_db_explain.ts";
import { createRunKubectl } from "./run_kubectl.ts";
import { createRunLocalCommand, type ReadableFolders } from "./run_local_command.ts";
import type { RunProgram } from "./run_program.ts";
import { createRunSshCommand } from "./run_ssh_command.ts";
import type { Tool } from "../engine/tool.ts";

export type ToolSettings = Pick<
  Settings,
  | "TOOLS_ENABLED"
  | "ENABLED_TOOLS"
  | "HTTP_ALLOWED_HOSTS"
  | "PROMETHEUS_URL"
  | "LOKI_URL"
  | "ELASTICSEARCH_URL"
  | "DATABASE_URL"
  | "SSH_DEFAULT_USER"
  | "SSH_KEY_PATH"
  | "SSH_KNOWN_HOSTS"
  | "SSH_CONNECT_TIMEOUT"
>;

/** What gives tools access to the outside world; `createToolPorts` creates the ports of this machine. */
export interface ToolPorts {
  readonly clock: Clock;
  readonly redact: Redact;
  readonly http: HttpPorts;
  readonly runProgram: RunProgram;
  readonly explain: Explain;
  readonly folders: ReadableFolders;
  /** The variables of {@linkcode TOOL_ENV_NAMES} that are set. */
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

/**
 * The enabled tools, always in the same order. Unknown names in `ENABLED_TOOLS` are ignored.
 *
 * @throws {AppError} `invalid_config` when `HTTP_ALLOWED_HOSTS` has an invalid entry
 */
export function createTools(settings: ToolSettings, ports: ToolPorts): readonly Tool[] {
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
