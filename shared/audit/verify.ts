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
import { ifThere, readChunks } from "../files/files.ts";
import { quoteText } from "../text.ts";
import { listSegments, openLogFile } from "./files.ts";
import { type AuditPublicKey, hashLine, MAX_LINE_BYTES, parseLine, verifySignature } from "./record.ts";
import { splitLines } from "./tail.ts";

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
  /** Without it, signatures are not checked. */
  readonly publicKey?: AuditPublicKey | undefined;
  /** The remembered hash of a line, `""` for that of an empty log. */
  readonly since?: string | undefined;
  readonly onProblem: (problem: Problem) => void;
  /** Called with each line that is neither blank nor too long. */
  readonly onLine?: ((line: Uint8Array) => void) | undefined;
}

interface VerifyOptions extends CheckOptions<LogProblem> {
  /** The log, or a rotated file by its own name. */
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
  /** Whether the first record begins a log. Otherwise its link was trusted. */
  readonly isFromBeginning: boolean;
  /** The records after the remembered head; `undefined` if the log does not contain it. */
  readonly entriesSince: number | undefined;
}

/** Checks one file. The link of its first record is trusted. @throws {AppError} `not_found` */
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
  // After a crash between a rotation and the next record, there are rotated files only.
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
  // Undefined if any value is valid: at the start, and after an unreadable line.
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
