import { readProcFile } from "../stage/proc_file.ts";

/** What the processors of the machine have done since its start, in clock ticks of all of them. */
export interface ProcessorTimes {
  readonly all: number;
  readonly idle: number;
}

/** The first line of `/proc/stat` (proc(5)). */
export async function processorTimes(): Promise<ProcessorTimes> {
  const [line = ""] = (await readProcFile("/proc/stat")).split("\n");
  const [user = 0, nice = 0, system = 0, idle = 0, disk = 0, ...others] = line.split(/\s+/).slice(1, 9).map(
    Number,
  );
  const all = [user, nice, system, idle, disk, ...others].reduce((sum, ticks) => sum + ticks, 0);
  return { all, idle: idle + disk };
}

/** Of USER_HZ (proc(5)). */
const TICKS_PER_SECOND = 100;

/** The processor time that a process has used, in seconds. */
export async function cpuSeconds(pid: number): Promise<number> {
  const [user, system] = await ticksOf(pid);
  return (user + system) / TICKS_PER_SECOND;
}

/** Likewise of the children of this process that have ended: it says something on a busy machine, too. */
export async function childrenSeconds(): Promise<number> {
  const [, , user, system] = await ticksOf(Deno.pid);
  return (user + system) / TICKS_PER_SECOND;
}

/** User and system time, of a process and of its children that have ended. */
async function ticksOf(pid: number): Promise<readonly [number, number, number, number]> {
  const fields = (await readProcFile(`/proc/${pid}/stat`)).replace(/^.*\) /, "").split(" ");
  const [user = 0, system = 0, ofChildren = 0, inSystem = 0] = fields.slice(11, 15).map(Number);
  return [user, system, ofChildren, inSystem];
}
