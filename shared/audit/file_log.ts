/**
 * The audit log of a service: an append-only file, one writer, every acknowledged record durable.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import type { AuditLog } from "@gateway/shared/audit";
 * import { openFileAuditLog } from "./file_log.ts";
 * import { systemClock } from "@gateway/shared/clock";
 * import { createRedactor } from "@gateway/shared/redact";
 *
 * async function openLog(path: string, keyPath: string): Promise<AuditLog> {
 *   const seed = await Deno.readFile(keyPath);
 *   return await openFileAuditLog({ path, seed, clock: systemClock, redact: createRedactor(undefined) });
 * }
 * assert.equal(openLog.length, 2);
 * ```
 *
 * @module
 */
import { dirname } from "node:path";
import { quoteText, writeAllSync } from "../text.ts";
import { type Clock, endOfTurn } from "../clock.ts";
import { AppError, errorText } from "../errors.ts";
import { createAuditKey } from "./chain.ts";
import { type AuditEntry, type AuditLog, encodeRecord, formatTime } from "./record.ts";
import { lockLog, tryLockLog } from "./file_lock.ts";
import { GroupCommit } from "./group_commit.ts";
import { MAX_LOGS, nthLog } from "./log_set.ts";
import { restoreLog } from "./repair.ts";
import { type AuditWarnings, openForAppend, SegmentedFile, syncFolder } from "./segments.ts";

/** A file of at least so many bytes is rotated before the next record. */
const MAX_FILE_BYTES = 104_857_600;

/** What {@linkcode openFileAuditLog} needs. */
export interface FileAuditLogOptions {
  /** The log; its folder must exist and be writable, because rotated files, the lock and torn bytes go there. */
  readonly path: string;
  /** The content of the audit key file: at least 32 bytes, of which the first 32 are the Ed25519 seed. */
  readonly seed: Uint8Array;
  readonly clock: Clock;
  /** Applied to free text before it is written. */
  readonly redact: (text: string) => string;
  /** Told of recoveries at start and of rotations that could not be done; a `ServiceLogger` fits. */
  readonly logger?: AuditWarnings | undefined;
  /** {@linkcode MAX_FILE_BYTES} when absent. */
  readonly maxFileBytes?: number | undefined;
}

/**
 * Opens a log, creates it when it is not there, and continues its chain. A torn record at the end, the trace
 * of a crash, is moved to `<log>.corrupt-<YYYYMMDDTHHMMSSZ>`.
 *
 * @throws {AppError} `invalid_config` when another process has the log, when the key is too short, when the
 * log does not end in a good record of this key, or when a file can't be opened
 */
export async function openFileAuditLog(options: FileAuditLogOptions): Promise<AuditLog> {
  return await explaining(options.path, async () => await openLocked(options, await lockLog(options.path)));
}

interface FreeAuditLog {
  readonly log: AuditLog;
  readonly path: string;
}

/**
 * Likewise, or while other processes have the log, the first one of its set that none has: each a log and a chain of
 * its own. A log that can't be used for another reason is not passed over.
 *
 * @throws {AppError} `invalid_config` as above; that it is in use only when the whole set is
 */
export async function openFreeAuditLog(options: FileAuditLogOptions): Promise<FreeAuditLog> {
  for (let number = 1; number <= MAX_LOGS; number++) {
    const path = nthLog(options.path, number);
    const log = await explaining(path, async () => {
      const lock = await tryLockLog(path);
      return lock && await openLocked({ ...options, path }, lock);
    });
    if (log !== undefined) return { log, path };
  }
  throw new AppError(
    "invalid_config",
    `Cannot open audit log ${quoteText(options.path)}: it and ${
      MAX_LOGS - 1
    } beside it are in use by other processes`,
  );
}

async function openLocked(options: FileAuditLogOptions, lock: Disposable): Promise<AuditLog> {
  try {
    return new FileAuditLog(options, lock, await openCommit(options, createAuditKey(options.seed)));
  } catch (error) {
    lock[Symbol.dispose]();
    throw error;
  }
}

async function explaining<T>(path: string, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    const reason = cause instanceof Deno.errors.NotFound ? "its folder does not exist" : errorText(cause);
    throw new AppError("invalid_config", `Cannot open audit log ${quoteText(path)}: ${reason}`, { cause });
  }
}

async function openCommit(
  { path, clock, logger, maxFileBytes = MAX_FILE_BYTES }: FileAuditLogOptions,
  key: ReturnType<typeof createAuditKey>,
): Promise<GroupCommit> {
  const restored = await restoreLog({ path, key: key.publicKey, now: clock.now(), warnings: logger });
  const file = await openForAppend(path);
  const store = new SegmentedFile({ path, file, clock, warnings: logger });
  try {
    await syncFolder(path);
  } catch (error) {
    store.close();
    throw error;
  }
  return new GroupCommit({ store, key, maxFileBytes, endOfTurn, ...restored });
}

class FileAuditLog implements AuditLog {
  readonly #options: FileAuditLogOptions;
  readonly #lock: Disposable;
  readonly #commit: GroupCommit;
  #closing: Promise<void> | undefined;
  /** Shows whether the disk takes more bytes, without a byte in the log. */
  #probe: Deno.FsFile | undefined;

  constructor(options: FileAuditLogOptions, lock: Disposable, commit: GroupCommit) {
    this.#options = options;
    this.#lock = lock;
    this.#commit = commit;
  }

  append(entry: AuditEntry): Promise<void> {
    const { clock, redact } = this.#options;
    return Promise.try(() =>
      this.#commit.append(encodeRecord(entry, { time: formatTime(clock.now()), redact }))
    );
  }

  check(): void {
    this.#commit.check();
    this.#probe ??= openUnnamed(dirname(this.#options.path));
    try {
      writeAllSync(this.#probe, PROBE);
    } finally {
      this.#probe.truncateSync(0);
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#commit.close().finally(() => {
      this.#probe?.close();
      this.#lock[Symbol.dispose]();
    });
    return this.#closing;
  }
}

const PROBE = new Uint8Array(4096);

/** A file that disappears with this process. */
function openUnnamed(folder: string): Deno.FsFile {
  const path = Deno.makeTempFileSync({ dir: folder, prefix: ".probe-" });
  try {
    return Deno.openSync(path, { append: true });
  } finally {
    Deno.removeSync(path);
  }
}
