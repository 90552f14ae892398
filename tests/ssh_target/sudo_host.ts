import { createOpensshTarget, findSshd } from "./openssh.ts";
import { SSHD_PROBLEM } from "./sshd_problem.ts";
import type { SshTarget } from "./ssh_target.ts";

/** The login account of a {@linkcode SudoHost}, and the accounts that it can become besides root. */
export const SUDO_ACCOUNTS = {
  login: { name: "gw-login", id: 61_001 },
  /** Sudo allows this account for every command. */
  any: { name: "gw-app", id: 61_002 },
  /** Sudo allows this account only for exactly `id -un`. */
  narrow: { name: "gw-narrow", id: 61_003 },
} as const;

/** A host with sudo whose accounts and rules are invisible to the rest of the machine. */
export interface SudoHost extends SshTarget {
  /** A directory writable by every account; removed at the end. */
  readonly folder: string;
  /** The home directory, writable only by the login account. */
  readonly home: string;
}

const { login, any, narrow } = SUDO_ACCOUNTS;
/** Debian's defaults, and the rules. */
const SUDOERS = `Defaults env_reset
Defaults use_pty
Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
${login.name} ALL=(root) NOPASSWD: ALL
${login.name} ALL=(${any.name}) NOPASSWD: ALL
${login.name} ALL=(${narrow.name}) NOPASSWD: /usr/bin/id -un
`;
/** Mounts the files of its first argument over those of `/etc`, in a mount namespace that ends with sshd. */
const LAUNCHER = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c"];
const COVER =
  'for name in passwd group shadow sudoers; do mount --bind "$0/$name" "/etc/$name" || exit; done; ';

/** Starts sshd as root, with accounts and sudo rules that only sshd and its sessions see. */
export async function startSudoHost(
  { caPublicKeyLine, principal }: { readonly caPublicKeyLine: string; readonly principal: string },
): Promise<SudoHost> {
  const sshd = findSshd();
  if (sshd === undefined) throw new Error("Cannot start the host with sudo: sshd is not installed");
  // The login account must reach this directory: sshd reads the principals and the home with that account.
  const dir = await Deno.makeTempDir({ prefix: "sudo-host-" });
  await Deno.chmod(dir, 0o711);
  const [home, folder] = [`${dir}/home`, `${dir}/shared`];
  await Deno.mkdir(home);
  await Deno.chown(home, login.id, login.id);
  await Deno.mkdir(folder);
  await Deno.chmod(folder, 0o1777);
  await writeAccounts(dir, home);
  const target = await createOpensshTarget(sshd, login.name, {
    caPublicKeyLine,
    principals: { [login.name]: [principal] },
    dir,
    launcher: [...LAUNCHER, `${COVER}exec "$@"`, dir],
  });
  return {
    ...target,
    folder,
    home,
    async close() {
      await target.close();
      await Deno.remove(dir, { recursive: true });
    },
  };
}

async function writeAccounts(dir: string, home: string): Promise<void> {
  const accounts = Object.values(SUDO_ACCOUNTS);
  const lines = {
    passwd: accounts.map(({ name, id }) => `${name}:x:${id}:${id}::${home}:/bin/sh`),
    group: accounts.map(({ name, id }) => `${name}:x:${id}:`),
    // No password matches a star. Unlike `!`, it does not lock the account.
    shadow: accounts.map(({ name }) => `${name}:*:19000:0:99999:7:::`),
  };
  for (const [name, own] of Object.entries(lines)) {
    const text = (await Deno.readTextFile(`/etc/${name}`)).trimEnd();
    // The file may contain the machine's own passwords: it must be unreadable to others before its mode is
    // set.
    await Deno.writeTextFile(`${dir}/${name}`, `${[text, ...own].join("\n")}\n`, { mode: 0o600 });
    await Deno.chmod(`${dir}/${name}`, name === "shadow" ? 0o640 : 0o644);
  }
  await Deno.writeTextFile(`${dir}/sudoers`, SUDOERS);
  await Deno.chmod(`${dir}/sudoers`, 0o440);
}

async function maySudo(): Promise<boolean> {
  if (Deno.uid() !== 0 || SSHD_PROBLEM !== "") return false;
  // Checks that the launcher works and that sudo exists.
  const script = "command -v sudo >/dev/null && mount --bind /etc/passwd /etc/passwd";
  const [program = "", ...words] = LAUNCHER;
  try {
    const { success } = await new Deno.Command(program, { args: [...words, script], stderr: "null" })
      .output();
    return success;
  } catch {
    return false;
  }
}

/**
 * Whether this machine cannot run a {@linkcode SudoHost}, which needs root, sshd, sudo and `unshare`. A run
 * that must be complete fails instead of skipping these tests.
 */
export const mayNotSudo: boolean = Deno.env.get("REQUIRE_REAL_SERVERS") !== "1" && !(await maySudo());
