/**
 * What the end of a log file tells about its state: where the chain continues, or what keeps it from continuing.
 *
 * @module
 */
import { parseStandardJson } from "../json.ts";
import { type AuditPublicKey, type ChainHead, hashLine, parseLine, verifySignature } from "./chain.ts";
import { MAX_LINE_BYTES } from "./record.ts";
import { concatBytes } from "../text.ts";
import type { FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ifThere, readAt } from "../files/files.ts";
import { listSegments, openLogFile } from "./segments.ts";

/** How many bytes at the end of a file {@linkcode inspectTail} needs to see: two lines of full length. */
export const TAIL_BYTES: number = 2 * (MAX_LINE_BYTES + 1);

/** The state of a log file. */
export type TailState =
  /** No record in it. */
  | { readonly kind: "empty"; readonly tornBytes: number }
  /** `tornBytes` at the end belong to a record that was not written to its end. */
  | {
    readonly kind: "good";
    readonly head: ChainHead;
    /** False when the last record, though whole, lacks its newline. */
    readonly terminated: boolean;
    readonly tornBytes: number;
  }
  /** Not the trace of an interrupted write: somebody has to look. */
  | { readonly kind: "broken"; readonly reason: string };

const NEWLINE = 0x0a;

/**
 * Judges a file by its last line. A last line without newline that isn't JSON was never acknowledged, so it
 * counts as torn; anything else must be a record signed by this key and linked to the line before it.
 *
 * @param bytes the last {@linkcode TAIL_BYTES} of the file, or all of it if it is shorter
 * @param wholeFile whether `bytes` starts where the file starts
 */
export function inspectTail(bytes: Uint8Array, wholeFile: boolean, key: AuditPublicKey): TailState {
  const lastStart = bytes.lastIndexOf(NEWLINE) + 1;
  const unterminated = bytes.subarray(lastStart);
  if (unterminated.length > MAX_LINE_BYTES) return tooLong();
  if (unterminated.length === 0) return inspectRecords(bytes, wholeFile, key, true, 0);
  if (isJson(unterminated)) return inspectRecords(bytes, wholeFile, key, false, 0);
  return inspectRecords(bytes.subarray(0, lastStart), wholeFile, key, true, unterminated.length);
}

function inspectRecords(
  bytes: Uint8Array,
  wholeFile: boolean,
  key: AuditPublicKey,
  terminated: boolean,
  tornBytes: number,
): TailState {
  const last = lastLine(bytes);
  if (last === undefined) return wholeFile ? { kind: "empty", tornBytes } : broken("it ends in blank lines");
  if (last.line.length > MAX_LINE_BYTES || (last.start === 0 && !wholeFile)) return tooLong();
  const record = parseLine(last.line);
  if (record === undefined) return broken("its last line is not a record");
  if (!verifySignature(record, key)) return broken("its last record is not signed by this audit key");
  const previous = lastLine(bytes.subarray(0, last.start));
  // A line cut off by the start of the window can't be hashed.
  if (previous !== undefined && (previous.start > 0 || wholeFile)) {
    const linked = record.prevHash === hashLine(previous.line);
    if (!linked) return broken("its last record is not linked to the one before it");
  }
  const seq = Number(record.seq);
  if (!Number.isSafeInteger(seq)) return broken("the number of its last record is too large");
  return { kind: "good", head: { seq, hash: hashLine(last.line) }, terminated, tornBytes };
}

/** The last line that isn't blank, without its newline. */
function lastLine(bytes: Uint8Array): { readonly line: Uint8Array; readonly start: number } | undefined {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === NEWLINE) end--;
  if (end === 0) return undefined;
  const start = bytes.lastIndexOf(NEWLINE, end - 1) + 1;
  return { line: bytes.subarray(start, end), start };
}

function isJson(bytes: Uint8Array): boolean {
  try {
    parseStandardJson(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
    return true;
  } catch {
    return false;
  }
}

function tooLong(): TailState {
  return broken(`its last line is longer than ${MAX_LINE_BYTES} bytes`);
}

function broken(reason: string): TailState {
  return { kind: "broken", reason };
}

/** One line of a log. */
export interface LogLine {
  /** Without its newline; of a line that is too long, only the beginning. Valid until the next line is taken. */
  readonly bytes: Uint8Array;
  /** False for a last line without newline. */
  readonly terminated: boolean;
  /** True when the line has more than the allowed bytes. */
  readonly tooLong: boolean;
}

/** Splits at LF; keeps no more than `maxBytes` of a line. */
export async function* splitLines(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<LogLine> {
  const partial = new LineBuffer(maxBytes);
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      yield partial.complete(chunk.subarray(start, end));
      start = end + 1;
    }
    partial.add(chunk.subarray(start));
  }
  if (partial.length > 0) yield { ...partial.complete(new Uint8Array(0)), terminated: false };
}

/** Collects the pieces of a line that spans chunks. */
class LineBuffer {
  readonly #maxBytes: number;
  #pieces: Uint8Array[] = [];
  #kept = 0;
  /** All bytes of the line so far, kept or not. */
  length = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  add(piece: Uint8Array): void {
    const room = this.#maxBytes - this.#kept;
    this.length += piece.length;
    if (room <= 0 || piece.length === 0) return;
    // A copy: the source may reuse its buffer.
    this.#pieces.push(piece.slice(0, room));
    this.#kept += Math.min(room, piece.length);
  }

  complete(piece: Uint8Array): LogLine {
    if (this.length === 0 && piece.length <= this.#maxBytes) {
      return { bytes: piece, terminated: true, tooLong: false };
    }
    this.add(piece);
    const line = {
      bytes: concatBytes(this.#pieces),
      terminated: true,
      tooLong: this.length > this.#maxBytes,
    };
    this.#pieces = [];
    this.#kept = 0;
    this.length = 0;
    return line;
  }
}

const CHUNK_BYTES = 1024 * 1024;

/** What {@linkcode newestLines} reads. */
interface NewestLinesOptions {
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
