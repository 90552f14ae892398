/**
 * Checks audit logs on disk: one file, or a log with all its rotated files.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { createAuditKey } from "@gateway/shared/audit/chain";
 * import { verifyAll } from "@gateway/shared/audit/verify";
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
 * Not protected: removal of the last records of the newest file, and of the newest files altogether, leaves
 * a chain that is whole. A log that is being written may show its last line as cut off.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { AppError } from "../errors.ts";
import { ifThere } from "../files.ts";
import { quoteText } from "../quote.ts";
import type { AuditPublicKey } from "./chain.ts";
import { type ChainProblem, checkLog, type CheckResult } from "./chain_check.ts";
import { listSegments } from "./segments.ts";

export { type ChainProblem, PROBLEM_KINDS, type ProblemKind } from "./chain_check.ts";

/** A defect, and where it is. */
export interface LogProblem extends ChainProblem {
  /** The path of the file. */
  readonly file: string;
}

/** What to verify. */
export interface VerifyOptions {
  /** The log file; a rotated one is verified by its own name. */
  readonly path: string;
  /** Absent: only the chain is checked, not who wrote it. */
  readonly publicKey?: AuditPublicKey | undefined;
  /** Called for each defect, in the order of the lines. */
  readonly onProblem: (problem: LogProblem) => void;
}

/** What {@linkcode verifyFile} and {@linkcode verifyAll} found. */
export interface VerifyResult {
  /** How many records there are, defective ones included. */
  readonly entries: number;
  /** How many defects were reported; 0 means that the log is intact. */
  readonly problems: number;
}

/**
 * Checks one file; what its first record is linked to is taken on trust.
 *
 * @throws {AppError} `not_found` when the file isn't there
 */
export async function verifyFile(options: VerifyOptions): Promise<VerifyResult> {
  const { entries, problems } = await checkFile(options.path, undefined, options);
  return { entries, problems };
}

/**
 * Checks the rotated files of a log from the oldest, then the log itself: the first record begins the chain,
 * and each file is linked to the one before it, so that a file taken away shows.
 *
 * @throws {AppError} `not_found` when there is neither the log nor a rotated file
 */
export async function verifyAll(options: VerifyOptions): Promise<VerifyResult> {
  const folder = dirname(options.path);
  const segments = await readable(options.path, () => listSegments(options.path));
  const files = segments.map(({ name }) => join(folder, name));
  // Between a rotation and the next record, a crash can leave rotated files alone.
  if (files.length === 0 || await ifThere(Deno.stat(options.path)) !== undefined) files.push(options.path);
  let [entries, problems, expectedHash] = [0, 0, ""];
  for (const file of files) {
    const result = await checkFile(file, expectedHash, options);
    entries += result.entries;
    problems += result.problems;
    expectedHash = result.lastHash ?? expectedHash;
  }
  return { entries, problems };
}

async function checkFile(
  path: string,
  expectedHash: string | undefined,
  { publicKey, onProblem }: VerifyOptions,
): Promise<CheckResult> {
  const file = await readable(path, () => Deno.open(path, { read: true }));
  return await checkLog(file.readable, {
    publicKey,
    expectedHash,
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
