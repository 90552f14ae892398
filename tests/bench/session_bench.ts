import { McpProcess } from "../e2e/mcp_process.ts";
import { SessionClient } from "../e2e/session_client.ts";
import { residentBytes } from "../stage/proc_file.ts";
import type { Stage } from "../stage/stage.ts";
import { type PlainLogin, quickLogin } from "./plain_login.ts";
import { processorTimes } from "./processor_times.ts";
import { compared, median, quantile, type Row, timed, under } from "./harness.ts";

const COMMANDS = 300;
/** Warm-up until the broker has compiled its hot functions. Before that, the measurements are slower. */
const WARM_UP = 600;
const SSH_WARM_UP = 10;
const SSH_COMMANDS = 50;
const ROUNDS = 3;
const ACTIVE = 8;
/** The limit of sessions for one caller. */
const OPEN = 20;
const COMMAND = "true";

/** Measures commands in open sessions over MCP, including the signer's decision and the durable audit record. */
export async function benchSessions(stage: Stage): Promise<readonly Row[]> {
  const login = await quickLogin(stage);
  await using mcp = await McpProcess.start(await stage.mcpCommand());
  const client = new SessionClient(mcp);
  const ids: string[] = [];
  for (let count = 0; count < ACTIVE; count++) ids.push(await client.open());
  const run = async (id: string) => {
    const { isError, text } = await client.exec(id, COMMAND);
    if (isError) throw new Error(text);
  };
  const [first = ""] = ids;
  await commandRate(ids, WARM_UP / ACTIVE, run);
  // In turns, so that other load on the machine slows both.
  const rounds: { readonly one: CommandRate; readonly several: CommandRate }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const one = await commandRate([first], COMMANDS, run);
    rounds.push({ one, several: await commandRate(ids, COMMANDS / ACTIVE, run) });
  }
  while (ids.length < OPEN) ids.push(await client.open());
  const crowded = await commandRate(ids.slice(0, ACTIVE), COMMANDS / ACTIVE, run);
  const resident = await residentBytes(mcp.pid);
  const one = median(rounds.map((round) => round.one.perSecond));
  const several = median(rounds.map((round) => round.several.perSecond));
  const busy = median(rounds.map((round) => round.several.busy));
  const ratio = median(rounds.map((round) => round.several.perSecond / round.one.perSecond));
  const p50 = quantile(crowded.times, 0.5);
  const p99 = quantile(crowded.times, 0.99);
  const control = login === undefined
    ? []
    : await controlMaster(stage, login, rounds.flatMap((round) => round.one.times));
  return [
    {
      what: `commands in one session, ${COMMANDS}`,
      measured: `${one.toFixed(0)}/s`,
      baseline: "",
      ratio: "",
      target: "at least 150/s",
      met: one >= 150,
    },
    compared(
      {
        what: `commands in ${ACTIVE} sessions, ${navigator.hardwareConcurrency} processors ` +
          `${(100 * busy).toFixed(0)} % busy`,
        measured: `${several.toFixed(0)}/s`,
        baseline: `${one.toFixed(0)}/s in one`,
      },
      ratio,
      { atLeast: 2 },
    ),
    compared(
      {
        what: `p99 of ${ACTIVE} active among ${OPEN} sessions`,
        measured: `${p99.toFixed(1)} ms`,
        baseline: `${p50.toFixed(1)} ms p50`,
      },
      p99 / p50,
      { under: 3 },
    ),
    under(`broker with ${OPEN} sessions`, resident / 1e6, 250, { unit: "MB" }),
    ...control,
  ];
}

/** Measures one `ssh` process for each command over one connection, which an agent's shell would use without a broker. */
async function controlMaster(
  stage: Stage,
  login: PlainLogin,
  times: readonly number[],
): Promise<readonly Row[]> {
  const path = `${stage.init.folder}/cm`;
  const options = ["-o", `ControlPath=${path}`, "-o", "ControlMaster=auto", "-o", "ControlPersist=60"];
  const command = () => login.ssh(COMMAND, options);
  for (let count = 0; count < SSH_WARM_UP; count++) await command();
  const plain: number[] = [];
  for (let count = 0; count < SSH_COMMANDS; count++) plain.push(await timed(command));
  await login.ssh(COMMAND, ["-o", `ControlPath=${path}`, "-O", "exit"]);
  const [own, ssh] = [median(times), median(plain)];
  return [compared(
    {
      what: "one command in a session, median",
      measured: `${own.toFixed(1)} ms`,
      baseline: `${ssh.toFixed(1)} ms ssh with ControlMaster`,
    },
    own / ssh,
    { atMost: 1 },
  )];
}

interface CommandRate {
  readonly perSecond: number;
  /** Durations of commands in milliseconds, sorted. */
  readonly times: readonly number[];
  /** Share of processor time of the machine that was in use by any process. */
  readonly busy: number;
}

/** Runs commands in all sessions concurrently, one after another in each session. */
async function commandRate<Id>(
  ids: readonly Id[],
  commands: number,
  run: (id: Id) => Promise<void>,
): Promise<CommandRate> {
  const times: number[] = [];
  const before = await processorTimes();
  const start = performance.now();
  await Promise.all(ids.map(async (id) => {
    for (let count = 0; count < commands; count++) times.push(await timed(() => run(id)));
  }));
  const perSecond = times.length / ((performance.now() - start) / 1000);
  const after = await processorTimes();
  const idle = after.idle - before.idle;
  const busy = 1 - idle / (after.all - before.all);
  return { perSecond, times: times.toSorted((a, b) => a - b), busy };
}
