/**
 * The files of a log on disk: the one being written, and those rotated away.
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import { quoteText, writeAll, writeAllSync } from "../text.ts";
import type { Clock } from "../clock.ts";
import { AppError, errorText } from "../errors.ts";
import type { RecordStore } from "./group_commit.ts";
import type { FileHandle } from "node:fs/promises";
import { describeReadFailure, openFile, type OpenFileOptions } from "../files/files.ts";

export type { RecordStore } from "./group_commit.ts";

/** Told of what went wrong without stopping the log; a `ServiceLogger` fits. */
export interface AuditWarnings {
  /** Reports one failure, with the facts about it. */
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/** The rotated files of a log, oldest first. */
export async function listSegments(logPath: string): Promise<readonly SegmentName[]> {
  const names: string[] = [];
  for await (const entry of Deno.readDir(dirname(logPath))) {
    if (entry.isFile) names.push(entry.name);
  }
  return sortSegments(basename(logPath), names);
}

/** Makes the names in the folder of a file durable. */
export async function syncFolder(path: string): Promise<void> {
  using folder = await Deno.open(dirname(path), { read: true });
  await folder.sync();
}

/**
 * Opens a log for appending; creates it, readable by its owner only. To read as well: a pipe that is opened so has its
 * other end.
 *
 * @throws {Error} for a pipe or device
 */
export async function openForAppend(path: string): Promise<Deno.FsFile> {
  const file = await Deno.open(path, { read: true, append: true, create: true, mode: 0o600 });
  if ((await file.stat()).isFile) return file;
  file.close();
  throw new Error("a pipe or device is in its place; remove it");
}

/** What a {@linkcode SegmentedFile} is made of. */
interface SegmentedFileOptions {
  /** The log file; a rotated one has the time behind its name. */
  readonly path: string;
  /** The log, from {@linkcode openForAppend}. */
  readonly file: Deno.FsFile;
  /** For the time in the name of a rotated file. */
  readonly clock: Clock;
  /** Told when a rotation fails; the log is then written on in the same file. */
  readonly warnings?: AuditWarnings | undefined;
}

/** A log file that can be rotated while records are being appended. */
export class SegmentedFile implements RecordStore {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #warnings: AuditWarnings | undefined;
  #file: Deno.FsFile;
  /** Which file that is: no other one has both numbers while it is open. */
  #own: Pick<Deno.FileInfo, "dev" | "ino">;
  /** The open file has its rotated name already, and its successor could not be opened yet. */
  #movedAway = false;

  constructor(options: SegmentedFileOptions) {
    this.#path = options.path;
    this.#file = options.file;
    this.#own = options.file.statSync();
    this.#clock = options.clock;
    this.#warnings = options.warnings;
  }

  // Not awaited: it copies to the system's cache, which takes less time than to hand it to another thread.
  write(bytes: Uint8Array): Promise<void> {
    return Promise.try(() => writeAllSync(this.#file, bytes));
  }

  sync(): Promise<void> {
    return this.#file.syncData();
  }

  size(): number {
    // Between the two steps of a rotation that could not be finished the path is free.
    if (this.#movedAway) return this.#file.statSync().size;
    const named = statOf(this.#path);
    if (named === undefined) throw new Error("it was removed or moved while the service runs");
    if (named.dev !== this.#own.dev || named.ino !== this.#own.ino) {
      throw new Error("another file is in its place");
    }
    return named.size;
  }

  truncate(size: number): Promise<void> {
    return this.#file.truncate(size);
  }

  /** Never fails: where a step can't be done, the open file stays in use and the next append tries again. */
  async rotate(): Promise<boolean> {
    try {
      if (!this.#movedAway) await this.#moveAway();
      const next = await this.#openNext();
      this.#file.close();
      this.#file = next;
      this.#own = next.statSync();
      this.#movedAway = false;
      return true;
    } catch (error) {
      this.#warnings?.warn("Cannot rotate audit log, it keeps growing", {
        path: this.#path,
        error: errorText(error),
      });
      return false;
    }
  }

  close(): void {
    this.#file.close();
  }

  async #moveAway(): Promise<void> {
    const name = nextSegmentName(basename(this.#path), await listSegments(this.#path), this.#clock.now());
    await Deno.rename(this.#path, join(dirname(this.#path), name));
    this.#movedAway = true;
  }

  async #openNext(): Promise<Deno.FsFile> {
    const next = await openForAppend(this.#path);
    try {
      const [own, { size, uid }] = await Promise.all([this.#file.stat(), next.stat()]);
      if (size > 0) throw new Error("its successor is not empty");
      // Who owns it could take the records out of a folder where others may write, and no kernel has to refuse it.
      if (uid !== own.uid) throw new Error("its successor is another user's");
      await syncFolder(this.#path);
      return next;
    } catch (error) {
      next.close();
      throw error;
    }
  }
}

function statOf(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** What orders rotated files: time first, then the number. */
interface SegmentName {
  /** As it is in the folder. */
  readonly name: string;
  readonly stamp: string;
  /** 0 when the name has none. */
  readonly number: number;
}

const SUFFIX = /^\.(\d{8}T\d{6}Z)(?:\.([1-9]\d{0,8}))?$/;

/** A point in time (milliseconds since the Unix epoch) as file names carry it: `YYYYMMDDTHHMMSSZ`. */
export function formatStamp(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+/, "").replaceAll(/[-:]/g, "");
}

/** The rotated files of a log among the names of its folder, oldest first; other files are left out. */
export function sortSegments(logName: string, names: Iterable<string>): readonly SegmentName[] {
  const segments: SegmentName[] = [];
  for (const name of names) {
    if (!name.startsWith(logName)) continue;
    const [, stamp, number = "0"] = SUFFIX.exec(name.slice(logName.length)) ?? [];
    if (stamp !== undefined) segments.push({ name, stamp, number: Number(number) });
  }
  return segments.sort((a, b) => a.stamp === b.stamp ? a.number - b.number : a.stamp < b.stamp ? -1 : 1);
}

/**
 * A free name that sorts after every other rotated file, also when the clock was set back.
 *
 * @param segments oldest first, as {@linkcode sortSegments} gives them
 */
export function nextSegmentName(logName: string, segments: readonly SegmentName[], ms: number): string {
  const stamp = formatStamp(ms);
  const newest = segments.at(-1);
  if (newest === undefined || newest.stamp < stamp) return `${logName}.${stamp}`;
  return `${logName}.${newest.stamp}.${newest.number + 1}`;
}

/**
 * Opens a file of a log.
 *
 * @throws {AppError} `invalid_config` for a pipe, a device, a folder; what the operating system reports otherwise
 */
export async function openLogFile(path: string, options: OpenFileOptions = {}): Promise<FileHandle> {
  try {
    return await openFile(path, options);
  } catch (cause) {
    if (!(cause instanceof AppError || cause instanceof Deno.errors.IsADirectory)) throw cause;
    const message = `Cannot open audit log ${quoteText(path)}: ${describeReadFailure(cause)}; remove it`;
    throw new AppError("invalid_config", message, { cause });
  }
}

/**
 * Writes what is to be cut from a log to `<log>.corrupt-<YYYYMMDDTHHMMSSZ>`, with a number where that name is
 * taken, for its owner alone. Durable when it resolves; a file that could not be finished is removed.
 *
 * @param now the time that names the file, in milliseconds since the Unix epoch
 * @returns the path of the file
 */
export async function putAside(
  logPath: string,
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  now: number,
): Promise<string> {
  const { path, file } = await createFree(`${logPath}.corrupt-${formatStamp(now)}`);
  try {
    using _closing = file;
    for await (const chunk of chunks) await writeAll(file, chunk);
    await file.sync();
    await syncFolder(path);
    return path;
  } catch (error) {
    await Deno.remove(path);
    throw error;
  }
}

async function createFree(base: string): Promise<{ readonly path: string; readonly file: Deno.FsFile }> {
  for (let number = 0;; number++) {
    const path = number === 0 ? base : `${base}.${number}`;
    try {
      return { path, file: await Deno.open(path, { write: true, createNew: true, mode: 0o600 }) };
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    }
  }
}
