import { HOST, type Stage } from "../stage/stage.ts";
import type { Row } from "./row.ts";
import { median } from "./statistics.ts";

const RUNS = 30;

/** `ssh_run` over HTTP against the `ssh` program with a plain key on the same sshd, in turns. */
export async function benchSshRun(stage: Stage): Promise<readonly Row[]> {
  const ssh = await plainSsh(stage);
  if (ssh === undefined) return [];
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
    target: "at most 1",
    met: broker <= plain,
  }];
}

/** Lets a plain key in beside the certificates; undefined where the target is not the system's sshd. */
async function plainSsh({ init, target }: Stage): Promise<(() => Promise<void>) | undefined> {
  if (target.kind !== "openssh") return undefined;
  const dir = `${init.folder}/plain`;
  await Deno.mkdir(dir);
  await new Deno.Command("ssh-keygen", { args: ["-q", "-t", "ed25519", "-N", "", "-f", `${dir}/key`] })
    .output();
  const sshDir = `${init.folder}/../ssh`;
  const config = await Deno.readTextFile(`${sshDir}/sshd_config`);
  await Deno.copyFile(`${dir}/key.pub`, `${dir}/authorized_keys`);
  await Deno.writeTextFile(
    `${sshDir}/sshd_config`,
    config.replace("AuthorizedKeysFile none", `AuthorizedKeysFile ${dir}/authorized_keys`),
  );
  Deno.kill(Number((await Deno.readTextFile(`${sshDir}/sshd.pid`)).trim()), "SIGHUP");
  await Deno.writeTextFile(`${dir}/known_hosts`, `[127.0.0.1]:${target.port} ${target.hostKeyLine}\n`);
  const args = [
    ...["-F", "none", "-i", `${dir}/key`, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"],
    ...["-o", `UserKnownHostsFile=${dir}/known_hosts`, "-p", String(target.port)],
    ...[`${target.user}@127.0.0.1`, "uptime"],
  ];
  return async () => {
    const { success, stderr } = await new Deno.Command("ssh", { args, stdin: "null" }).output();
    if (!success) throw new Error(`ssh failed: ${new TextDecoder().decode(stderr)}`);
  };
}

async function timed(action: () => Promise<void>): Promise<number> {
  const start = performance.now();
  await action();
  return performance.now() - start;
}
