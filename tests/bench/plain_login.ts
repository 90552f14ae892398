import type { Stage } from "../stage/stage.ts";

/** The OpenSSH client with a plain key, on the target of a stage. */
export interface PlainLogin {
  /** Runs a command with `ssh`, with options before the usual ones. */
  ssh(command: string, options?: readonly string[]): Promise<void>;
}

/** Lets a plain key in beside the certificates; undefined where the target is not the system's sshd. */
export async function plainLogin({ init, target }: Stage): Promise<PlainLogin | undefined> {
  if (target.kind !== "openssh") return undefined;
  const dir = `${init.folder}/plain`;
  await Deno.mkdir(dir);
  await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", `${dir}/key`]);
  const sshDir = `${init.folder}/../ssh`;
  const config = await Deno.readTextFile(`${sshDir}/sshd_config`);
  await Deno.copyFile(`${dir}/key.pub`, `${dir}/authorized_keys`);
  await Deno.writeTextFile(
    `${sshDir}/sshd_config`,
    config.replace("AuthorizedKeysFile none", `AuthorizedKeysFile ${dir}/authorized_keys`) +
      "Subsystem sftp internal-sftp\n",
  );
  Deno.kill(Number((await Deno.readTextFile(`${sshDir}/sshd.pid`)).trim()), "SIGHUP");
  await Deno.writeTextFile(`${dir}/known_hosts`, `[127.0.0.1]:${target.port} ${target.hostKeyLine}\n`);
  const options = [
    ...["-F", "none", "-i", `${dir}/key`, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"],
    ...["-o", `UserKnownHostsFile=${dir}/known_hosts`],
  ];
  const login = `${target.user}@127.0.0.1`;
  return {
    ssh: (command, more = []) => run("ssh", [...more, ...options, "-p", String(target.port), login, command]),
  };
}

/** A plain login to a host whose shell does not read `.bashrc` for each command: that would be what is measured. */
export async function quickLogin(stage: Stage): Promise<PlainLogin | undefined> {
  if (stage.target.kind === "openssh") {
    const path = `${stage.init.folder}/../ssh/sshd_config`;
    // bash takes itself for started by sshd only at the first level.
    await Deno.writeTextFile(path, "SetEnv SHLVL=2\n", { append: true });
  }
  return await plainLogin(stage);
}

async function run(program: string, args: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, { args: [...args], stdin: "null" }).output();
  if (!success) throw new Error(`${program} failed: ${new TextDecoder().decode(stderr)}`);
}
