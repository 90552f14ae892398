/**
 * Runs `broker-ctl` on a real installation and writes pictures of its output. `deno task docs:pictures`
 *
 * With a directory as its argument, it writes the output of all commands there, at 80 and at 120 columns.
 *
 * @module
 */
import { signBody } from "../bench/sign_request.ts";
import { drawTerminal } from "../documents/terminal_svg.ts";
import { denoDir } from "../stage/deno_dir.ts";
import { poll } from "../stage/poll.ts";
import { run } from "../stage/run.ts";
import { ROOT } from "../stage/service_command.ts";
import { editConfig, HOST, post, Stage } from "../stage/stage.ts";
import { McpProcess } from "./mcp_process.ts";
import { SessionClient } from "./session_client.ts";
import { photograph } from "./terminal.ts";

/** Pictures show this path, so it is short and the same each time. */
const LAB = "/tmp/lab";
const RESTART = "systemctl restart nginx";
const QUERY = "select pid, query from pg_stat_activity where state = $$active$$ order by query_start";

/** The hosts and their groups. Sessions on build01 can be shells, because its group has no command policy. */
const HOSTS = { [HOST]: "web", web02: "web", db01: "db", build01: "local" };
const rules = (allow: readonly string[], ...require_approval: readonly string[]) => ({
  ...{ mode: "allowlist", allow, require_approval },
});
const POLICY = [
  { path: ["callers", "broker-local", "allowed_groups"], value: ["local", "web", "db"] },
  { path: ["command_policies", "web"], value: rules([`^${RESTART}$`], `^${RESTART}$`) },
  { path: ["command_policies", "db"], value: rules(["^pg_dump [a-z]+$", "^psql -c"], "^p") },
  { path: ["group_command_policies"], value: { web: ["starter", "web"], db: ["starter", "db"] } },
];

/** The requests that the policy denies or holds for approval: end user, host, command and reason. */
const REQUESTS = [
  ["agent-7", "web02", RESTART, "nginx serves 502 since the upgrade at 14:05; nginx -t is fine"],
  ["ann", "db01", "pg_dump shop", "copy for the staging database, OPS-1432"],
  ["agent-7", "db01", `psql -c '${QUERY}'`, "find the query that blocks the checkout"],
  ["agent-7", HOST, "rm -rf /var/log", "the disk is full"],
] as const;

/** The pictures of the guides, each with its commands. */
const PICTURES = {
  approvals: ["approval list", "approval watch"],
  audit: ["audit show --since 1h --limit 8", "audit verify"],
  doctor: ["doctor"],
  sessions: ["session list", "recording list"],
};

/** All commands, in an order in which each finds what it shows. `ID` is a pending request, `SESSION` a session. */
const COMMANDS = [
  ...["--help", "help host edit", "context list", "whoami", "status", "doctor", "doctor --level lab"],
  ...["host list", "host list -o wide", "host show web01", "identity list", "identity show agent"],
  ...["host edit web01 --policy-mode denylist --deny '^reboot' --dry-run", "callers list"],
  ...["policy lint", "policy grants", `policy explain --host web01 --command '${RESTART}'`],
  ...["policy explain --host db01 --command 'cat /etc/shadow'", "approval list", "approval list -o wide"],
  ...["approval show ID", "approval watch", "approval allow ID --learn --ttl 30m"],
  ...["approval list --status approved", "freeze add --end-user agent-9 --reason INC-43", "freeze list"],
  ...["freeze remove --end-user agent-9", "session list", "session kill SESSION --reason INC-43"],
  ...["recording list", "recording play SESSION", "audit show --limit 12", "audit verify", "reload"],
  ...["audit show --outcome denied -o wide", "host show web09", "hots list", "approval show ffff"],
  ...["host list --context prod", "session list --url 127.0.0.1:9"],
  ...["approval list --cert gateway/pki/agent.crt --key gateway/pki/agent.key"],
];

await Deno.mkdir(LAB, { mode: 0o700 });
await using resources = new AsyncDisposableStack();
resources.defer(() => Deno.remove(LAB, { recursive: true }));
const [PATH, DENO, DENO_DIR] = [`${ROOT}bin:/usr/bin:/bin`, Deno.execPath(), denoDir()];
const env = { PATH, DENO, DENO_DIR, HOME: LAB, LANG: "C.UTF-8" };
await fillLab();
const ids = await listIds();
const fill = (command: string) =>
  command.replace("SESSION", ids.session.slice(0, 8)).replace("ID", ids.approval.slice(0, 8));

const [directory] = Deno.args;
if (directory === undefined) {
  for (const [name, commands] of Object.entries(PICTURES)) {
    await write(`${ROOT}docs/images/terminal-${name}.svg`, commands, 100);
  }
} else {
  await Deno.mkdir(directory, { recursive: true });
  for (const [index, command] of COMMANDS.entries()) {
    for (const columns of [80, 120]) {
      await write(`${directory}/${`${index}`.padStart(2, "0")}-${columns}.svg`, [command], columns);
    }
  }
}

/** Draws commands with their output. */
async function write(path: string, commands: readonly string[], columns: number): Promise<void> {
  const lines: string[] = [];
  for (const command of commands.map((each) => `broker-ctl ${fill(each)}`)) {
    const until = command.endsWith(" watch") ? { until: "[a]pprove", rows: 24 } : {};
    const shown = await photograph(command, { cwd: LAB, env, columns, ...until });
    const typed = `$ ${command}`.match(new RegExp(`.{1,${columns}}`, "g")) ?? [];
    lines.push(...lines.length > 0 ? [""] : [], ...typed.map((part) => `\x1b[1m${part}\x1b[0m`), ...shown);
  }
  await Deno.writeTextFile(path, drawTerminal(lines, columns, `Output of ${commands.join(", ")}`));
}

/** Creates an installation with hosts, requests, approvals, sessions, a grant and a freeze. */
async function fillLab() {
  const controlPlaneConfig = [{ path: ["approval", "timeout_seconds"], value: 900 }];
  const options = { dir: LAB, controlPlane: true, signer: POLICY, controlPlaneConfig };
  const stage = resources.use(await Stage.create(options));
  const { init, target } = stage;
  const entry = { addr: `127.0.0.1:${target.port}`, user: target.user, host_key: target.hostKeyLine };
  const hosts = Object.entries(HOSTS).map(([name, group]) => {
    const unsealed_sessions = group === "local";
    return [name, { ...entry, principal: `host:${name}`, groups: [group], unsealed_sessions }] as const;
  });
  await editConfig(init.signer_config, [{ path: ["hosts"], value: Object.fromEntries(hosts) }]);
  const principals = hosts.map(([, { principal }]) => `${principal}\n`);
  await Deno.writeTextFile(`${LAB}/ssh/principals/${target.user}`, principals.join(""));
  await editConfig(init.mcp_config, [{ path: ["session_recording_dir"], value: `${LAB}/recordings` }]);
  await Deno.mkdir(`${LAB}/recordings`, { mode: 0o700 });
  const lab = { config: init.signer_config, client_config: init.client_config };
  const contexts = JSON.stringify({ current: "lab", contexts: { lab } });
  await Deno.mkdir(`${LAB}/.config/broker-ctl`, { recursive: true });
  await Deno.writeTextFile(`${LAB}/.config/broker-ctl/contexts.json`, contexts);
  await stage.startSigner();
  await stage.startControlPlane();
  await stage.startBroker();
  const agent = await stage.brokerClient();
  await post(agent, "/v1/ssh_run", { host: HOST, command: "df -h" });
  const client = new SessionClient(resources.use(await McpProcess.start(await stage.mcpCommand())));
  await client.exec(await client.open({ server: "build01", mode: "shell" }), "cd /tmp && ls -d lab");
  await client.exec(await client.open(), "uptime");
  const broker = await stage.controlPlaneClient("broker");
  for (const [end_user, host, command, reason] of REQUESTS) {
    await post(broker, "/v1/sign", { ...JSON.parse(signBody(host)), command, end_user, reason });
  }
  await ctl(`policy grant --host ${HOST} --allow '^nginx -t$' --ttl 2h --end-user agent-7`);
  await ctl("freeze add --end-user agent-3 --reason INC-42");
}

/** The oldest pending request, and the session with a recording. Brokers report their sessions every 5 s. */
async function listIds() {
  const list = async (noun: string) => (await ctl(`${noun} list -o name`)).trim().split("\n");
  await poll(async () => (await list("session")).length === 2, { what: "both sessions", intervalMs: 500 });
  return { approval: (await list("approval")).at(-1) ?? "", session: (await list("recording"))[0] ?? "" };
}

function ctl(line: string): Promise<string> {
  return run("sh", ["-c", `broker-ctl ${line}`], env);
}
