/**
 * Mends a log that ends in lines which are not records, the trace of a crash or of a full disk: the records
 * before them stay, the rest is put aside. Nothing else can be mended: a line that is not a record between two
 * that are was not left there by a crash.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { planRepair } from "./repair.ts";
 *
 * async function countTornBytes(path: string): Promise<number> {
 *   const plan = await planRepair({ path });
 *   return plan.kind === "torn" ? plan.tailBytes : 0;
 * }
 * assert.equal(countTornBytes.length, 1);
 * ```
 *
 * @module
 */
import type { Stats } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { AppError } from "../errors.ts";
import { ifThere, type OpenFileOptions, readAt, readChunks } from "../files/files.ts";
import { type AuditWarnings, listSegments, openLogFile, putAside } from "./segments.ts";
import { quoteText } from "../text.ts";
import { type AuditPublicKey, type ChainHead, GENESIS, parseLine } from "./chain.ts";
import { checkLog } from "./verify.ts";
import { tryLockLog } from "./file_lock.ts";
import { inspectTail, splitLines, TAIL_BYTES, type TailState } from "./tail.ts";
import { MAX_LINE_BYTES } from "./record.ts";
import { dirname, join } from "node:path";

/** How many bytes of a tail a plan shows. */
const PREVIEW_BYTES = 120;

interface RepairOptions {
  /** The log file, not a rotated one. */
  readonly path: string;
  /** When given, the records that stay must be signed by it and linked. */
  readonly publicKey?: AuditPublicKey | undefined;
}

/** The records at the beginning of a log. */
export interface KeptRecords {
  readonly records: number;
  /** The number of the last one; undefined when there is none. */
  readonly lastSeq: bigint | undefined;
  /** How many bytes they have. */
  readonly keptBytes: number;
}

/** What can be done about a log. */
export type RepairPlan =
  /** It ends in a record, or is empty. */
  | { readonly kind: "clean" } & KeptRecords
  /** The bytes after the records have to go. */
  | {
    readonly kind: "torn";
    readonly tailBytes: number;
    /** The beginning of these bytes, {@linkcode PREVIEW_BYTES} at most. */
    readonly preview: Uint8Array;
  } & KeptRecords
  /** Nothing that a repair may touch. */
  | { readonly kind: "refused"; readonly reason: string } & KeptRecords;

/** What was done. */
export type RepairOutcome =
  | Exclude<RepairPlan, { readonly kind: "torn" }>
  | {
    readonly kind: "repaired";
    readonly tailBytes: number;
    /** Where the bytes after the records are now. */
    readonly movedTo: string;
  } & KeptRecords;

/**
 * Looks at a log and says what a repair would do.
 *
 * @throws {AppError} `not_found` when it is not there, `conflict` when a service is writing it
 */
export async function planRepair(options: RepairOptions): Promise<RepairPlan> {
  await using file = await openLog(options.path);
  // A log without lock file has no writer; creating one would make it the property of whoever looks.
  const isLocked = await ifThere(Deno.stat(`${options.path}.lock`)) !== undefined;
  using _lock = isLocked ? await takeLock(options.path, file) : undefined;
  return await inspect(file, options);
}

/**
 * Moves what follows the records of a log to `<log>.corrupt-<YYYYMMDDTHHMMSSZ>`, for its owner alone, and only
 * then cuts the log. Durable when it resolves; a crash in between leaves the log as it was.
 *
 * @param now the time that names the file, in milliseconds since the Unix epoch
 * @throws {AppError} `not_found` when it is not there, `conflict` when a service is writing it
 */
export async function repairLog(options: RepairOptions, now: number): Promise<RepairOutcome> {
  const { path } = options;
  await using file = await openLog(path, { write: true });
  using _lock = await takeLock(path, file);
  const plan = await inspect(file, options);
  if (plan.kind !== "torn") return plan;
  const { records, lastSeq, keptBytes, tailBytes } = plan;
  const { size } = await file.stat();
  const movedTo = await putAside(path, readRange(file, keptBytes, size), now);
  await file.truncate(keptBytes);
  await file.sync();
  return { kind: "repaired", records, lastSeq, keptBytes, tailBytes, movedTo };
}

async function inspect(file: FileHandle, { publicKey }: RepairOptions): Promise<RepairPlan> {
  const plan = await findTail(file);
  if (plan.kind === "refused" || publicKey === undefined) return plan;
  let problem = "";
  const { problems } = await checkLog(readRange(file, 0, plan.keptBytes), {
    publicKey,
    onProblem: ({ line, message }) => problem ||= `line ${line}: ${message}`,
  });
  return problems === 0 ? plan : refuse(plan, `the records do not verify with this key: ${problem}`);
}

/** Where the records end, and whether only lines follow that are not records. */
async function findTail(file: FileHandle): Promise<RepairPlan> {
  const { size } = await file.stat();
  let [lineNumber, records, keptBytes, brokenLine] = [0, 0, 0, 0];
  let lastSeq: bigint | undefined;
  for await (const line of splitLines(readRange(file, 0, size), MAX_LINE_BYTES)) {
    lineNumber++;
    const record = line.tooLong ? undefined : parseLine(line.bytes);
    const isBlank = line.bytes.length === 0;
    if (brokenLine > 0) {
      if (record === undefined) continue;
      const reason = `line ${brokenLine} is not a record, but line ${lineNumber} after it is`;
      return refuse({ records, lastSeq, keptBytes }, reason);
    }
    if (record === undefined && !isBlank) {
      brokenLine = lineNumber;
      continue;
    }
    keptBytes += line.bytes.length + (line.terminated ? 1 : 0);
    if (record === undefined) continue;
    records++;
    lastSeq = record.seq;
  }
  const kept = { records, lastSeq, keptBytes };
  if (brokenLine === 0) return { kind: "clean", ...kept };
  const preview = await readAt(file, keptBytes, Math.min(size - keptBytes, PREVIEW_BYTES));
  if (records === 0 && !looksTorn(preview)) return refuse(kept, "it has no record: is this the audit log?");
  return { kind: "torn", ...kept, tailBytes: size - keptBytes, preview };
}

/** Whether a tail without any record before it is that of a log: another file named by mistake is not to be cut. */
function looksTorn(tail: Uint8Array): boolean {
  const start = new TextEncoder().encode('{"time":"');
  return tail.every((byte) => byte === 0) ||
    start.subarray(0, tail.length).every((byte, index) => byte === tail[index]);
}

function refuse({ records, lastSeq, keptBytes }: KeptRecords, reason: string): RepairPlan {
  return { kind: "refused", reason, records, lastSeq, keptBytes };
}

/** The bytes of a file from one offset to another; a chunk is valid until the next is taken. */
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

/** The log's lock; a lock file that this creates belongs to whom the log belongs, who has to open it. */
async function takeLock(path: string, log: FileHandle): Promise<Disposable> {
  await createLock(`${path}.lock`, await log.stat());
  const lock = await tryLockLog(path);
  if (lock !== undefined) return lock;
  throw new AppError("conflict", `Cannot repair audit log ${quoteText(path)}: a service is writing it`);
}

/** Its owner is set on the file that was made, whatever lies under its name by then: the folder is not root's. */
async function createLock(path: string, { uid, gid }: Stats): Promise<void> {
  let file: FileHandle;
  try {
    file = await open(path, "wx", 0o600);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return;
    throw error;
  }
  try {
    await file.chown(uid, gid);
  } finally {
    await file.close();
  }
}

async function openLog(path: string, options: OpenFileOptions = {}): Promise<FileHandle> {
  try {
    return await openLogFile(path, options);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new AppError("not_found", `Cannot repair audit log ${quoteText(path)}: no such file`, { cause });
  }
}

interface RestoredLog {
  readonly head: ChainHead;
  /** Bytes of good records in the active file. */
  readonly size: number;
  /** Whether these end in a newline. */
  readonly terminated: boolean;
}

/** What {@linkcode restoreLog} needs. */
interface RestoreOptions {
  readonly path: string;
  readonly key: AuditPublicKey;
  /** The time that names a file of torn bytes, in milliseconds since the Unix epoch. */
  readonly now: number;
  readonly warnings?: AuditWarnings | undefined;
}

type SoundState = Exclude<TailState, { readonly kind: "broken" }> & { readonly size: number };

/**
 * Restores the head of the chain: from the last record of the active file or, when that is absent or empty,
 * of the newest rotated file that has one. Torn bytes at the end of such a file are moved to
 * `<log>.corrupt-<YYYYMMDDTHHMMSSZ>`.
 *
 * @throws {AppError} `invalid_config` when a file does not end in a good record of this key
 */
export async function restoreLog(options: RestoreOptions): Promise<RestoredLog> {
  const active = await restoreFile(options.path, options);
  if (active.kind === "good") {
    return { head: active.head, size: active.size, terminated: active.terminated };
  }
  const segments = await listSegments(options.path);
  for (const { name } of segments.toReversed()) {
    const state = await restoreFile(join(dirname(options.path), name), options);
    if (state.kind === "good") {
      return { head: { seq: 0, hash: state.head.hash }, size: active.size, terminated: true };
    }
  }
  return { head: GENESIS, size: active.size, terminated: true };
}

async function restoreFile(path: string, options: RestoreOptions): Promise<SoundState> {
  const { bytes, size } = await readEnd(path);
  const state = inspectTail(bytes, bytes.length === size, options.key);
  if (state.kind === "broken") throw refusal(path, options.path, state.reason);
  if (state.tornBytes === 0) return { ...state, size };
  const kept = size - state.tornBytes;
  const corrupt = await putAside(options.path, [bytes.subarray(bytes.length - state.tornBytes)], options.now);
  await cutBack(path, kept);
  options.warnings?.warn("Audit log ended in a torn record, which was never acknowledged: moved aside", {
    path,
    bytes: state.tornBytes,
    moved_to: corrupt,
  });
  return { ...state, size: kept };
}

async function readEnd(path: string): Promise<{ readonly bytes: Uint8Array; readonly size: number }> {
  await using file = await ifThere(openLogFile(path));
  if (file === undefined) return { bytes: new Uint8Array(0), size: 0 };
  const { size } = await file.stat();
  const length = Math.min(size, TAIL_BYTES);
  const bytes = await readAt(file, size - length, length);
  if (bytes.length < length) throw new Error("the file shrank while it was read");
  return { bytes, size };
}

async function cutBack(path: string, size: number): Promise<void> {
  using file = await Deno.open(path, { write: true });
  await file.truncate(size);
  await file.sync();
}

function refusal(file: string, log: string, reason: string): AppError {
  return new AppError(
    "invalid_config",
    `Cannot open audit log ${quoteText(file)}: ${reason}; look at it with ` +
      `broker-ctl audit verify --log ${quoteText(log)} and mend it with broker-ctl audit repair`,
  );
}
