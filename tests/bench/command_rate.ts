import { processorTimes } from "./processor_times.ts";
import { timed } from "./timed.ts";

export interface CommandRate {
  readonly perSecond: number;
  /** Of each command in milliseconds, sorted. */
  readonly times: readonly number[];
  /** The share of this machine's processors that was busy, with whatever. */
  readonly busy: number;
}

/** Runs so many commands in each session, one after the other; the sessions at once. */
export async function commandRate<Id>(
  ids: readonly Id[],
  commands: number,
  run: (id: Id) => Promise<void>,
): Promise<CommandRate> {
  const times: number[] = [];
  const before = await processorTimes();
  const start = performance.now();
  await Promise.all(ids.map(async (id) => {
    for (let count = 0; count < commands; count++) times.push(await timed(() => run(id)));
  }));
  const perSecond = times.length / ((performance.now() - start) / 1000);
  const after = await processorTimes();
  const idle = after.idle - before.idle;
  const busy = 1 - idle / (after.all - before.all);
  return { perSecond, times: times.toSorted((a, b) => a - b), busy };
}
