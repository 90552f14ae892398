export interface SessionProcess {
  readonly pid: number;
  readonly command: string;
}

/** The process session ID of a process. sshd creates one for each command. */
export async function sessionOf(pid: number): Promise<number> {
  const process = (await listProcesses()).find((listed) => listed.pid === pid);
  if (process === undefined) throw new Error(`No process ${pid}`);
  return process.session;
}

/** Processes still running in a session, without zombies. */
export async function processesOf(session: number): Promise<readonly SessionProcess[]> {
  return (await listProcesses())
    .filter((listed) => listed.session === session && !listed.state.startsWith("Z"))
    .map(({ pid, command }) => ({ pid, command }));
}

async function listProcesses() {
  // With ps, because Deno reads /proc only with all permissions.
  const args = ["-A", "-o", "pid=,sess=,stat=,comm="];
  const { stdout } = await new Deno.Command("ps", { args }).output();
  return new TextDecoder().decode(stdout).trim().split("\n").map((line) => {
    const [pid = "", session = "", state = "", ...command] = line.trim().split(/\s+/);
    return { pid: Number(pid), session: Number(session), state, command: command.join(" ") };
  });
}
