import { systemClock } from "@gateway/shared/clock";
import { signResponse } from "@gateway/shared/wire";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { runCommand } from "../../broker/ssh/run_command.ts";
import { HOST, type Stage } from "../stage/stage.ts";
import { addLargePolicy } from "./large_policy.ts";
import { plainLogin } from "./plain_login.ts";
import { compared, createStage, median, type Row, type SectionContext, timed, under } from "./harness.ts";

const RUNS = 50;
const WARM_UP = 10;
const COMMAND = "uptime";
const MAX_RATIO = 0.9;
const MAX_OWN_MS = 15;

const MAX_MANY_RATIO = 1.1;

/** Compares `ssh_run` over HTTP with other clients of the same sshd, and with many hosts to one host. */
export async function benchSshRun({ dir, say }: SectionContext): Promise<readonly Row[]> {
  for (const name of ["one", "many"]) await Deno.mkdir(`${dir}/${name}`);
  await using one = await createStage(`${dir}/one`);
  await one.startSigner();
  await one.startBroker();
  const rows = await benchOneHost(one);
  say("  10,000 hosts …");
  await using many = await createStage(`${dir}/many`);
  await addLargePolicy(many.init.signer_config);
  await many.startSigner();
  await many.startBroker();
  return [...rows, await benchManyHosts(one, many)];
}

/** Runs `ssh_run` of a stage's broker and measures its duration. */
async function timedRun(stage: Stage): Promise<() => Promise<number>> {
  const client = await stage.brokerClient();
  return () =>
    timed(async () => {
      const body = { host: HOST, command: COMMAND };
      const { status, text } = await client.request({ method: "POST", path: "/v1/ssh_run", body });
      if (status !== 200) throw new Error(`ssh_run answered ${status}: ${text}`);
    });
}

async function benchManyHosts(one: Stage, many: Stage): Promise<Row> {
  const ways = { one: await timedRun(one), many: await timedRun(many) };
  const times = { one: [] as number[], many: [] as number[] };
  for (let run = -WARM_UP; run < RUNS; run++) {
    const [few, lots] = [await ways.one(), await ways.many()];
    if (run < 0) continue;
    times.one.push(few);
    times.many.push(lots);
  }
  const [few, lots] = [median(times.one), median(times.many)];
  return compared(
    {
      what: `ssh_run with 10,000 hosts, median of ${RUNS}`,
      measured: `${lots.toFixed(1)} ms`,
      baseline: `${few.toFixed(1)} ms with one host`,
    },
    lots / few,
    { atMost: MAX_MANY_RATIO },
  );
}

/** Compares with the `ssh` program with a plain key, and with bare SSH, on the same sshd, in turns. */
async function benchOneHost(stage: Stage): Promise<readonly Row[]> {
  const login = await plainLogin(stage);
  if (login === undefined) return [];
  const ways = {
    broker: await timedRun(stage),
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
  return [
    compared(
      {
        what: `ssh_run, median of ${RUNS}`,
        measured: `${broker.toFixed(0)} ms`,
        baseline: `${plain.toFixed(0)} ms ssh with a plain key`,
      },
      broker / plain,
      { atMost: MAX_RATIO },
    ),
    under("ssh_run without its SSH: hosts, certificate, audit, HTTP", broker - bare, MAX_OWN_MS, {
      digits: 1,
      baseline: `${bare.toFixed(1)} ms connection and command alone`,
    }),
  ];
}

/**
 * Measures a one-shot command without a broker, in milliseconds: the SSH connection with the same library and a
 * certificate like the broker's, and the command. The time to get the certificate is not included.
 */
async function bareSsh(stage: Stage, command: string): Promise<() => Promise<number>> {
  const signer = await stage.signerClient("broker");
  const { target } = stage;
  return async () => {
    const key = createEphemeralKey();
    const body = {
      host: HOST,
      role: "target",
      purpose: "oneshot",
      command,
      public_key: key.publicKeyLine,
      end_user: "bench",
      end_user_groups: null,
    };
    const answer = await signer.request({ method: "POST", path: "/v1/sign", body });
    const { certificate = "" } = signResponse.parse(answer.body);
    const addr = `127.0.0.1:${target.port}`;
    const hop = { name: HOST, addr, hostKey: target.hostKeyLine, user: target.user, certificate, key };
    return await timed(() => runCommand({ clock: systemClock, hops: [hop], command, pty: false }));
  };
}
