import { HOST, type Stage } from "../stage/stage.ts";
import { bareSsh } from "./bare_ssh.ts";
import { plainLogin } from "./plain_login.ts";
import type { Row } from "./row.ts";
import { median } from "./statistics.ts";
import { timed } from "./timed.ts";

const RUNS = 50;
const WARM_UP = 10;
const COMMAND = "uptime";
const MAX_RATIO = 0.9;
const MAX_OWN_MS = 15;

/** `ssh_run` over HTTP against the `ssh` program with a plain key, and bare SSH, on the same sshd, in turns. */
export async function benchSshRun(stage: Stage): Promise<readonly Row[]> {
  const login = await plainLogin(stage);
  if (login === undefined) return [];
  const client = await stage.brokerClient();
  const ways = {
    broker: () =>
      timed(async () => {
        const body = { host: HOST, command: COMMAND };
        const { status } = await client.request({ method: "POST", path: "/v1/ssh_run", body });
        if (status !== 200) throw new Error(`ssh_run answered ${status}`);
      }),
    ssh: () => timed(() => login.ssh(COMMAND)),
    bare: await bareSsh(stage, COMMAND),
  };
  const times = { broker: [] as number[], ssh: [] as number[], bare: [] as number[] };
  for (let run = -WARM_UP; run < RUNS; run++) {
    const [broker, ssh, bare] = [await ways.broker(), await ways.ssh(), await ways.bare()];
    if (run < 0) continue;
    times.broker.push(broker);
    times.ssh.push(ssh);
    times.bare.push(bare);
  }
  const [broker, plain, bare] = [median(times.broker), median(times.ssh), median(times.bare)];
  const own = broker - bare;
  return [
    {
      what: `ssh_run, median of ${RUNS}`,
      measured: `${broker.toFixed(0)} ms`,
      baseline: `${plain.toFixed(0)} ms ssh with a plain key`,
      ratio: (broker / plain).toFixed(2),
      target: `at most ${MAX_RATIO}`,
      met: broker <= plain * MAX_RATIO,
    },
    {
      what: "ssh_run without its SSH: hosts, certificate, audit, HTTP",
      measured: `${own.toFixed(1)} ms`,
      baseline: `${bare.toFixed(1)} ms connection and command alone`,
      ratio: "",
      target: `under ${MAX_OWN_MS} ms`,
      met: own < MAX_OWN_MS,
    },
  ];
}
