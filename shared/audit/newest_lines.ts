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
import { dirname, join } from "node:path";
import { concatBytes } from "../bytes.ts";
import { ifThere } from "../files.ts";
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
    // What follows the last newline was never acknowledged.
    let tail: Uint8Array | undefined;
    for (let end = (await file.stat()).size; end > 0;) {
      const start = Math.max(0, end - CHUNK_BYTES);
      if (end - start > left) return onCut?.();
      left -= end - start;
      let chunk = await readAt(file, start, end - start);
      for (let at = chunk.lastIndexOf(NEWLINE); at >= 0; at = chunk.lastIndexOf(NEWLINE)) {
        const line = chunk.subarray(at + 1);
        if (tail !== undefined) yield decoder.decode(concatBytes([line, tail]));
        tail = new Uint8Array();
        chunk = chunk.subarray(0, at);
      }
      if (tail !== undefined) tail = concatBytes([chunk, tail]);
      end = start;
    }
    if (tail !== undefined) yield decoder.decode(tail);
  }
}

/** A log and its rotated files, the newest first; each is closed behind its use. */
async function* newestFiles(logPath: string): AsyncGenerator<Deno.FsFile> {
  // The log first: when it is rotated away after this, it is among the rotated files too, and told by that.
  using log = await ifThere(Deno.open(logPath, { read: true }));
  const known = await log?.stat();
  const segments = await listSegments(logPath);
  if (log !== undefined) yield log;
  for (const { name } of segments.toReversed()) {
    using file = await ifThere(Deno.open(join(dirname(logPath), name), { read: true }));
    const info = await file?.stat();
    if (file !== undefined && (info?.ino !== known?.ino || info?.dev !== known?.dev)) yield file;
  }
}

/** As many bytes; fewer where the file has become shorter. */
async function readAt(file: Deno.FsFile, start: number, length: number): Promise<Uint8Array> {
  await file.seek(start, Deno.SeekMode.Start);
  const bytes = new Uint8Array(length);
  let filled = 0;
  while (filled < length) {
    const count = await file.read(bytes.subarray(filled));
    if (count === null) break;
    filled += count;
  }
  return bytes.subarray(0, filled);
}
