import { readProcFile } from "../stage/proc_file.ts";

/**
 * The reason why this account's sshd cannot provide a terminal; empty if it can. sshd gives the terminal to
 * the group `tty`, which requires root or a `/dev/pts` that already belongs to that group. A run with
 * REQUIRE_REAL_SERVERS fails instead of skipping tests.
 */
export const NO_TERMINAL: string = await whyNone();

async function whyNone(): Promise<string> {
  if (Deno.uid() === 0 || Deno.env.get("REQUIRE_REAL_SERVERS") === "1") return "";
  const tty = /^tty:[^:]*:(\d+):/m.exec(await Deno.readTextFile("/etc/group"))?.[1] ?? "";
  const isForTty = new RegExp(`^devpts /dev/pts devpts .*\\bgid=${tty}\\b`, "m");
  return isForTty.test(await readProcFile("/proc/mounts")) ? "" : `needs root, or /dev/pts with gid=${tty}`;
}

/** A test whose sshd must provide a terminal. The name shows when it is skipped. */
export function terminalTest(name: string, test: () => Promise<void>): void {
  const ignore = NO_TERMINAL !== "";
  Deno.test({ name: ignore ? `${name} (left out: ${NO_TERMINAL})` : name, ignore, fn: test });
}
