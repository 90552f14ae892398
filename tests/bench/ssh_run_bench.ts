import { HOST, type Stage } from "../stage/stage.ts";
import { plainLogin } from "./plain_login.ts";
import type { Row } from "./row.ts";
import { median } from "./statistics.ts";

const RUNS = 30;
const TARGET = 0.9;

/** `ssh_run` over HTTP against the `ssh` program with a plain key on the same sshd, in turns. */
export async function benchSshRun(stage: Stage): Promise<readonly Row[]> {
  const login = await plainLogin(stage);
  if (login === undefined) return [];
  const ssh = () => login.ssh("uptime");
  const client = await stage.brokerClient();
  const run = async () => {
    const { status } = await client.request({
      method: "POST",
      path: "/v1/ssh_run",
      body: { host: HOST, command: "uptime" },
    });
    if (status !== 200) throw new Error(`ssh_run answered ${status}`);
  };
  await run();
  await ssh();
  const times = { broker: [] as number[], ssh: [] as number[] };
  for (let i = 0; i < RUNS; i++) {
    times.broker.push(await timed(run));
    times.ssh.push(await timed(ssh));
  }
  const [broker, plain] = [median(times.broker), median(times.ssh)];
  return [{
    what: `ssh_run, median of ${RUNS}`,
    measured: `${broker.toFixed(0)} ms`,
    baseline: `${plain.toFixed(0)} ms ssh with a plain key`,
    ratio: (broker / plain).toFixed(2),
    target: `at most ${TARGET}`,
    met: broker <= plain * TARGET,
  }];
}

async function timed(action: () => Promise<void>): Promise<number> {
  const start = performance.now();
  await action();
  return performance.now() - start;
}
