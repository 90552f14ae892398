import { isTest } from "./files.ts";

/**
 * What does something: reads, writes, connects, starts a program, or joins files that do; a folder ends with a slash.
 * Every other file is pure, but for the {@linkcode JOINTS} of a member.
 */
export const ADAPTERS: readonly string[] = [
  "shared/atomic_file.ts",
  "shared/audit/file_lock.ts",
  "shared/audit/log_file.ts",
  "shared/audit/file_log.ts",
  "shared/audit/newest_lines.ts",
  "shared/audit/put_aside.ts",
  "shared/audit/repair.ts",
  "shared/audit/restore.ts",
  "shared/audit/segments.ts",
  "shared/audit/service_audit.ts",
  "shared/audit/verify.ts",
  "shared/ca/agent.ts",
  "shared/ca/azure_key_vault.ts",
  "shared/ca/load.ts",
  "shared/ca/vault_client.ts",
  "shared/config/load.ts",
  "shared/edit_lock.ts",
  "shared/files.ts",
  "shared/histogram.ts",
  "shared/http/certificate_metrics.ts",
  "shared/http/client_connections.ts",
  "shared/http/json_client.ts",
  "shared/http/upstreams.ts",
  "shared/http/keep_listener_fresh.ts",
  "shared/http/monitor.ts",
  "shared/http/pem_file.ts",
  "shared/http/plain_server.ts",
  "shared/http/tls_material.ts",
  "shared/http/tls_server.ts",
  "shared/kubernetes/api_server.ts",
  "shared/kubernetes/cluster_api.ts",
  "shared/kubernetes/cluster_files.ts",
  "shared/log.ts",
  "shared/metrics.ts",
  "shared/no_storage.ts",
  "shared/process_metrics.ts",
  "shared/state/postgres_access.ts",
  "shared/state/postgres_session.ts",
  "shared/state/postgres_socket.ts",
  "shared/state/schema.ts",
  "shared/state/sqlite_access.ts",
  "shared/state/sqlite_database.ts",
  "shared/version.ts",
  "signer/config_file.ts",
  "signer/snapshot.ts",
  "signer/state/postgres.ts",
  "signer/state/sqlite.ts",
  "signer/watch_config.ts",
  "control_plane/state/postgres.ts",
  "control_plane/state/sqlite.ts",
  "broker/authority/load.ts",
  "broker/authority/load_local.ts",
  "broker/command_line.ts",
  "broker/connect.ts",
  "broker/frontends/mcp_sockets.ts",
  "broker/frontends/mcp_stdio.ts",
  "broker/kubernetes/connect.ts",
  "broker/monitor.ts",
  "broker/recording/file.ts",
  "broker/sessions/connect_session.ts",
  "broker/sessions/start.ts",
  "broker/ssh/connect.ts",
  "broker/ssh/connect_route.ts",
  "broker/ssh/ephemeral_key.ts",
  "broker/ssh/run_command.ts",
  "broker/ssh/ssh2_library.ts",
  "broker/ssh/transport.ts",
  "ctl/audit/deployment_logs.ts",
  "ctl/audit/follow.ts",
  "ctl/audit/follow_set.ts",
  "ctl/audit/key.ts",
  "ctl/audit/last_lines.ts",
  "ctl/audit/list_log_set.ts",
  "ctl/audit/read_logs.ts",
  "ctl/audit/remembered_heads.ts",
  "ctl/audit/verify_deployment.ts",
  "ctl/audit/verify_log.ts",
  "ctl/backup/copy.ts",
  "ctl/backup/make.ts",
  "ctl/backup/restore.ts",
  "ctl/backup/signature.ts",
  "ctl/backup/sources.ts",
  "ctl/bridge/main.ts",
  "ctl/bridge/mattermost.ts",
  "ctl/bridge/slack.ts",
  "ctl/bridge/start.ts",
  "ctl/bridge/start_bridge.ts",
  "ctl/bridge/store.ts",
  "ctl/broker_reach.ts",
  "ctl/commands/",
  "ctl/doctor/file_checks.ts",
  "ctl/doctor/live_checks.ts",
  "ctl/doctor/running_checks.ts",
  "ctl/doctor/upstream_checks.ts",
  "ctl/edit/locked_text.ts",
  "ctl/edit_signer_file.ts",
  "ctl/enrol/carry_out.ts",
  "ctl/enrol/next_ca.ts",
  "ctl/enrol/try_login.ts",
  "ctl/find_client.ts",
  "ctl/identity/authority.ts",
  "ctl/identity/bundle_password.ts",
  "ctl/identity/control_plane_file.ts",
  "ctl/identity/denied.ts",
  "ctl/identity/ends_soon.ts",
  "ctl/identity/folder.ts",
  "ctl/identity/issued.ts",
  "ctl/identity/last_seen.ts",
  "ctl/identity/own_folder.ts",
  "ctl/identity/set_up.ts",
  "ctl/init/check_folder.ts",
  "ctl/init/import_ssh_config.ts",
  "ctl/init/material.ts",
  "ctl/init/register_mcp.ts",
  "ctl/init/write.ts",
  "ctl/init/x509.ts",
  "ctl/join/read_api_logs.ts",
  "ctl/program.ts",
  "ctl/over_ssh.ts",
  "ctl/read_file.ts",
  "ctl/read_keys.ts",
  "ctl/remote.ts",
  "ctl/run_program.ts",
  "ctl/scan_host_key.ts",
  "ctl/service_permissions.ts",
  "ctl/signal_signer.ts",
  "ctl/signer_change.ts",
  "ctl/signer_file.ts",
  "ctl/status/read_monitor.ts",
  "ctl/wait_for_hosts.ts",
  "debate/cli/benchmark_command.ts",
  "debate/lab/comparison_command.ts",
  "debate/cli/environment.ts",
  "debate/lab/load_incidents.ts",
  "debate/lab/program.ts",
  "debate/cli/login_command.ts",
  "debate/cli/machine.ts",
  "debate/cli/program.ts",
  "debate/cli/prompts_command.ts",
  "debate/cli/run_command.ts",
  "debate/cli/run_input.ts",
  "debate/cli/runs_command.ts",
  "debate/cli/runs_commands.ts",
  "debate/cli/serve_command.ts",
  "debate/cli/stored_runs.ts",
  "debate/context/collect.ts",
  "debate/context/project.ts",
  "debate/context/roots.ts",
  "debate/models/device_flow.ts",
  "debate/models/fixed_token.ts",
  "debate/models/openai_chat.ts",
  "debate/models/prices.ts",
  "debate/models/providers.ts",
  "debate/models/scenarios.ts",
  "debate/models/token_file.ts",
  "debate/permissions.ts",
  "debate/prompts/templates.ts",
  "debate/runs/disk_folder.ts",
  "debate/tools/audit_log.ts",
  "debate/tools/backend.ts",
  "debate/tools/catalogue.ts",
  "debate/tools/explain_postgres.ts",
  "debate/tools/http_exchange.ts",
  "debate/tools/http_fetch.ts",
  "debate/tools/http_get.ts",
  "debate/tools/ports.ts",
  "debate/tools/query_elasticsearch.ts",
  "debate/tools/query_loki.ts",
  "debate/tools/query_prometheus.ts",
  "debate/tools/run_program.ts",
  "debate/web/page/",
  "debate/web/run_handlers.ts",
  "debate/web/settings_handlers.ts",
  "debate/web/start_server.ts",
  "deploy/",
  "shim/nonce_store.ts",
];

/** Where the files of a member are joined to a program. */
const JOINTS = /^\w+\/(?:web\/)?(?:main|app|start|serve(?:_\w+)?)\.ts$/;

/** Where time, chance, the environment and the end of the process come from, beside every `main.ts`. */
const AMBIENT: readonly string[] = [
  "broker/connect.ts",
  "ctl/bridge/main.ts",
  "ctl/bridge/start.ts",
  "ctl/start.ts",
  "debate/start.ts",
  "deploy/compile.ts",
  "deploy/gateway.ts",
  "deploy/release.ts",
  "shared/clock.ts",
  "shared/http/exchange.ts",
  "shared/http/mtls_server.ts",
  "shared/http/listener.ts",
  "shared/random.ts",
  "shared/request_context.ts",
  "shared/service.ts",
];

/** A browser runs it. */
const PAGE = "debate/web/page/";

/** What may set timers beside tests. */
const TIMING = ["shared/clock.ts", PAGE];

/**
 * What a pure file may import of what is not pure: modules of the platform and packages that do nothing by
 * themselves, and of others the mere functions. What is not listed does something.
 */
const HARMLESS: Readonly<Record<string, readonly string[] | "all" | "no chance">> = {
  "node:assert/strict": "all",
  "node:buffer": "all",
  "node:crypto": "no chance",
  "node:events": "all",
  "node:net": ["BlockList", "isIP", "isIPv4", "isIPv6"],
  "node:path": "all",
  "node:stream": "all",
  "node:url": "all",
  "node:util": "all",
  "@fastify/busboy": "all",
  "@hono/hono": "all",
  "@logtape/logtape": "all",
  "@modelcontextprotocol/server": "all",
  "@panva/jose": ["compactVerify", "createLocalJWKSet", "errors"],
  "@peculiar/x509": "all",
  "@zod/zod": "all",
  "commander": "all",
  "ipaddr.js": "all",
  "jsonc-parser": "all",
  "prom-client": "all",
  "prom-client/lib/counter.js": "all",
  "prom-client/lib/gauge.js": "all",
  "prom-client/lib/registry.js": "all",
  "markdown-it": "all",
  "re2js": "all",
  "sshpk": "all",
  "unbash": "all",
  "yaml": "all",
  "shared/clock.ts": ["every"],
  "shared/config/load.ts": ["parseConfig", "parseConfigSteps"],
  "shared/random.ts": ["randomSerial"],
  "shared/request_context.ts": "all",
  "shared/version.ts": ["VERSION"],
};

const CHANCE = /^(?:random|generateKey|webcrypto)/;

/** Whether a path must be pure: the same input gives the same output, and nothing else happens. */
export function isPure(path: string): boolean {
  return !isTest(path) && !isAmbient(path) && !JOINTS.test(path) && !isAdapter(path);
}

/** Whether a path may read the clock, chance and the environment, and end the process. */
export function isAmbient(path: string): boolean {
  return isTest(path) || AMBIENT.includes(path) || path.startsWith(PAGE) || /(?:^|\/)main\.ts$/.test(path);
}

/** Whether a path may wait by the machine's clock. */
export function mayTime(path: string): boolean {
  return isTest(path) || TIMING.some((entry) => path.startsWith(entry));
}

/** Whether a pure file may take these names from a module or an adapter; no names are all that it has. */
export function isHarmless(module: string, names: readonly string[]): boolean {
  const harmless = HARMLESS[module] ?? [];
  if (harmless === "all") return true;
  return names.length > 0 &&
    names.every((name) => harmless === "no chance" ? !CHANCE.test(name) : harmless.includes(name));
}

function isAdapter(path: string): boolean {
  return ADAPTERS.some((entry) => entry.endsWith("/") ? path.startsWith(entry) : path === entry);
}
