/**
 * Checks audit logs on disk: one file, or a log with all its rotated files.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { createAuditKey } from "@gateway/shared/audit";
 * import { verifyAll } from "@gateway/shared/audit";
 *
 * async function defects(path: string, seed: Uint8Array): Promise<readonly string[]> {
 *   const found: string[] = [];
 *   const { publicKey } = createAuditKey(seed);
 *   await verifyAll({
 *     path,
 *     publicKey,
 *     onProblem: ({ file, line, message }) => found.push(`${file}: line ${line}: ${message}`),
 *   });
 *   return found;
 * }
 * assert.equal(defects.length, 2);
 * ```
 *
 * Not protected without a remembered head (`since`): removal of the last records of the newest file, of the newest
 * files, or of everything, leaves a chain that is whole, as does a log written anew by whoever has the seed. A log that is being written may show its last line as cut off.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { AppError } from "../errors.ts";
import { ifThere, readChunks } from "../files/files.ts";
import { listSegments, openLogFile } from "./segments.ts";
import { quoteText } from "../text.ts";
import { type AuditPublicKey, hashLine, type ParsedLine, parseLine, verifySignature } from "./chain.ts";
import { type LogLine, splitLines } from "./tail.ts";
import { MAX_LINE_BYTES } from "./record.ts";

/** A defect, and where it is. */
export interface LogProblem extends ChainProblem {
  readonly file: string;
}

interface VerifyOptions {
  /** The log file; a rotated one is verified by its own name. */
  readonly path: string;
  /** Absent: only the chain is checked, not who wrote it. */
  readonly publicKey?: AuditPublicKey | undefined;
  /** The hash of the head that was remembered; `""` for that of an empty log. */
  readonly since?: string | undefined;
  /** Called for each defect, in the order of the lines. */
  readonly onProblem: (problem: LogProblem) => void;
  /** Called with each line that is not blank or too long. */
  readonly onLine?: ((line: Uint8Array) => void) | undefined;
}

/** The end of a log that was looked at, for whoever looks again. */
export interface LogHead {
  /** The number of the last record in its file; 0 when there is none. */
  readonly seq: bigint;
  /** SHA-256 of the last line without its newline; empty when there is none. */
  readonly hash: string;
}

/** What a check found. */
export interface VerifyResult {
  /** How many records there are, defective ones included. */
  readonly entries: number;
  /** How many defects were reported; 0 means that what is there is intact. */
  readonly problems: number;
  /** The end of what is there. */
  readonly head: LogHead;
  /** Whether the first record begins a log; otherwise what it is linked to was taken on trust. */
  readonly isFromBeginning: boolean;
  /** How many records came after the remembered head; undefined when none was given, or the log does not contain it. */
  readonly entriesSince: number | undefined;
}

/**
 * Checks one file; what its first record is linked to is taken on trust.
 *
 * @throws {AppError} `not_found` when the file isn't there
 */
export async function verifyFile(options: VerifyOptions): Promise<VerifyResult> {
  return await verifyFiles([options.path], undefined, options);
}

/**
 * Checks the rotated files of a log from the oldest, then the log itself: the first record begins the chain,
 * and each file is linked to the one before it, so that a file taken away shows.
 *
 * @throws {AppError} `not_found` when there is neither the log nor a rotated file
 */
export async function verifyAll(options: VerifyOptions): Promise<VerifyResult> {
  return await verifyFiles(await listFiles(options.path), "", options);
}

/**
 * Likewise, but the oldest files may be gone, put away by whoever keeps logs for a time: what the first record is
 * linked to is taken on trust, unless the log was empty when its head was remembered.
 *
 * @throws {AppError} `not_found` when there is neither the log nor a rotated file
 */
export async function verifyKept(options: VerifyOptions): Promise<VerifyResult> {
  return await verifyFiles(await listFiles(options.path), options.since === "" ? "" : undefined, options);
}

/** The files of a log, oldest first. */
async function listFiles(path: string): Promise<readonly string[]> {
  const segments = await readable(path, () => listSegments(path));
  const files = segments.map(({ name }) => join(dirname(path), name));
  // Between a rotation and the next record, a crash can leave rotated files alone.
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
  let firstPrevHash: string | undefined;
  let entriesSince = options.since === "" ? 0 : undefined;
  for (const file of files) {
    const result = await checkFile(file, expectedHash, options);
    if (entries === 0) firstPrevHash = result.firstPrevHash;
    entries += result.entries;
    problems += result.problems;
    expectedHash = result.lastHash ?? expectedHash;
    if (result.lastHash !== undefined) head = { seq: result.lastSeq ?? 0n, hash: result.lastHash };
    entriesSince = result.entriesSince ??
      (entriesSince === undefined ? undefined : entriesSince + result.entries);
  }
  return { entries, problems, head, isFromBeginning: entries === 0 || firstPrevHash === "", entriesSince };
}

async function checkFile(
  path: string,
  expectedHash: string | undefined,
  { publicKey, since, onProblem, onLine }: VerifyOptions,
): Promise<CheckResult> {
  await using file = await readable(path, () => openLogFile(path));
  return await checkLog(readChunks(file), {
    publicKey,
    expectedHash,
    since,
    onLine,
    onProblem: (problem) => onProblem({ ...problem, file: path }),
  });
}

async function readable<T>(path: string, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new AppError("not_found", `Cannot read audit log ${quoteText(path)}: no such file`, { cause });
  }
}

const PROBLEM_KINDS = ["malformed", "too_long", "gap", "prev_hash", "signature"] as const;
/** One of {@linkcode PROBLEM_KINDS}. */
type ProblemKind = (typeof PROBLEM_KINDS)[number];

/** A defect of a log. */
export interface ChainProblem {
  /** The line it was found at, from 1, blank ones counted. */
  readonly line: number;
  readonly kind: ProblemKind;
  /** For people; begins with `malformed JSON`, `line too long`, `gap or reorder`, `prev_hash mismatch` or
   * `signature invalid`. */
  readonly message: string;
}

/** How a {@linkcode checkLog} looks at a log. */
interface CheckOptions {
  /** Absent: signatures are not checked. */
  readonly publicKey?: AuditPublicKey | undefined;
  /** What the first record must be linked to, `""` for the beginning of a log; absent: anything. */
  readonly expectedHash?: string | undefined;
  /** The hash of a line to look for. */
  readonly since?: string | undefined;
  readonly onProblem: (problem: ChainProblem) => void;
  /** Called with each line that is not blank or too long, before its defects; its bytes are its own. */
  readonly onLine?: ((line: Uint8Array) => void) | undefined;
}

/** What {@linkcode checkLog} found. */
interface CheckResult {
  /** Lines looked at, good or not. */
  readonly entries: number;
  readonly problems: number;
  /** The hash of the last line, which the next file's first record carries; undefined without any line. */
  readonly lastHash: string | undefined;
  /** The number of the last record; undefined without any, or when the last line is not one. */
  readonly lastSeq: bigint | undefined;
  /** What the first record is linked to; undefined without any, or when the first line is not one. */
  readonly firstPrevHash: string | undefined;
  /** How many lines come after the one that was looked for; undefined when it is not there. */
  readonly entriesSince: number | undefined;
}

/** Checks one file's chain: each line a record, numbered on, linked to the line before it, and signed. */
export async function checkLog(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  options: CheckOptions,
): Promise<CheckResult> {
  const check = new ChainCheck(options);
  for await (const line of splitLines(chunks, MAX_LINE_BYTES)) check.next(line);
  return check.result();
}

class ChainCheck {
  readonly #options: CheckOptions;
  #lineNumber = 0;
  #entries = 0;
  #problems = 0;
  /** Undefined where any is right: at the start, and after a line that could not be read. */
  #lastSeq: bigint | undefined;
  #expectedHash: string | undefined;
  #lastHash: string | undefined;
  #firstPrevHash: string | undefined;
  /** How many lines there were when the one looked for had been read. */
  #foundAt: number | undefined;

  constructor(options: CheckOptions) {
    this.#options = options;
    this.#expectedHash = options.expectedHash;
  }

  next(line: LogLine): void {
    this.#lineNumber++;
    if (line.bytes.length === 0) return;
    this.#entries++;
    if (line.tooLong) {
      this.#report("too_long", `line too long: more than ${MAX_LINE_BYTES} bytes`);
      this.#lastSeq = this.#expectedHash = undefined;
      return;
    }
    this.#options.onLine?.(line.bytes);
    const record = parseLine(line.bytes);
    if (record === undefined) {
      this.#report("malformed", `malformed JSON${line.terminated ? "" : ": the last line is cut off"}`);
      this.#lastSeq = undefined;
    } else {
      this.#checkRecord(record);
    }
    this.#expectedHash = this.#lastHash = hashLine(line.bytes);
    if (this.#lastHash === this.#options.since) this.#foundAt = this.#entries;
  }

  result(): CheckResult {
    return {
      entries: this.#entries,
      problems: this.#problems,
      lastHash: this.#lastHash,
      lastSeq: this.#lastSeq,
      firstPrevHash: this.#firstPrevHash,
      entriesSince: this.#foundAt === undefined ? undefined : this.#entries - this.#foundAt,
    };
  }

  #checkRecord(record: ParsedLine): void {
    if (this.#entries === 1) this.#firstPrevHash = record.prevHash;
    if (this.#lastSeq !== undefined && record.seq !== this.#lastSeq + 1n) {
      this.#report("gap", `gap or reorder: seq ${record.seq} follows ${this.#lastSeq}`);
    }
    if (this.#expectedHash !== undefined && record.prevHash !== this.#expectedHash) {
      this.#report("prev_hash", `prev_hash mismatch: ${this.#explainLink()}`);
    }
    const key = this.#options.publicKey;
    if (key !== undefined && !verifySignature(record, key)) {
      this.#report("signature", "signature invalid");
    }
    this.#lastSeq = record.seq;
  }

  #explainLink(): string {
    if (this.#entries > 1) return "not linked to the line before it";
    return this.#expectedHash === ""
      ? "not the beginning of a log"
      : "not linked to the file before this one";
  }

  #report(kind: ProblemKind, message: string): void {
    this.#problems++;
    this.#options.onProblem({ line: this.#lineNumber, kind, message });
  }
}
