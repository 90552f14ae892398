import { freePort } from "../stage/free_port.ts";
import { createHostKey } from "./host_key.ts";
import { endProcessTree } from "./process_tree.ts";
import type { SshTarget, SshTargetOptions } from "./ssh_target.ts";

const SSHD_PATHS = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd", "/sbin/sshd"];
/** The empty directory required by an sshd started as root. */
const PRIVILEGE_SEPARATION_DIR = "/run/sshd";
const READY = /^Server listening on /m;
/** Another process can take the port between our check and sshd's start. */
const ATTEMPTS = 3;
const START_MS = 60_000;
const POLL_MS = 10;
/** OpenSSH 9.8 and later block an address after failed logins, which tests cause on purpose. */
const NO_PENALTIES = "PerSourcePenalties no";

/** The path of the system's sshd, if it is installed. */
export function findSshd(): string | undefined {
  return SSHD_PATHS.find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  });
}

export interface OpensshOptions extends SshTargetOptions {
  /** Words before the path of sshd: a program that starts it in a separate environment. */
  readonly launcher?: readonly string[];
}

/** Starts the system's sshd with its own configuration. */
export async function createOpensshTarget(
  sshd: string,
  user: string,
  options: OpensshOptions,
): Promise<SshTarget> {
  const { dir, launcher = [] } = options;
  if (Deno.uid() === 0) await Deno.mkdir(PRIVILEGE_SEPARATION_DIR, { recursive: true, mode: 0o755 });
  const hostKey = createHostKey();
  await Deno.mkdir(`${dir}/principals`, { recursive: true });
  await Deno.writeTextFile(`${dir}/host_key`, hostKey.pem, { mode: 0o600 });
  await Deno.writeTextFile(`${dir}/ca.pub`, `${options.caPublicKeyLine.trim()}\n`);
  for (const [name, principals] of Object.entries(options.principals)) {
    await Deno.writeTextFile(`${dir}/principals/${name}`, principals.map((line) => `${line}\n`).join(""));
  }
  let problem = "";
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const port = freePort();
    await writeConfig(sshd, dir, port, options.revokedKeys);
    const started = await start([...launcher, sshd], dir);
    if (typeof started !== "string") {
      return { kind: "openssh", port, hostKeyLine: hostKey.line, user, close: () => stop(started) };
    }
    problem = started;
  }
  throw new Error(`Cannot start the SSH target: ${problem.trim()}`);
}

async function writeConfig(sshd: string, dir: string, port: number, revokedKeys?: string): Promise<void> {
  const lines = [
    "ListenAddress 127.0.0.1",
    `Port ${port}`,
    `HostKey ${dir}/host_key`,
    `PidFile ${dir}/sshd.pid`,
    `TrustedUserCAKeys ${dir}/ca.pub`,
    `AuthorizedPrincipalsFile ${dir}/principals/%u`,
    "AuthorizedKeysFile none",
    "AuthenticationMethods publickey",
    "PasswordAuthentication no",
    "KbdInteractiveAuthentication no",
    "PermitRootLogin prohibit-password",
    "StrictModes no",
    "UsePAM no",
    "PrintMotd no",
    "PrintLastLog no",
    "MaxStartups 100",
    "LogLevel VERBOSE",
    ...(revokedKeys === undefined ? [] : [`RevokedKeys ${revokedKeys}`]),
  ];
  const path = `${dir}/sshd_config`;
  await Deno.writeTextFile(path, [...lines, NO_PENALTIES, ""].join("\n"));
  const check = await new Deno.Command(sshd, { args: ["-t", "-f", path], stdout: "null", stderr: "null" })
    .output();
  if (!check.success) await Deno.writeTextFile(path, [...lines, ""].join("\n"));
}

/** Waits until sshd listens. Returns its log if it exits instead. */
async function start(
  [program = "", ...words]: readonly string[],
  dir: string,
): Promise<Deno.ChildProcess | string> {
  const log = `${dir}/sshd.log`;
  // A log file instead of a pipe: sshd would block on an unread pipe.
  await Deno.writeTextFile(log, "", { mode: 0o600 });
  const process = new Deno.Command(program, {
    args: [...words, "-D", "-f", `${dir}/sshd_config`, "-E", log],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const ended = process.status.then(() => true);
  for (let waited = 0; waited < START_MS; waited += POLL_MS) {
    if (READY.test(await Deno.readTextFile(log))) return process;
    if (await Promise.race([ended, pause(POLL_MS)])) return await Deno.readTextFile(log);
  }
  await stop(process);
  return `sshd does not listen after ${START_MS} ms`;
}

async function stop(process: Deno.ChildProcess): Promise<void> {
  endProcessTree(process.pid);
  await process.status;
}

function pause(milliseconds: number): Promise<false> {
  return new Promise((resolve) => setTimeout(() => resolve(false), milliseconds));
}
