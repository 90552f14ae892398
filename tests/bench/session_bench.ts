import { McpProcess } from "../e2e/mcp_process.ts";
import { SessionClient } from "../e2e/session_client.ts";
import { residentBytes } from "../stage/proc_file.ts";
import type { Stage } from "../stage/stage.ts";
import { type PlainLogin, plainLogin } from "./plain_login.ts";

import type { Row } from "./row.ts";
import { median, quantile } from "./statistics.ts";

const COMMANDS = 300;
const WARM_UP = 50;
const ACTIVE = 8;
/** As many as one caller may have. */
const OPEN = 20;
const COMMAND = "true";

/** Commands in open sessions over MCP, each decided by the signer and recorded on disk before it is answered. */
export async function benchSessions(stage: Stage): Promise<readonly Row[]> {
  const login = await quickLogin(stage);
  await using mcp = new McpProcess(await stage.mcpCommand());
  await mcp.initialize();
  const client = new SessionClient(mcp);
  const ids: string[] = [];
  for (let count = 0; count < ACTIVE; count++) ids.push(await client.open());
  const run = async (id: string) => {
    const { isError, text } = await client.exec(id, COMMAND);
    if (isError) throw new Error(text);
  };
  const [first = ""] = ids;
  await rate([first], WARM_UP, run);
  const one = await rate([first], COMMANDS, run);
  const several = await rate(ids, COMMANDS / ACTIVE, run);
  while (ids.length < OPEN) ids.push(await client.open());
  const crowded = await rate(ids.slice(0, ACTIVE), COMMANDS / ACTIVE, run);
  const resident = await residentBytes(mcp.pid);
  const p50 = quantile(crowded.times, 0.5);
  const p99 = quantile(crowded.times, 0.99);
  const control = login === undefined ? [] : await controlMaster(stage, login, one.times);
  return [
    {
      what: `commands in one session, ${COMMANDS}`,
      measured: `${one.perSecond.toFixed(0)}/s`,
      baseline: "",
      ratio: "",
      target: "at least 150/s",
      met: one.perSecond >= 150,
    },
    {
      what: `commands in ${ACTIVE} sessions`,
      measured: `${several.perSecond.toFixed(0)}/s`,
      baseline: `${one.perSecond.toFixed(0)}/s in one`,
      ratio: (several.perSecond / one.perSecond).toFixed(2),
      target: "at least 2",
      met: several.perSecond >= 2 * one.perSecond,
    },
    {
      what: `p99 of ${ACTIVE} active among ${OPEN} sessions`,
      measured: `${p99.toFixed(1)} ms`,
      baseline: `${p50.toFixed(1)} ms p50`,
      ratio: (p99 / p50).toFixed(2),
      target: "below 3",
      met: p99 < 3 * p50,
    },
    {
      what: `broker with ${OPEN} sessions`,
      measured: `${(resident / 1e6).toFixed(0)} MB`,
      baseline: "",
      ratio: "",
      target: "below 250 MB",
      met: resident < 250e6,
    },
    ...control,
  ];
}

/** A plain login to a host whose shell does not read `.bashrc` for each command: that would be what is measured. */
async function quickLogin(stage: Stage): Promise<PlainLogin | undefined> {
  if (stage.target.kind === "openssh") {
    const path = `${stage.init.folder}/../ssh/sshd_config`;
    // bash takes itself for started by sshd only at the first level.
    await Deno.writeTextFile(path, "SetEnv SHLVL=2\n", { append: true });
  }
  return await plainLogin(stage);
}

/** One `ssh` process a command over a connection that is kept: what an agent's shell would do otherwise. */
async function controlMaster(
  stage: Stage,
  login: PlainLogin,
  times: readonly number[],
): Promise<readonly Row[]> {
  const path = `${stage.init.folder}/cm`;
  const options = ["-o", `ControlPath=${path}`, "-o", "ControlMaster=auto", "-o", "ControlPersist=60"];
  await login.ssh(COMMAND, options);
  const plain: number[] = [];
  for (let count = 0; count < WARM_UP; count++) plain.push(await timed(() => login.ssh(COMMAND, options)));
  await login.ssh(COMMAND, ["-o", `ControlPath=${path}`, "-O", "exit"]);
  const [own, ssh] = [median(times), median(plain)];
  return [{
    what: "one command in a session, median",
    measured: `${own.toFixed(1)} ms`,
    baseline: `${ssh.toFixed(1)} ms ssh with ControlMaster`,
    ratio: (own / ssh).toFixed(2),
    target: "at most 1",
    met: own <= ssh,
  }];
}

/** Runs so many commands in each session, one after the other; the sessions at once. */
async function rate(ids: readonly string[], commands: number, run: (id: string) => Promise<void>) {
  const times: number[] = [];
  const start = performance.now();
  await Promise.all(ids.map(async (id) => {
    for (let count = 0; count < commands; count++) times.push(await timed(() => run(id)));
  }));
  const perSecond = times.length / ((performance.now() - start) / 1000);
  return { perSecond, times: times.toSorted((a, b) => a - b) };
}

async function timed(action: () => Promise<void>): Promise<number> {
  const start = performance.now();
  await action();
  return performance.now() - start;
}
