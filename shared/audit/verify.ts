/**
 * Checks audit logs: one file, or a log with its rotated files.
 *
 * Not protected without a remembered head (`since`): if the last records, the newest files or all files are removed, the
 * rest is a valid chain. So is a log that an attacker with the seed has written. The last line of a log in use may be
 * incomplete.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { AppError } from "../errors.ts";
import { ifThere, readAt, readChunks } from "../files/mod.ts";
import { concatBytes, quoteText } from "../text.ts";
import { listSegments, openLogFile } from "./files.ts";
import {
  type AuditPublicKey,
  type ChainHead,
  hashLine,
  isJson,
  MAX_LINE_BYTES,
  parseLine,
  verifySignature,
} from "./record.ts";
import type { FileHandle } from "node:fs/promises";

/** A defect of a log. */
export interface ChainProblem {
  readonly line: number;
  readonly kind: "malformed" | "too_long" | "gap" | "prev_hash" | "signature";
  readonly message: string;
}

/** A defect, and its file. */
export interface LogProblem extends ChainProblem {
  readonly file: string;
}

interface CheckOptions<Problem> {
  /** The key for the signatures. Without it, signatures are not checked. */
  readonly publicKey?: AuditPublicKey | undefined;
  /** The remembered hash of a line; `""` for an empty log. */
  readonly since?: string | undefined;
  readonly onProblem: (problem: Problem) => void;
  /** Called with each line that is neither empty nor too long. */
  readonly onLine?: ((line: Uint8Array) => void) | undefined;
}

interface VerifyOptions extends CheckOptions<LogProblem> {
  /** The path of the log, or of one of its rotated files. */
  readonly path: string;
}

/** The end of a log. */
export interface LogHead {
  /** The number of the last record in its file, 0 if there is none. */
  readonly seq: bigint;
  /** The hash of the last line, empty if there is none. */
  readonly hash: string;
}

/** The result of a check. */
export interface VerifyResult {
  readonly entries: number;
  readonly problems: number;
  readonly head: LogHead;
  /** Whether the first record begins a log. Otherwise, the hash in its `prev_hash` was not checked. */
  readonly isFromBeginning: boolean;
  /** The records after the remembered head; `undefined` if the log does not contain it. */
  readonly entriesSince: number | undefined;
}

/** Checks one file. The `prev_hash` of its first record is trusted. @throws {AppError} `not_found` */
export async function verifyFile(options: VerifyOptions): Promise<VerifyResult> {
  return await verifyFiles([options.path], undefined, options);
}

/**
 * Checks the rotated files of a log and the log. The first record must begin the chain, and each file must be linked to
 * the one before it, so that a removed file is found.
 *
 * @throws {AppError} `not_found` if there is no file
 */
export async function verifyAll(options: VerifyOptions): Promise<VerifyResult> {
  return await verifyFiles(await listFiles(options.path), "", options);
}

/**
 * Checks as {@linkcode verifyAll} does, but the oldest files may be missing: the first link is trusted unless the log
 * was empty when its head was remembered.
 *
 * @throws {AppError} `not_found` if there is no file
 */
export async function verifyKept(options: VerifyOptions): Promise<VerifyResult> {
  return await verifyFiles(await listFiles(options.path), options.since === "" ? "" : undefined, options);
}

async function listFiles(path: string): Promise<readonly string[]> {
  const segments = await readable(path, () => listSegments(path));
  const files = segments.map(({ name }) => join(dirname(path), name));
  // After a crash between a rotation and the next record, only rotated files exist.
  const hasLog = files.length === 0 || await ifThere(Deno.stat(path)) !== undefined;
  return hasLog ? [...files, path] : files;
}

async function verifyFiles(
  files: readonly string[],
  firstHash: string | undefined,
  options: VerifyOptions,
): Promise<VerifyResult> {
  let [entries, problems, expectedHash] = [0, 0, firstHash];
  let head: LogHead = { seq: 0n, hash: "" };
  let isFromBeginning = true;
  let entriesSince = options.since === "" ? 0 : undefined;
  for (const path of files) {
    await using file = await readable(path, () => openLogFile(path));
    const onProblem = (problem: ChainProblem) => options.onProblem({ ...problem, file: path });
    const result = await checkLog(readChunks(file), { ...options, onProblem, expectedHash });
    if (entries === 0 && result.entries > 0) isFromBeginning = result.firstPrevHash === "";
    entries += result.entries;
    problems += result.problems;
    expectedHash = result.lastHash ?? expectedHash;
    if (result.lastHash !== undefined) head = { seq: result.lastSeq ?? 0n, hash: result.lastHash };
    entriesSince = result.entriesSince ??
      (entriesSince === undefined ? undefined : entriesSince + result.entries);
  }
  return { entries, problems, head, isFromBeginning, entriesSince };
}

async function readable<T>(path: string, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new AppError("not_found", `Cannot read audit log ${quoteText(path)}: no such file`, { cause });
  }
}

/**
 * Checks the chain of one file: each line is a record, numbered on, linked to the line before it, and signed.
 *
 * @param options.expectedHash the link of the first record, `""` at the beginning of a log; absent: any
 */
export async function checkLog(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  options: CheckOptions<ChainProblem> & { readonly expectedHash?: string | undefined },
) {
  const { publicKey, since, onLine, onProblem } = options;
  let [lineNumber, entries, problems] = [0, 0, 0];
  // Undefined if any value is accepted: at the start, and after an unreadable line.
  let lastSeq: bigint | undefined;
  let { expectedHash } = options;
  let lastHash: string | undefined;
  let firstPrevHash: string | undefined;
  let foundAt: number | undefined;
  const report = (kind: ChainProblem["kind"], message: string) => {
    problems++;
    onProblem({ line: lineNumber, kind, message });
  };
  for await (const { bytes, terminated, tooLong } of splitLines(chunks, MAX_LINE_BYTES)) {
    lineNumber++;
    if (bytes.length === 0) continue;
    entries++;
    if (tooLong) {
      report("too_long", `line too long: more than ${MAX_LINE_BYTES} bytes`);
      lastSeq = expectedHash = undefined;
      continue;
    }
    onLine?.(bytes);
    const record = parseLine(bytes);
    if (record === undefined) {
      report("malformed", `malformed JSON${terminated ? "" : ": the last line is cut off"}`);
    } else {
      const { seq, prevHash } = record;
      if (entries === 1) firstPrevHash = prevHash;
      if (lastSeq !== undefined && seq !== lastSeq + 1n) {
        report("gap", `gap or reorder: seq ${seq} follows ${lastSeq}`);
      }
      if (expectedHash !== undefined && prevHash !== expectedHash) {
        const before = expectedHash === ""
          ? "not the beginning of a log"
          : "not linked to the file before this one";
        report(
          "prev_hash",
          `prev_hash mismatch: ${entries > 1 ? "not linked to the line before it" : before}`,
        );
      }
      if (publicKey !== undefined && !verifySignature(record, publicKey)) {
        report("signature", "signature invalid");
      }
    }
    lastSeq = record?.seq;
    expectedHash = lastHash = hashLine(bytes);
    if (lastHash === since) foundAt = entries;
  }
  const entriesSince = foundAt === undefined ? undefined : entries - foundAt;
  return { entries, problems, lastHash, lastSeq, firstPrevHash, entriesSince };
}

/** Two lines of full length: the part of a file that {@linkcode inspectTail} needs. */
export const TAIL_BYTES: number = 2 * (MAX_LINE_BYTES + 1);

/**
 * The state of the end of a file. `broken` is not the result of an interrupted write, so a person must
 * examine the file.
 */
export type TailState =
  | { readonly kind: "empty"; readonly tornBytes: number }
  | {
    readonly kind: "good";
    readonly head: ChainHead;
    /** False if the last record is complete, but lacks its newline. */
    readonly terminated: boolean;
    /** Bytes at the end of the file that belong to an incomplete record. */
    readonly tornBytes: number;
  }
  | { readonly kind: "broken"; readonly reason: string };

const NEWLINE = 0x0a;

/**
 * Judges a file by its last line. A last line that is neither terminated nor JSON was never acknowledged and counts as
 * torn. Any other line must be a record signed by this key and linked to the line before it.
 *
 * @param bytes the last {@linkcode TAIL_BYTES} of the file
 * @param wholeFile whether `bytes` is the whole file
 */
export function inspectTail(bytes: Uint8Array, wholeFile: boolean, key: AuditPublicKey): TailState {
  const lastStart = bytes.lastIndexOf(NEWLINE) + 1;
  const unterminated = bytes.subarray(lastStart);
  if (unterminated.length > MAX_LINE_BYTES) return TOO_LONG;
  const isTorn = unterminated.length > 0 && !isJson(unterminated);
  const whole = isTorn ? bytes.subarray(0, lastStart) : bytes;
  const tornBytes = isTorn ? unterminated.length : 0;
  const last = lastLine(whole);
  if (last === undefined) return wholeFile ? { kind: "empty", tornBytes } : broken("it ends in empty lines");
  if (last.line.length > MAX_LINE_BYTES || (last.start === 0 && !wholeFile)) return TOO_LONG;
  const record = parseLine(last.line);
  if (record === undefined) return broken("its last line is not a record");
  if (!verifySignature(record, key)) return broken("its last record is not signed by this audit key");
  const previous = lastLine(whole.subarray(0, last.start));
  // A line that starts before these bytes cannot be hashed.
  const isComplete = previous !== undefined && (previous.start > 0 || wholeFile);
  if (isComplete && record.prevHash !== hashLine(previous.line)) {
    return broken("its last record is not linked to the one before it");
  }
  const seq = Number(record.seq);
  if (!Number.isSafeInteger(seq)) return broken("the number of its last record is too large");
  const terminated = isTorn || unterminated.length === 0;
  return { kind: "good", head: { seq, hash: hashLine(last.line) }, terminated, tornBytes };
}

/** The last line that is not empty, without its newline. */
function lastLine(bytes: Uint8Array) {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === NEWLINE) end--;
  if (end === 0) return undefined;
  const start = bytes.lastIndexOf(NEWLINE, end - 1) + 1;
  return { line: bytes.subarray(start, end), start };
}

function broken(reason: string): TailState {
  return { kind: "broken", reason };
}

const TOO_LONG = broken(`its last line is longer than ${MAX_LINE_BYTES} bytes`);

/** One line of a log. */
interface LogLine {
  /**
   * The line without its newline. Of a line that is too long, only the beginning. Valid until the next line
   * is read.
   */
  readonly bytes: Uint8Array;
  readonly terminated: boolean;
  readonly tooLong: boolean;
}

/** Splits at line feeds, and keeps at most `maxBytes` of a line. */
export async function* splitLines(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<LogLine> {
  // The parts of a line that spans several chunks.
  let pieces: Uint8Array[] = [];
  let length = 0;
  const add = (piece: Uint8Array) => {
    const room = maxBytes - length;
    length += piece.length;
    // Copy the piece, because the source may reuse its buffer.
    if (room > 0 && piece.length > 0) pieces.push(piece.slice(0, room));
  };
  const complete = (piece: Uint8Array, terminated: boolean): LogLine => {
    if (length === 0 && piece.length <= maxBytes) return { bytes: piece, terminated, tooLong: false };
    add(piece);
    const line = { bytes: concatBytes(pieces), terminated, tooLong: length > maxBytes };
    pieces = [];
    length = 0;
    return line;
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      yield complete(chunk.subarray(start, end), true);
      start = end + 1;
    }
    add(chunk.subarray(start));
  }
  if (length > 0) yield complete(new Uint8Array(0), false);
}

const CHUNK_BYTES = 1024 * 1024;

/**
 * The terminated lines of a log and its rotated files, newest first. Invalid UTF-8 becomes U+FFFD.
 *
 * @param options.maxBytes the maximum number of bytes to read; `onCut` is called when it is reached
 */
export async function* newestLines(
  logPath: string,
  { maxBytes, onCut }: { readonly maxBytes: number; readonly onCut?: () => void },
): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let left = maxBytes;
  for await (const file of newestFiles(logPath)) {
    /**
     * The end of a line whose beginning has not been read yet. Bytes after the last newline were never
     * acknowledged, so they are dropped.
     */
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
        // Decode many lines together, because decoding each line separately takes several times as long.
        yield* decoder.decode(bytes.subarray(first + 1)).split("\n").reverse();
        tail = bytes.subarray(0, first < 0 ? 0 : first);
      }
    }
  }
}

async function* newestFiles(logPath: string): AsyncGenerator<FileHandle> {
  // Open the log first. If it is rotated afterwards, it is also among the rotated files and is skipped there.
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
