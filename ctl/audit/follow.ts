import type { Stats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { listSegments, MAX_LINE_BYTES, openLogFile, splitLines } from "@gateway/shared/audit";
import { type Clock, every } from "@gateway/shared/clock";
import { ifThere, readAt, readChunks } from "@gateway/shared/files";
import { listLogSet } from "./deployment_logs.ts";

interface FollowOptions {
  readonly path: string;
  /** How many lines that are there already to begin with. */
  readonly lines: number;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  /** Called for each whole line, without its newline; the bytes are valid during the call. */
  readonly onLine: (line: Uint8Array) => void;
  /** Called once when there is no log yet. */
  readonly onMissing: () => void;
}

const PAUSE_MS = 500;

/**
 * Hands over the last lines of a log and then each new one, until the signal ends it. A log that is not there
 * yet is waited for. When the log is rotated away, what is left of it comes first, then what was rotated away
 * after it, then the new file from its start.
 */
export async function followLog(options: FollowOptions): Promise<void> {
  const { path, clock, signal } = options;
  let current = await ifThere(OpenLog.open(path));
  if (current === undefined) options.onMissing();
  else await current.skipTo(options.lines);
  try {
    while (signal?.aborted !== true) {
      // First the name, then the lines: once another file has the name, nobody writes to this one any more.
      const next: OpenLog | undefined = await ifThere(OpenLog.open(path));
      await current?.deliver(options.onLine);
      if (next === undefined || (current !== undefined && current.isSameFile(next))) {
        await next?.close();
        await pause(clock, signal);
        continue;
      }
      if (current !== undefined) {
        await deliverBetween(current, next, options);
        await current.close();
      }
      current = next;
    }
  } finally {
    await current?.close();
  }
}

/** Hands over the files that were filled and rotated away between one that had the log's name and its successor. */
async function deliverBetween(
  current: OpenLog,
  next: OpenLog,
  { path, onLine }: FollowOptions,
): Promise<void> {
  let isLater = false;
  for (const { name } of await listSegments(path)) {
    await using segment = await ifThere(OpenLog.open(join(dirname(path), name)));
    // The successor itself may be rotated away by now: what is later than that comes after it.
    if (segment?.isSameFile(next) === true) return;
    if (segment === undefined) continue;
    if (isLater) await segment.deliver(onLine);
    isLater ||= segment.isSameFile(current);
  }
}

async function pause(clock: Clock, signal: AbortSignal | undefined): Promise<void> {
  try {
    await clock.sleep(PAUSE_MS, signal);
  } catch (error) {
    if (signal?.aborted !== true) throw error;
  }
}

/** A file, and how far its lines have been handed over. */
class OpenLog {
  readonly #file: FileHandle;
  readonly #identity: string;
  /** The end of the last whole line that was handed over. */
  #offset = 0;
  /** What comes next is the rest of a line that is too long for a record. */
  #insideLongLine = false;

  private constructor(file: FileHandle, { dev, ino }: Stats) {
    this.#file = file;
    this.#identity = `${dev}:${ino}`;
  }

  static async open(path: string): Promise<OpenLog> {
    const file = await openLogFile(path);
    return new OpenLog(file, await file.stat());
  }

  isSameFile(other: OpenLog): boolean {
    return this.#identity === other.#identity;
  }

  async skipTo(lines: number): Promise<void> {
    this.#offset = await findLastLines(this.#file, lines);
  }

  async deliver(onLine: (line: Uint8Array) => void): Promise<void> {
    const { size } = await this.#file.stat();
    // A writer takes back what it could not write whole; a log that is shorter than that was started again.
    if (size < this.#offset) {
      this.#offset = 0;
      this.#insideLongLine = false;
    }
    if (size === this.#offset) return;
    let [end, rest] = [this.#offset, 0];
    const count = (bytes: number) => void (end += bytes);
    for await (const line of splitLines(this.#readOn(count), MAX_LINE_BYTES)) {
      if (line.terminated) {
        if (!this.#insideLongLine) onLine(line.bytes);
        this.#insideLongLine = false;
      } else if (line.tooLong || this.#insideLongLine) {
        this.#insideLongLine = true;
      } else {
        rest = line.bytes.length;
      }
    }
    // A line that is still being written is read again: it may be taken back.
    this.#offset = end - rest;
  }

  async *#readOn(count: (bytes: number) => void): AsyncGenerator<Uint8Array> {
    for await (const chunk of readChunks(this.#file, this.#offset)) {
      count(chunk.length);
      yield chunk;
    }
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

const LOOK_SECONDS = 1;

/** Follows a log and those beside it, as {@linkcode followLog} does; of one that begins later, every line. */
export async function followSet(options: FollowOptions): Promise<void> {
  const { path, clock } = options;
  const failed = new AbortController();
  const signal = AbortSignal.any([failed.signal, ...(options.signal === undefined ? [] : [options.signal])]);
  const followed = new Map<string, Promise<void>>();
  const follow = async (lines: number) => {
    for (const log of await listLogSet(path)) {
      if (followed.has(log)) continue;
      const following = followLog({ ...options, path: log, lines, signal });
      following.catch(() => failed.abort());
      followed.set(log, following);
    }
  };
  await follow(options.lines);
  await every({ clock, seconds: LOOK_SECONDS, signal }, () => follow(Infinity));
  await Promise.all(followed.values());
}

const NEWLINE = 0x0a;
const CHUNK_BYTES = 65_536;

/** The offset at which the last whole lines of a file begin; an unfinished line at the end does not count. */
export async function findLastLines(file: FileHandle, lines: number): Promise<number> {
  // The newline that ends the last of them is met first, the one before the first of them last.
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
