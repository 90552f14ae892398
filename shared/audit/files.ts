/**
 * The files of an audit log: the current one, rotated ones, the lock, and logs of several processes with one config
 * (`audit.log`, `audit-2.log`, …).
 *
 * @module
 */
import type { FileHandle } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import { AppError, configError } from "../errors.ts";
import { describeReadFailure, ifThere, lockOf, openFile, type OpenFileOptions } from "../files/mod.ts";
import { quoteText, writeAll } from "../text.ts";

/** Reports failures that do not stop the log. */
export interface AuditWarnings {
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/** The maximum number of processes with logs of one set. */
export const MAX_LOGS = 64;

/** The path of the nth log of a set. The first path is the one in the config. */
export function nthLog(path: string, number: number): string {
  if (number === 1) return path;
  const extension = extname(path);
  return join(dirname(path), `${basename(path, extension)}-${number}${extension}`);
}

/** The logs of a set with a current or rotated file among the names in their directory. */
export function logsOfSet(path: string, names: readonly string[]): readonly string[] {
  const logs = Array.from({ length: MAX_LOGS }, (_, index) => nthLog(path, index + 1));
  return logs.filter((log) => {
    const name = basename(log);
    return names.includes(name) || sortSegments(name, names).length > 0;
  });
}

/** A rotated file. */
interface SegmentName {
  readonly name: string;
  readonly stamp: string;
  /** The number in the name; 0 if the name has none. */
  readonly number: number;
}

const SUFFIX = /^\.(\d{8}T\d{6}Z)(?:\.([1-9]\d{0,8}))?$/;

/** A time in the form of file names: `YYYYMMDDTHHMMSSZ`. */
export function formatStamp(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+/, "").replaceAll(/[-:]/g, "");
}

/** The rotated files of a log among these names, oldest first. */
export function sortSegments(logName: string, names: Iterable<string>): readonly SegmentName[] {
  const segments: SegmentName[] = [];
  for (const name of names) {
    if (!name.startsWith(logName)) continue;
    const [, stamp, number = "0"] = SUFFIX.exec(name.slice(logName.length)) ?? [];
    if (stamp !== undefined) segments.push({ name, stamp, number: Number(number) });
  }
  return segments.sort((a, b) => a.stamp === b.stamp ? a.number - b.number : a.stamp < b.stamp ? -1 : 1);
}

/** A free name that sorts after all rotated files, even if the clock was set back. */
export function nextSegmentName(logName: string, segments: readonly SegmentName[], ms: number): string {
  const stamp = formatStamp(ms);
  const newest = segments.at(-1);
  if (newest === undefined || newest.stamp < stamp) return `${logName}.${stamp}`;
  return `${logName}.${newest.stamp}.${newest.number + 1}`;
}

/** The rotated files of a log, oldest first. */
export async function listSegments(logPath: string): Promise<readonly SegmentName[]> {
  const names: string[] = [];
  for await (const entry of Deno.readDir(dirname(logPath))) {
    if (entry.isFile) names.push(entry.name);
  }
  return sortSegments(basename(logPath), names);
}

/** Makes the names in the directory of a file durable. */
export async function syncFolder(path: string): Promise<void> {
  using folder = await Deno.open(dirname(path), { read: true });
  await folder.sync();
}

/**
 * Opens a log for appending; creates it, readable for its owner only. The file is also opened for reading,
 * because opening a pipe only for writing would wait for its reader.
 *
 * @throws {Error} for a pipe or device
 */
export async function openForAppend(path: string): Promise<Deno.FsFile> {
  const file = await Deno.open(path, { read: true, append: true, create: true, mode: 0o600 });
  if ((await file.stat()).isFile) return file;
  file.close();
  throw new Error("a pipe or device is in its place; remove it");
}

/** Opens a file without a name, which disappears when this process ends. */
export function openUnnamed(folder: string): Deno.FsFile {
  const path = Deno.makeTempFileSync({ dir: folder, prefix: ".probe-" });
  try {
    return Deno.openSync(path, { append: true });
  } finally {
    Deno.removeSync(path);
  }
}

/**
 * Takes the lock `<log>.lock`; `undefined` if another process has it. The lock is not on the log itself,
 * because a rotation renames the log. The lock file is never removed.
 */
export async function tryLockLog(logPath: string): Promise<Disposable | undefined> {
  const path = `${logPath}.lock`;
  // An existing file is opened without O_CREAT, which Linux denies root for other users' files in a sticky directory.
  const file = await ifThere(Deno.open(path, { read: true, write: true })) ??
    await Deno.open(path, { read: true, write: true, create: true, mode: 0o600 });
  return await lockOf(file, async () => {
    const { isFile, isFifo } = await file.stat();
    if (isFile) return true;
    const what = isFifo === true ? "a pipe" : "a device";
    throw configError(`Cannot open ${quoteText(path)}: it is ${what}, not a file; remove it`);
  });
}

/**
 * Opens a file of a log.
 *
 * @throws {AppError} `invalid_config` for a pipe, device or directory; otherwise the system's error
 */
export async function openLogFile(path: string, options: OpenFileOptions = {}): Promise<FileHandle> {
  try {
    return await openFile(path, options);
  } catch (cause) {
    if (!(cause instanceof AppError || cause instanceof Deno.errors.IsADirectory)) throw cause;
    const message = `Cannot open audit log ${quoteText(path)}: ${describeReadFailure(cause)}; remove it`;
    throw configError(message, cause);
  }
}

/**
 * Saves bytes that will be truncated from a log to `<log>.corrupt-<YYYYMMDDTHHMMSSZ>`, readable only by the owner.
 * Durable when it resolves; an incomplete file is removed.
 *
 * @returns the path of the file, which has a number if the name was taken
 */
export async function saveRemovedBytes(
  logPath: string,
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  now: number,
): Promise<string> {
  const base = `${logPath}.corrupt-${formatStamp(now)}`;
  for (let number = 0;; number++) {
    const path = number === 0 ? base : `${base}.${number}`;
    try {
      using file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
      try {
        for await (const chunk of chunks) await writeAll(file, chunk);
        await file.sync();
        await syncFolder(path);
        return path;
      } catch (error) {
        await Deno.remove(path);
        throw error;
      }
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    }
  }
}
