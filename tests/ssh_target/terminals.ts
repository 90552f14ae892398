import { readProcFile } from "../stage/proc_file.ts";

/**
 * Why an sshd of this account can give nobody a terminal; empty where it can. It hands a terminal over to the group
 * `tty`, which takes root, or a `/dev/pts` where they belong to that group from the start. A run that has to be
 * complete fails instead of passing over tests.
 */
export const NO_TERMINAL: string = await whyNone();

async function whyNone(): Promise<string> {
  if (Deno.uid() === 0 || Deno.env.get("REQUIRE_REAL_SERVERS") === "1") return "";
  const tty = /^tty:[^:]*:(\d+):/m.exec(await Deno.readTextFile("/etc/group"))?.[1] ?? "";
  const isForTty = new RegExp(`^devpts /dev/pts devpts .*\\bgid=${tty}\\b`, "m");
  return isForTty.test(await readProcFile("/proc/mounts")) ? "" : `needs root, or /dev/pts with gid=${tty}`;
}

/** A test whose sshd has to give a terminal, saying so where it is left out. */
export function terminalTest(name: string, test: () => Promise<void>): void {
  const ignore = NO_TERMINAL !== "";
  Deno.test({ name: ignore ? `${name} (left out: ${NO_TERMINAL})` : name, ignore, fn: test });
}
