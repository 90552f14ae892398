import { poll } from "../stage/poll.ts";

/** The process ID that a command has written to a file, when the file exists. */
export async function readPid(path: string): Promise<number> {
  let pid = 0;
  await poll(async () => {
    const text = await Deno.readTextFile(path).catch(() => "");
    if (!text.endsWith("\n")) return false;
    pid = Number(text);
    return true;
  }, { what: `a process number in ${path}` });
  return pid;
}

/** Whether a process runs. A zombie does not count as running. */
export async function isRunning(pid: number): Promise<boolean> {
  const { stdout } = await new Deno.Command("ps", { args: ["-o", "stat=", "-p", String(pid)] }).output();
  const state = new TextDecoder().decode(stdout).trim();
  return state !== "" && !state.startsWith("Z");
}
