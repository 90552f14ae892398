/**
 * Repairs a log that ends in lines which are not records, after a crash or on a full disk: the records stay, the rest is
 * moved to another file. A line that is not a record between two records is never repaired, because no crash leaves it.
 *
 * @module
 */
import { type FileHandle, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AppError, configError } from "../errors.ts";
import { ifThere, type OpenFileOptions, readAt, readChunks } from "../files/mod.ts";
import { quoteText } from "../text.ts";
import { type AuditWarnings, listSegments, openLogFile, saveRemovedBytes, tryLockLog } from "./files.ts";
import { type AuditPublicKey, type ChainHead, GENESIS, MAX_LINE_BYTES, parseLine } from "./record.ts";
import { checkLog, inspectTail, splitLines, TAIL_BYTES, type TailState } from "./verify.ts";

/** The maximum number of bytes of a torn tail that a plan shows. */
const PREVIEW_BYTES = 120;

interface RepairOptions {
  /** The log, not a rotated file. */
  readonly path: string;
  /** If given, the remaining records must verify with this key. */
  readonly publicKey?: AuditPublicKey | undefined;
}

/** The records at the beginning of a log. */
export interface KeptRecords {
  readonly records: number;
  readonly lastSeq: bigint | undefined;
  readonly keptBytes: number;
}

/** The possible repair. In a `torn` log, the bytes after the records must be removed. */
export type RepairPlan =
  & KeptRecords
  & (
    | { readonly kind: "clean" }
    | { readonly kind: "torn"; readonly tailBytes: number; readonly preview: Uint8Array }
    | { readonly kind: "refused"; readonly reason: string }
  );

/** The result of a repair. */
export type RepairOutcome =
  | Exclude<RepairPlan, { readonly kind: "torn" }>
  | { readonly kind: "repaired"; readonly tailBytes: number; readonly movedTo: string } & KeptRecords;

/**
 * Determines the result of a repair without changing anything.
 *
 * @throws {AppError} `not_found`, or `conflict` if a service is writing the log
 */
export async function planRepair(options: RepairOptions): Promise<RepairPlan> {
  await using file = await openLog(options.path);
  // A log without lock file has no writer, and a new lock file would belong to the wrong user.
  const isLocked = await ifThere(Deno.stat(`${options.path}.lock`)) !== undefined;
  using _lock = isLocked ? await takeLock(options.path, file) : undefined;
  return await inspect(file, options);
}

/**
 * Moves the bytes after the records of a log to `<log>.corrupt-<YYYYMMDDTHHMMSSZ>`, and only then truncates the log.
 * After a crash in between, the log is unchanged.
 *
 * @throws {AppError} `not_found`, or `conflict` if a service is writing the log
 */
export async function repairLog(options: RepairOptions, now: number): Promise<RepairOutcome> {
  const { path } = options;
  await using file = await openLog(path, { write: true });
  using _lock = await takeLock(path, file);
  const plan = await inspect(file, options);
  if (plan.kind !== "torn") return plan;
  const { preview: _, keptBytes, ...rest } = plan;
  const movedTo = await saveRemovedBytes(path, readRange(file, keptBytes, (await file.stat()).size), now);
  await file.truncate(keptBytes);
  await file.sync();
  return { ...rest, keptBytes, kind: "repaired", movedTo };
}

async function inspect(file: FileHandle, { publicKey }: RepairOptions): Promise<RepairPlan> {
  const plan = await findTail(file);
  if (plan.kind === "refused" || publicKey === undefined) return plan;
  let problem = "";
  const { problems } = await checkLog(readRange(file, 0, plan.keptBytes), {
    publicKey,
    onProblem: ({ line, message }) => problem ||= `line ${line}: ${message}`,
  });
  if (problems === 0) return plan;
  const { records, lastSeq, keptBytes } = plan;
  const reason = `the records do not verify with this key: ${problem}`;
  return { kind: "refused", reason, records, lastSeq, keptBytes };
}

async function findTail(file: FileHandle): Promise<RepairPlan> {
  const { size } = await file.stat();
  let [lineNumber, records, keptBytes, brokenLine] = [0, 0, 0, 0];
  let lastSeq: bigint | undefined;
  for await (const { bytes, terminated, tooLong } of splitLines(readRange(file, 0, size), MAX_LINE_BYTES)) {
    lineNumber++;
    const record = tooLong ? undefined : parseLine(bytes);
    if (brokenLine > 0) {
      if (record === undefined) continue;
      const reason = `line ${brokenLine} is not a record, but line ${lineNumber} after it is`;
      return { kind: "refused", reason, records, lastSeq, keptBytes };
    }
    if (record === undefined && bytes.length > 0) {
      brokenLine = lineNumber;
      continue;
    }
    keptBytes += bytes.length + (terminated ? 1 : 0);
    if (record === undefined) continue;
    records++;
    lastSeq = record.seq;
  }
  const kept = { records, lastSeq, keptBytes };
  if (brokenLine === 0) return { kind: "clean", ...kept };
  const preview = await readAt(file, keptBytes, Math.min(size - keptBytes, PREVIEW_BYTES));
  if (records === 0 && !looksTorn(preview)) {
    return { kind: "refused", reason: "it has no record: is this the audit log?", ...kept };
  }
  return { kind: "torn", ...kept, tailBytes: size - keptBytes, preview };
}

/**
 * Whether a file without records is the beginning of a log. A wrong file that the operator named must not be
 * truncated.
 */
function looksTorn(tail: Uint8Array): boolean {
  const start = new TextEncoder().encode('{"time":"');
  return tail.every((byte) => byte === 0) ||
    start.subarray(0, tail.length).every((byte, index) => byte === tail[index]);
}

/** Reads a range of the file. A chunk is valid until the next one is read. */
async function* readRange(file: FileHandle, start: number, end: number): AsyncGenerator<Uint8Array> {
  let left = end - start;
  if (left === 0) return;
  for await (const chunk of readChunks(file, start)) {
    yield chunk.subarray(0, left);
    left -= chunk.length;
    if (left <= 0) return;
  }
  throw new AppError("conflict", "The audit log shrank while it was read");
}

async function takeLock(path: string, log: FileHandle): Promise<Disposable> {
  try {
    await using file = await open(`${path}.lock`, "wx", 0o600);
    // The service must be able to open the new file. Set the owner by handle, because others may write to the
    // directory.
    const { uid, gid } = await log.stat();
    await file.chown(uid, gid);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  }
  const lock = await tryLockLog(path);
  if (lock !== undefined) return lock;
  throw new AppError("conflict", `Cannot repair audit log ${quoteText(path)}: a service is writing it`);
}

async function openLog(path: string, options: OpenFileOptions = {}): Promise<FileHandle> {
  try {
    return await openLogFile(path, options);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new AppError("not_found", `Cannot repair audit log ${quoteText(path)}: no such file`, { cause });
  }
}

interface RestoreOptions {
  readonly path: string;
  readonly key: AuditPublicKey;
  /** The time in the name of the file with the torn bytes. */
  readonly now: number;
  readonly warnings?: AuditWarnings | undefined;
}

/**
 * Restores the head of the chain at the start of a service: from the current file or, if it has no record, from the
 * newest rotated file that has one. Torn bytes at the end of such a file are moved away.
 *
 * @returns also the bytes of records in the current file, and whether they end in a newline
 * @throws {AppError} `invalid_config` if a file does not end in a valid record of this key
 */
export async function restoreLog(
  options: RestoreOptions,
): Promise<{ readonly head: ChainHead; readonly size: number; readonly terminated: boolean }> {
  const { size, ...active } = await restoreFile(options.path, options);
  if (active.kind === "good") return { head: active.head, size, terminated: active.terminated };
  const segments = await listSegments(options.path);
  for (const { name } of segments.toReversed()) {
    const state = await restoreFile(join(dirname(options.path), name), options);
    if (state.kind === "good") return { head: { seq: 0, hash: state.head.hash }, size, terminated: true };
  }
  return { head: GENESIS, size, terminated: true };
}

async function restoreFile(
  path: string,
  { path: log, key, now, warnings }: RestoreOptions,
): Promise<Exclude<TailState, { readonly kind: "broken" }> & { readonly size: number }> {
  await using file = await ifThere(openLogFile(path));
  if (file === undefined) return { kind: "empty", tornBytes: 0, size: 0 };
  const { size } = await file.stat();
  const length = Math.min(size, TAIL_BYTES);
  const bytes = await readAt(file, size - length, length);
  if (bytes.length < length) throw new Error("the file shrank while it was read");
  const state = inspectTail(bytes, length === size, key);
  if (state.kind === "broken") {
    throw configError(
      `Cannot open audit log ${quoteText(path)}: ${state.reason}; inspect it with ` +
        `broker-ctl audit verify --log ${quoteText(log)} and repair it with broker-ctl audit repair`,
    );
  }
  const { tornBytes } = state;
  if (tornBytes === 0) return { ...state, size };
  const movedTo = await saveRemovedBytes(log, [bytes.subarray(bytes.length - tornBytes)], now);
  using writable = await Deno.open(path, { write: true });
  await writable.truncate(size - tornBytes);
  await writable.sync();
  warnings?.warn("audit log ended in an incomplete record, which was moved to another file", {
    path,
    bytes: tornBytes,
    moved_to: movedTo,
  });
  return { ...state, size: size - tornBytes };
}
