import type { FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { listSegments, logsOfSet, MAX_LINE_BYTES, openLogFile, splitLines } from "@gateway/shared/audit";
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { describeReadFailure, ifThere, readAt, readChunks } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { once } from "../kit/arguments.ts";
import { badConfig, notFound } from "../kit/output.ts";
import { type LogRecord, readRecord } from "./record.ts";

export const LOG_NAME = "audit.log";

/**
 * Lists the logs in a directory that has a directory for each instance, by name. Links are rejected: a link could show
 * one log under two names.
 */
export async function listDeploymentLogs(directory: string) {
  const entries = await ifThere(Array.fromAsync(Deno.readDir(directory)));
  if (entries === undefined) {
    throw notFound(`Cannot read directory of audit logs ${quoteText(directory)}: no such directory`);
  }
  const logs: { readonly instance: string; readonly path: string }[] = [];
  for (const { name: instance, isDirectory, isSymlink } of entries) {
    if (isSymlink) throw refuseLink(join(directory, instance));
    if (!isDirectory) continue;
    const path = join(directory, instance, LOG_NAME);
    const info = await ifThere(Deno.lstat(path));
    if (info?.isSymlink === true) throw refuseLink(path);
    // Immediately after a rotation there are only rotated files.
    if (info !== undefined || (await listSegments(path)).length > 0) logs.push({ instance, path });
  }
  return logs.sort((one, other) => one.instance < other.instance ? -1 : 1);
}

function refuseLink(path: string): AppError {
  return badConfig(`Cannot use ${quoteText(path)}: it is a symbolic link; copy the log itself`);
}

/** The paths of a log and of further processes' logs next to it; the path itself if no log is there. */
export async function listLogSet(path: string): Promise<readonly string[]> {
  const logs = await listExistingLogs(path);
  return logs.length === 0 ? [path] : logs;
}

/** The paths of a log and of further processes' logs next to it, without missing logs. */
export async function listExistingLogs(path: string): Promise<readonly string[]> {
  const names = Array.fromAsync(Deno.readDir(dirname(path)), ({ name }) => name).catch(explain(path));
  return logsOfSet(path, await ifThere(names) ?? []);
}

type Records = AsyncGenerator<LogRecord | undefined>;

/** The option `--set`: without a value, the logs of further processes; else a directory with the logs of instances. */
export const setOption = (text: string) => ({ text, read: once as (value: string) => string | true });

/** A log, and the name of the service or instance that wrote it if several logs are read. */
export interface NamedLog {
  readonly path: string;
  readonly instance?: string;
}

/** Reads the records of logs by time; `undefined` replaces a line that is not a record. */
export async function* readLogs(
  logs: readonly NamedLog[],
  { all = false }: { readonly all?: boolean },
): Records {
  const named = async function* (records: Records, instance: string): Records {
    for await (const record of records) yield record && { ...record, instance };
  };
  const readLog = async ({ path, instance }: NamedLog) => {
    const records = all ? readAll(path) : readFile(await openLog(path));
    return instance === undefined ? records : named(records, instance);
  };
  yield* mergeByTime(await Promise.all(logs.map(readLog)));
}

/** The records of a log and of its rotated files, oldest first. */
async function* readAll(path: string): Records {
  // The log is opened first: if it is rotated afterwards, its identity shows that a rotated file is the same.
  const log = await ifThere(openReadable(path));
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

/** The last records of a log. */
export async function* readLast(path: string, lines: number): Records {
  const log = await ifThere(openReadable(path));
  if (log !== undefined) yield* readFile(log, await findLastLines(log, lines));
}

async function* readFile(opened: FileHandle, start?: number): Records {
  await using file = opened;
  for await (const { bytes, tooLong } of splitLines(readChunks(file, start), MAX_LINE_BYTES)) {
    if (bytes.length > 0) yield tooLong ? undefined : readRecord(bytes);
  }
}

/** Explains a failure to open a log or its directory: both are readable only for the account of the service. */
const explain = (path: string) => (cause: unknown): never => {
  if (cause instanceof AppError || cause instanceof Deno.errors.NotFound) throw cause;
  const problem = `Cannot read audit log ${quoteText(path)}: ${describeReadFailure(cause)}`;
  throw badConfig(problem, cause, "run the command as root, or as the account of the service");
};

const openReadable = (path: string) => openLogFile(path).catch(explain(path));

export const listRotated = ({ path }: NamedLog) => listSegments(path);

async function openLog(path: string): Promise<FileHandle> {
  const file = await ifThere(openReadable(path));
  if (file === undefined) throw missing(path);
  return file;
}

async function identify(file: FileHandle): Promise<string> {
  const { dev, ino } = await file.stat();
  return `${dev}:${ino}`;
}

function missing(path: string): AppError {
  return notFound(`Cannot read audit log ${quoteText(path)}: no such file`);
}

/** Merges logs by time; the records of each log stay in their order. */
export async function* mergeByTime(logs: readonly AsyncIterable<LogRecord | undefined>[]): Records {
  const heads: {
    readonly records: AsyncIterator<LogRecord | undefined>;
    readonly record: LogRecord | undefined;
    readonly time: number;
  }[] = [];
  const take = async (records: AsyncIterator<LogRecord | undefined>) => {
    const { value: record, done } = await records.next();
    if (done !== true) heads.push({ records, record, time: timeOf(record) });
  };
  for (const log of logs) await take(log[Symbol.asyncIterator]());
  for (;;) {
    const [first, ...others] = heads;
    if (first === undefined) return;
    const next = others.reduce((next, head) => head.time < next.time ? head : next, first);
    heads.splice(heads.indexOf(next), 1);
    yield next.record;
    await take(next.records);
  }
}

/** 0 for a line without a time, so that it is delivered immediately and does not delay the rest of its log. */
function timeOf(record: LogRecord | undefined): number {
  return record && Date.parse(record.record.time) || 0;
}

/** The offset at which the last whole lines of a file begin. */
export async function findLastLines(file: FileHandle, lines: number): Promise<number> {
  // Search for one more newline: the one before the first of these lines.
  let wanted = lines + 1;
  for (let end = (await file.stat()).size; end > 0;) {
    const start = Math.max(0, end - CHUNK_BYTES);
    const chunk = await readAt(file, start, end - start);
    for (let index = chunk.lastIndexOf(NEWLINE); index >= 0;) {
      wanted--;
      if (wanted === 0) return start + index + 1;
      index = index === 0 ? -1 : chunk.lastIndexOf(NEWLINE, index - 1);
    }
    end = start;
  }
  return 0;
}

const NEWLINE = 0x0a;
const CHUNK_BYTES = 65_536;
const PAUSE_MS = 500;

/**
 * Delivers the last lines of logs by time, and then each new line until the signal is aborted. It delivers every line of
 * a log that begins later.
 *
 * @param options.list is called regularly, because further processes create logs
 * @param options.onRecord is called with `undefined` for a line that is not a record
 */
export async function followLogs({ list, lines, clock, signal, onRecord, onMissing }: {
  readonly list: () => Promise<readonly NamedLog[]>;
  readonly lines: number;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  readonly onRecord: (record: LogRecord | undefined) => void;
  readonly onMissing: (path: string) => void;
}) {
  const followed = new Map<string, { readonly log: NamedLog; current: OpenLog | undefined }>();
  try {
    for (let shown = lines; signal?.aborted !== true; shown = Infinity) {
      const batch: (LogRecord | undefined)[] = [];
      for (const log of await list()) {
        const { path } = log;
        if (followed.has(path)) continue;
        const current = await openLast(path, shown);
        followed.set(path, { log, current });
        await current?.deliver(parseFor(log, (record) => batch.push(record)));
        if (current === undefined) onMissing(path);
      }
      batch.sort((one, other) => timeOf(one) - timeOf(other)).forEach(onRecord);
      for (const each of followed.values()) {
        each.current = await advance(each.log.path, each.current, parseFor(each.log, onRecord));
      }
      await clock.sleep(PAUSE_MS, signal).catch((error) => {
        if (signal?.aborted !== true) throw error;
      });
    }
  } finally {
    for (const { current } of followed.values()) await current?.close();
  }
}

function parseFor({ instance }: NamedLog, onRecord: (record: LogRecord | undefined) => void): OnLine {
  return (line) => {
    if (line.length === 0) return;
    const record = readRecord(line);
    onRecord(record && instance !== undefined ? { ...record, instance } : record);
  };
}

/**
 * Delivers the new lines of a log. After a rotation it delivers the rest of the log, then the files rotated since, then
 * the new log.
 *
 * @returns the log that has the name now
 */
export async function advance(
  path: string,
  current: OpenLog | undefined,
  onLine: OnLine,
): Promise<OpenLog | undefined> {
  // Open the name before reading the lines: when another file has the name, this file no longer grows.
  const next = await ifThere(OpenLog.open(path));
  await current?.deliver(onLine);
  if (next === undefined || current?.identity === next.identity) {
    await next?.close();
    return current;
  }
  if (current !== undefined) {
    await deliverBetween(current, next, path, onLine);
    await current.close();
  }
  return await advance(path, next, onLine);
}

/** Opens a log for {@linkcode advance}, which then delivers its last lines. */
export async function openLast(path: string, lines: number): Promise<OpenLog | undefined> {
  const log = await ifThere(OpenLog.open(path));
  await log?.skipTo(lines);
  return log;
}

/** Called for each whole line, without its newline; the bytes are valid during the call. */
type OnLine = (line: Uint8Array) => void;

/** Delivers the files that were filled and rotated between a log and its successor. */
async function deliverBetween(current: OpenLog, next: OpenLog, path: string, onLine: OnLine) {
  let isLater = false;
  for (const { name } of await listSegments(path)) {
    await using segment = await ifThere(OpenLog.open(join(dirname(path), name)));
    // The successor may have been rotated as well. Later files come after it.
    if (segment?.identity === next.identity) return;
    if (isLater) await segment?.deliver(onLine);
    isLater ||= segment?.identity === current.identity;
  }
}

class OpenLog {
  readonly #file: FileHandle;
  readonly identity: string;
  /** The end of the last whole line that was delivered. */
  #offset = 0;
  /** The next bytes belong to a line that is too long for a record. */
  #insideLongLine = false;

  private constructor(file: FileHandle, identity: string) {
    this.#file = file;
    this.identity = identity;
  }

  static async open(path: string): Promise<OpenLog> {
    const file = await openReadable(path);
    return new OpenLog(file, await identify(file));
  }

  async skipTo(lines: number): Promise<void> {
    this.#offset = await findLastLines(this.#file, lines);
  }

  async deliver(onLine: (line: Uint8Array) => void): Promise<void> {
    const { size } = await this.#file.stat();
    // A writer may remove an incomplete line. If the log is even shorter, it was started again.
    if (size < this.#offset) {
      this.#offset = 0;
      this.#insideLongLine = false;
    }
    if (size === this.#offset) return;
    let [end, rest] = [this.#offset, 0];
    const chunks = async function* (file: FileHandle, start: number) {
      for await (const chunk of readChunks(file, start)) {
        end += chunk.length;
        yield chunk;
      }
    };
    for await (const line of splitLines(chunks(this.#file, this.#offset), MAX_LINE_BYTES)) {
      if (line.terminated) {
        if (!this.#insideLongLine) onLine(line.bytes);
        this.#insideLongLine = false;
      } else if (line.tooLong || this.#insideLongLine) this.#insideLongLine = true;
      else rest = line.bytes.length;
    }
    // An incomplete line is read again, because its writer may remove it.
    this.#offset = end - rest;
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
