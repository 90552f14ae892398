const INTERVAL_MS = 10;

/**
 * Waits until something outside of this process is so.
 *
 * @throws {Error} when it is not so in time
 */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  boundMs = 5_000,
): Promise<void> {
  for (let waited = 0; waited < boundMs; waited += INTERVAL_MS) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS));
  }
  throw new Error(`Not so after ${boundMs} ms: ${what}`);
}

/** The process number that a command has written to a file, once it is there. */
export async function readPid(path: string): Promise<number> {
  let pid = 0;
  await until(`${path} has a process number`, async () => {
    const text = await Deno.readTextFile(path).catch(() => "");
    if (!text.endsWith("\n")) return false;
    pid = Number(text);
    return true;
  });
  return pid;
}

/** Whether a process runs; one that is dead and not yet collected by its parent does not. */
export async function isRunning(pid: number): Promise<boolean> {
  const { stdout } = await new Deno.Command("ps", { args: ["-o", "stat=", "-p", String(pid)] }).output();
  const state = new TextDecoder().decode(stdout).trim();
  return state !== "" && !state.startsWith("Z");
}
