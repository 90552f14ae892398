import type { LogRecord } from "./record.ts";

type Records = AsyncIterator<LogRecord | undefined>;

/**
 * The records of several logs as one sequence, by time; those of each log stay in their order. Undefined stands for a
 * line that is not a record, as in the logs.
 */
export async function* mergeByTime(
  logs: readonly AsyncIterable<LogRecord | undefined>[],
): AsyncGenerator<LogRecord | undefined> {
  const heads: {
    readonly records: Records;
    readonly record: LogRecord | undefined;
    readonly time: number;
  }[] = [];
  const take = async (records: Records) => {
    const { value: record, done } = await records.next();
    // What has no time does not hold up the rest of its log.
    if (done !== true) heads.push({ records, record, time: record && Date.parse(record.record.time) || 0 });
  };
  for (const log of logs) await take(log[Symbol.asyncIterator]());
  for (;;) {
    const next = heads.reduce<(typeof heads)[number] | undefined>(
      (first, head) => first === undefined || head.time < first.time ? head : first,
      undefined,
    );
    if (next === undefined) return;
    heads.splice(heads.indexOf(next), 1);
    yield next.record;
    await take(next.records);
  }
}
