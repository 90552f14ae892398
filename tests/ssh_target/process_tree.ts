/** One program for queries and signals, because Deno's own signals require permission to run all programs. */
const SHELL = "/bin/sh";

/**
 * Ends a process and its descendants, as far as they are still identifiable. Uses KILL, because a server that
 * gets TERM leaves its sessions running.
 */
export function endProcessTree(pid: number): void {
  // Parents first, because they could start more children. Some processes may have ended by themselves.
  const victims = [pid, ...descendants(pid, listProcesses())];
  runShell(victims.map((victim) => `kill -s KILL ${victim}`).join("; "));
}

/** Sends a signal, by its name without `SIG`, to all processes of a group. */
export function signalGroup(groupId: number, name: string): void {
  runShell(`kill -s ${name} -- -${groupId}`);
}

interface Process {
  readonly pid: number;
  readonly parent: number;
}

function descendants(pid: number, processes: readonly Process[]): readonly number[] {
  const children = processes.filter(({ parent }) => parent === pid).map((process) => process.pid);
  return [...children, ...children.flatMap((child) => descendants(child, processes))];
}

function listProcesses(): readonly Process[] {
  return runShell("ps -A -o pid=,ppid=").trim().split("\n").map((line) => {
    const [pid, parent] = line.trim().split(/\s+/).map(Number);
    return { pid: pid ?? 0, parent: parent ?? 0 };
  });
}

function runShell(script: string): string {
  const { stdout } = new Deno.Command(SHELL, { args: ["-c", script], stderr: "null" }).outputSync();
  return new TextDecoder().decode(stdout);
}
