import type { FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { listSegments, MAX_LINE_BYTES, openLogFile, splitLines } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import { ifThere, readChunks } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { listDeploymentLogs, listLogSet, LOG_NAME } from "./deployment_logs.ts";
import { type LogRecord, readRecord } from "./record.ts";

/** Which files are read beside the log. */
interface LogChoice {
  readonly all?: boolean;
  /** Those of further processes; or the path is of a folder with the logs of all instances. */
  readonly set?: boolean | "instances";
}

/**
 * The records of a log, and of those beside it by time; undefined stands for a line that is not a record.
 *
 * @throws {AppError} `not_found` when there is no such log
 */
export async function* readLogs(
  path: string,
  { all, set }: LogChoice,
): AsyncGenerator<LogRecord | undefined> {
  const readLog = async (log: string) => all === true ? readAll(log) : readFile(await openLog(log));
  if (set === "instances") {
    const logs = await listDeploymentLogs(path);
    if (logs.length === 0) throw missing(join(path, "*", LOG_NAME));
    yield* mergeByTime(
      await Promise.all(logs.map(async (log) => named(await readLog(log.path), log.instance))),
    );
  } else {
    yield* mergeByTime(await Promise.all((set === true ? await listLogSet(path) : [path]).map(readLog)));
  }
}

async function* named(
  records: AsyncIterable<LogRecord | undefined>,
  instance: string,
): AsyncGenerator<LogRecord | undefined> {
  for await (const record of records) yield record && { ...record, instance };
}

/** The records of a log and of what was rotated away from it, oldest first. */
async function* readAll(path: string): AsyncGenerator<LogRecord | undefined> {
  // The log first: when it is rotated away after this, it is among the rotated files too, and told by that.
  const log = await ifThere(openLogFile(path));
  const identity = log && await identify(log);
  const names = await ifThere(listSegments(path)) ?? [];
  if (log === undefined && names.length === 0) throw missing(path);
  for (const { name } of names) {
    const segment = await openLog(join(dirname(path), name));
    if (await identify(segment) === identity) await segment.close();
    else yield* readFile(segment);
  }
  if (log !== undefined) yield* readFile(log);
}

/** Each line as a record, or undefined when it is not one. */
async function* readFile(opened: FileHandle): AsyncGenerator<LogRecord | undefined> {
  await using file = opened;
  for await (const { bytes, tooLong } of splitLines(readChunks(file), MAX_LINE_BYTES)) {
    if (bytes.length > 0) yield tooLong ? undefined : readRecord(bytes);
  }
}

async function openLog(path: string): Promise<FileHandle> {
  const file = await ifThere(openLogFile(path));
  if (file === undefined) throw missing(path);
  return file;
}

async function identify(file: FileHandle): Promise<string> {
  const { dev, ino } = await file.stat();
  return `${dev}:${ino}`;
}

function missing(path: string): AppError {
  return new AppError("not_found", `Cannot read audit log ${quoteText(path)}: no such file`);
}

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
