/**
 * Checks a chain line by line, in constant memory.
 *
 * @module
 */
import { type AuditPublicKey, hashLine, type ParsedLine, parseLine, verifySignature } from "./chain.ts";
import { type LogLine, splitLines } from "./lines.ts";
import { MAX_LINE_BYTES } from "./record.ts";

/** What a line can fail. */
export const PROBLEM_KINDS = ["malformed", "too_long", "gap", "prev_hash", "signature"] as const;
/** One of {@linkcode PROBLEM_KINDS}. */
export type ProblemKind = (typeof PROBLEM_KINDS)[number];

/** A defect of a log. */
export interface ChainProblem {
  /** The line it was found at, from 1, blank ones counted. */
  readonly line: number;
  /** For programs. */
  readonly kind: ProblemKind;
  /** For people; begins with `malformed JSON`, `line too long`, `gap or reorder`, `prev_hash mismatch` or
   * `signature invalid`. */
  readonly message: string;
}

/** How a {@linkcode checkLog} looks at a log. */
export interface CheckOptions {
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
export interface CheckResult {
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
