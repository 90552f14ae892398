import { readProcFile } from "../stage/proc_file.ts";

/** Times of all processors since the start of the machine, in clock ticks. */
export interface ProcessorTimes {
  readonly all: number;
  readonly idle: number;
}

/** Reads the first line of `/proc/stat` (proc(5)). */
export async function processorTimes(): Promise<ProcessorTimes> {
  const [line = ""] = (await readProcFile("/proc/stat")).split("\n");
  const [user = 0, nice = 0, system = 0, idle = 0, disk = 0, ...others] = line.split(/\s+/).slice(1, 9).map(
    Number,
  );
  const all = [user, nice, system, idle, disk, ...others].reduce((sum, ticks) => sum + ticks, 0);
  return { all, idle: idle + disk };
}

/** USER_HZ (proc(5)). */
const TICKS_PER_SECOND = 100;

/** Returns the processor time of a process in seconds: user and system (proc(5)). */
export async function cpuSeconds(pid: number): Promise<number> {
  const fields = (await readProcFile(`/proc/${pid}/stat`)).replace(/^.*\) /, "").split(" ");
  const [user = 0, system = 0] = fields.slice(11, 13).map(Number);
  return (user + system) / TICKS_PER_SECOND;
}
