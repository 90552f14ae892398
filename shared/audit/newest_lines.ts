/**
 * The lines of a log from the last one to the first, through its rotated files: for who wants to know what happened
 * just before.
 *
 * ```ts ignore
 * import { newestLines } from "@gateway/shared/audit/newest_lines";
 *
 * for await (const line of newestLines("/var/log/signer/audit.log", { maxBytes: 1024 * 1024 })) console.log(line);
 * ```
 *
 * @module
 */
import type { FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { concatBytes } from "../bytes.ts";
import { ifThere, readAt } from "../files.ts";
import { openLogFile } from "./log_file.ts";
import { listSegments } from "./segments.ts";

const NEWLINE = 0x0a;
const CHUNK_BYTES = 1024 * 1024;

/** What {@linkcode newestLines} reads. */
export interface NewestLinesOptions {
  /** As much is read, at most; then `onCut` is called. */
  readonly maxBytes: number;
  /** Told that older lines are left unread. */
  readonly onCut?: () => void;
}

/** The lines that end in a newline, without it, the last first. Bytes that are no UTF-8 read as U+FFFD. */
export async function* newestLines(
  logPath: string,
  { maxBytes, onCut }: NewestLinesOptions,
): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let left = maxBytes;
  for await (const file of newestFiles(logPath)) {
    /** The end of a line whose beginning is still to be read; what follows the last newline was never acknowledged. */
    let tail: Uint8Array<ArrayBuffer> | undefined;
    for (let end = (await file.stat()).size; end > 0;) {
      const start = Math.max(0, end - CHUNK_BYTES);
      if (end - start > left) return onCut?.();
      left -= end - start;
      const chunk = await readAt(file, start, end - start);
      end = start;
      const whole = tail === undefined ? chunk.lastIndexOf(NEWLINE) : chunk.length;
      if (whole < 0) continue;
      const bytes = concatBytes([chunk.subarray(0, whole), ...(tail === undefined ? [] : [tail])]);
      const first = start === 0 ? -1 : bytes.indexOf(NEWLINE);
      if (start > 0 && first < 0) tail = bytes;
      else {
        // All of them at a time: each by itself takes several times as long.
        yield* decoder.decode(bytes.subarray(first + 1)).split("\n").reverse();
        tail = bytes.subarray(0, first < 0 ? 0 : first);
      }
    }
  }
}

/** A log and its rotated files, the newest first; each is closed behind its use. */
async function* newestFiles(logPath: string): AsyncGenerator<FileHandle> {
  // The log first: when it is rotated away after this, it is among the rotated files too, and told by that.
  await using log = await ifThere(openLogFile(logPath));
  const known = await log?.stat();
  const segments = await listSegments(logPath);
  if (log !== undefined) yield log;
  for (const { name } of segments.toReversed()) {
    await using file = await ifThere(openLogFile(join(dirname(logPath), name)));
    const info = await file?.stat();
    if (file !== undefined && (info?.ino !== known?.ino || info?.dev !== known?.dev)) yield file;
  }
}
