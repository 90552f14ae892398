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

/** The processor time that a process has used, in seconds: user and system (proc(5)). */
export async function cpuSeconds(pid: number): Promise<number> {
  const fields = (await readProcFile(`/proc/${pid}/stat`)).replace(/^.*\) /, "").split(" ");
  const [user = 0, system = 0] = fields.slice(11, 13).map(Number);
  return (user + system) / TICKS_PER_SECOND;
}
