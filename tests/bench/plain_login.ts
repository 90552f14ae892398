import type { Stage } from "../stage/stage.ts";

/** An OpenSSH client that logs in to the target of a stage with a plain key. */
export interface PlainLogin {
  /** Runs a command with `ssh`. Additional options precede the usual ones. */
  ssh(command: string, options?: readonly string[]): Promise<void>;
}

/** Makes the target accept a plain key in addition to certificates; undefined if it is not the system's sshd. */
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

/** A plain login to a host whose shell does not read `.bashrc` for each command, which would dominate the time. */
export async function quickLogin(stage: Stage): Promise<PlainLogin | undefined> {
  if (stage.target.kind === "openssh") {
    const path = `${stage.init.folder}/../ssh/sshd_config`;
    // bash reads `.bashrc` for a command of sshd only at SHLVL 1.
    await Deno.writeTextFile(path, "SetEnv SHLVL=2\n", { append: true });
  }
  return await plainLogin(stage);
}

async function run(program: string, args: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, { args: [...args], stdin: "null" }).output();
  if (!success) throw new Error(`${program} failed: ${new TextDecoder().decode(stderr)}`);
}
