/**
 * The audit log of a service: an append-only file with one writer, where every acknowledged record is durable. Records
 * that arrive while the disk is busy share one write and one sync.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { basename, dirname, join } from "node:path";
import { type Clock, endOfTurn } from "../clock.ts";
import { AppError, AUDIT_UNAVAILABLE, configError, errorText } from "../errors.ts";
import { joinBytes, quoteText, writeAllSync } from "../text.ts";
import {
  type AuditWarnings,
  listSegments,
  MAX_LOGS,
  nextSegmentName,
  nthLog,
  openForAppend,
  openUnnamed,
  syncFolder,
  tryLockLog,
} from "./files.ts";
import {
  type AuditEntry,
  type AuditKey,
  type ChainHead,
  createAuditKey,
  encodeRecord,
  formatTime,
  type RecordText,
  seal,
} from "./record.ts";
import { restoreLog } from "./repair.ts";

/** The destination of audit records. */
export interface AuditLog {
  /** Resolves when the record is durable. @throws {AppError} `audit_unavailable` if it could not be made durable */
  append(entry: AuditEntry): Promise<void>;
  /** @throws {Error} with the reason why a record could not be appended now */
  check(): void;
  /** Waits for open appends, then closes. */
  close(): Promise<void>;
}

/** The size from which a file is rotated before the next record. */
const MAX_FILE_BYTES = 104_857_600;
/** Limits the memory of one write. A log reaches this limit only if the disk is very slow. */
const MAX_GROUP_BYTES = 4 * 1024 * 1024;

/** The file of a log, its key, and its masking. */
export interface FileAuditLogOptions {
  /** Its directory must be writable: rotated files, the lock and torn bytes go there. */
  readonly path: string;
  /** The content of the audit key file. */
  readonly seed: Uint8Array;
  readonly clock: Clock;
  readonly redact: (text: string) => string;
  readonly logger?: AuditWarnings | undefined;
  readonly maxFileBytes?: number | undefined;
}

/**
 * Opens a log, creates it if it does not exist, and continues its chain. A torn record at the end, left by a crash, is
 * moved to `<log>.corrupt-<YYYYMMDDTHHMMSSZ>`.
 *
 * @throws {AppError} `invalid_config` if another process has the log, the key is too short, the log does not end in a
 * valid record of this key, or a file cannot be opened
 */
export async function openFileAuditLog(options: FileAuditLogOptions): Promise<AuditLog> {
  const log = await tryOpen(options);
  if (log !== undefined) return log;
  throw inUse(options.path, "it is in use by another process; give each process its own audit_log");
}

/**
 * Opens the first log of a set that no other process holds. Each log has its own chain.
 *
 * @throws {AppError} `invalid_config`, as {@linkcode openFileAuditLog} does
 */
export async function openFreeAuditLog(
  options: FileAuditLogOptions,
): Promise<{ readonly log: AuditLog; readonly path: string }> {
  for (let number = 1; number <= MAX_LOGS; number++) {
    const path = nthLog(options.path, number);
    const log = await tryOpen({ ...options, path });
    if (log !== undefined) return { log, path };
  }
  throw inUse(options.path, `it and ${MAX_LOGS - 1} further ones are in use by other processes`);
}

function inUse(path: string, why: string, cause?: unknown): AppError {
  return configError(`Cannot open audit log ${quoteText(path)}: ${why}`, cause);
}

async function tryOpen(options: FileAuditLogOptions): Promise<AuditLog | undefined> {
  const { path, seed, clock, logger: warnings, maxFileBytes = MAX_FILE_BYTES } = options;
  let lock: Disposable | undefined;
  try {
    lock = await tryLockLog(path);
    if (lock === undefined) return undefined;
    const key = createAuditKey(seed);
    const restored = await restoreLog({ path, key: key.publicKey, now: clock.now(), warnings });
    const store = new SegmentedFile({ path, file: await openForAppend(path), clock, warnings });
    const commit = new GroupCommit({ store, key, maxFileBytes, ...restored });
    try {
      await syncFolder(path);
    } catch (error) {
      store.close();
      throw error;
    }
    return auditLog(options, lock, commit);
  } catch (cause) {
    lock?.[Symbol.dispose]();
    if (cause instanceof AppError) throw cause;
    const isMissing = cause instanceof Deno.errors.NotFound;
    throw inUse(path, isMissing ? "its directory does not exist" : errorText(cause), cause);
  }
}

function auditLog(
  { path, clock, redact }: FileAuditLogOptions,
  lock: Disposable,
  commit: GroupCommit,
): AuditLog {
  let closing: Promise<void> | undefined;
  // A file without a name, which shows whether the disk accepts more bytes.
  let probe: Deno.FsFile | undefined;
  return {
    append: (entry) =>
      Promise.try(() => commit.append(encodeRecord(entry, { time: formatTime(clock.now()), redact }))),
    check() {
      commit.check();
      probe ??= openUnnamed(dirname(path));
      try {
        writeAllSync(probe, new Uint8Array(4096));
      } finally {
        probe.truncateSync(0);
      }
    },
    close() {
      return closing ??= commit.close().finally(() => {
        probe?.close();
        lock[Symbol.dispose]();
      });
    },
  };
}

/** The file below a {@linkcode GroupCommit}. */
export type RecordStore = Pick<SegmentedFile, "write" | "sync" | "size" | "truncate" | "rotate" | "close">;

/** The store of a log, and its state when it is opened. */
export interface GroupCommitOptions {
  readonly store: RecordStore;
  readonly key: AuditKey;
  readonly maxFileBytes: number;
  readonly head: ChainHead;
  /** The bytes of valid records in the current file. */
  readonly size: number;
  /** Whether the valid records end in a newline. */
  readonly terminated: boolean;
}

interface Pending {
  readonly record: RecordText;
  resolve(): void;
  reject(error: AppError): void;
}

/** Writes the chain. After a failure, memory and file agree on the last durable group. */
export class GroupCommit {
  readonly #options: GroupCommitOptions;
  #head: ChainHead;
  #size: number;
  #terminated: boolean;
  /** Whether the file may contain bytes after `#size`. */
  #dirty = false;
  #rotating = false;
  #queue: Pending[] = [];
  #draining: Promise<void> | undefined;
  #closed = false;

  constructor(options: GroupCommitOptions) {
    this.#options = options;
    this.#head = options.head;
    this.#size = options.size;
    this.#terminated = options.terminated;
  }

  /** The order of the calls is the order in the file. If it throws, the record is not in the chain. */
  append(record: RecordText): Promise<void> {
    if (this.#closed) return Promise.reject(unavailable(new Error("the audit log is closed")));
    return new Promise((resolve, reject) => {
      this.#queue.push({ record, resolve, reject });
      this.#draining ??= this.#drain();
    });
  }

  /** @throws {Error} if another program has moved or changed the file */
  check(): void {
    // During a rotation, neither the name nor the size of the file is certain.
    if (this.#rotating) return;
    const size = this.#options.store.size();
    if (size < this.#size) throw new Error("it is shorter than the records written to it");
    // A group that is being written may already be in the file.
    if (size > this.#size && !this.#dirty) throw new Error("it has bytes that this process did not write");
  }

  /** Waits for open appends, then closes the file. */
  async close(): Promise<void> {
    if (this.#closed) return await this.#draining;
    this.#closed = true;
    await this.#draining;
    this.#options.store.close();
  }

  async #drain(): Promise<void> {
    while (this.#queue.length > 0) {
      // Wait for all records of this turn, so that they share one write and one sync, which cost more than
      // the wait.
      await endOfTurn();
      await this.#commitGroup();
    }
    this.#draining = undefined;
  }

  async #commitGroup(): Promise<void> {
    const group: Pending[] = [];
    try {
      if (this.#dirty) await this.#rollBack();
      // Nobody would read a record in a file that was moved away.
      this.check();
      if (this.#size >= this.#options.maxFileBytes) await this.#rotate();
      const { bytes, head } = this.#sealGroup(group);
      this.#dirty = true;
      await this.#options.store.write(bytes);
      await this.#options.store.sync();
      this.#dirty = false;
      this.#head = head;
      this.#size += bytes.length;
      this.#terminated = true;
    } catch (cause) {
      if (group.length === 0) group.push(...this.#queue.splice(0));
      // Bytes whose sync failed could reach the disk later.
      if (this.#dirty) await this.#rollBack().catch(() => {});
      const error = unavailable(cause);
      for (const pending of group) pending.reject(error);
      return;
    }
    for (const pending of group) pending.resolve();
  }

  /** Moves records from the queue to the group, up to the limit of one write and of the current file. */
  #sealGroup(group: Pending[]) {
    let head = this.#head;
    const lines: Uint8Array[] = this.#terminated ? [] : [Buffer.from("\n")];
    let length = lines.length;
    while (
      length < MAX_GROUP_BYTES && (group.length === 0 || this.#size + length < this.#options.maxFileBytes)
    ) {
      const pending = this.#queue.shift();
      if (pending === undefined) break;
      group.push(pending);
      const { line, next } = seal(pending.record, head, this.#options.key);
      head = next;
      const encoded = Buffer.from(`${line}\n`);
      lines.push(encoded);
      length += encoded.length;
    }
    return { bytes: joinBytes(lines), head };
  }

  async #rollBack(): Promise<void> {
    await this.#options.store.truncate(this.#size);
    this.#dirty = false;
  }

  async #rotate(): Promise<void> {
    this.#rotating = true;
    try {
      if (!await this.#options.store.rotate()) return;
      this.#head = { seq: 0, hash: this.#head.hash };
      this.#size = 0;
      this.#terminated = true;
    } finally {
      this.#rotating = false;
    }
  }
}

function unavailable(cause: unknown): AppError {
  return new AppError("audit_unavailable", AUDIT_UNAVAILABLE, { cause });
}

interface SegmentedFileOptions extends Pick<FileAuditLogOptions, "path" | "clock"> {
  readonly file: Deno.FsFile;
  readonly warnings?: AuditWarnings | undefined;
}

/** A log file that can be rotated between two appends. */
class SegmentedFile {
  readonly #options: SegmentedFileOptions;
  #file: Deno.FsFile;
  #own: Deno.FileInfo;
  /** The file has its rotated name, but its successor could not be opened yet. */
  #movedAway = false;

  constructor(options: SegmentedFileOptions) {
    this.#options = options;
    this.#file = options.file;
    this.#own = options.file.statSync();
  }

  /** Appends the bytes. After a failure, any part of them can be in the file. */
  write(bytes: Uint8Array): Promise<void> {
    // Write synchronously, because copying to the system's cache takes less time than switching to another
    // thread.
    return Promise.try(() => writeAllSync(this.#file, bytes));
  }

  sync(): Promise<void> {
    return this.#file.syncData();
  }

  /** @throws {Error} if the path names no file, or another one */
  size(): number {
    if (this.#movedAway) return this.#file.statSync().size;
    const named = statOf(this.#options.path);
    if (named === undefined) throw new Error("it was removed or moved while the service was running");
    if (named.dev === this.#own.dev && named.ino === this.#own.ino) return named.size;
    throw new Error("another file has its name");
  }

  truncate(size: number): Promise<void> {
    return this.#file.truncate(size);
  }

  /** Starts an empty file. If a step fails, the current file stays in use, and the next append tries again. */
  async rotate(): Promise<boolean> {
    try {
      if (!this.#movedAway) {
        const segments = await listSegments(this.#options.path);
        const name = nextSegmentName(basename(this.#options.path), segments, this.#options.clock.now());
        await Deno.rename(this.#options.path, join(dirname(this.#options.path), name));
        this.#movedAway = true;
      }
      const next = await this.#openNext();
      this.#file.close();
      this.#file = next;
      this.#own = next.statSync();
      this.#movedAway = false;
      return true;
    } catch (error) {
      const fields = { path: this.#options.path, error: errorText(error) };
      this.#options.warnings?.warn("audit log rotation failed, the current file keeps growing", fields);
      return false;
    }
  }

  close(): void {
    this.#file.close();
  }

  async #openNext(): Promise<Deno.FsFile> {
    const next = await openForAppend(this.#options.path);
    try {
      const [own, { size, uid }] = await Promise.all([this.#file.stat(), next.stat()]);
      if (size > 0) throw new Error("its successor is not empty");
      // In a shared directory, the owner of the file could remove the records.
      if (uid !== own.uid) throw new Error("its successor is another user's");
      await syncFolder(this.#options.path);
      return next;
    } catch (error) {
      next.close();
      throw error;
    }
  }
}

function statOf(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
