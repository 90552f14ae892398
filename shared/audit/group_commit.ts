/**
 * Many appends, one write and one sync: records that arrive while the disk is busy go out together, and none
 * is acknowledged before its bytes are durable.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { concatBytes } from "../text.ts";
import { AppError, AUDIT_UNAVAILABLE } from "../errors.ts";
import { type AuditKey, type ChainHead, seal } from "./chain.ts";
import type { RecordText } from "./record.ts";

/** The file below a {@linkcode GroupCommit}. */
export interface RecordStore {
  /** Appends all of the bytes; after a failure, any part of them may be in the file. */
  write(bytes: Uint8Array): Promise<void>;
  sync(): Promise<void>;
  /**
   * How many bytes the file at the log's path has.
   *
   * @throws {Error} when there is none, or another one than the file being written
   */
  size(): number;
  /** Cuts the current file back to so many bytes. */
  truncate(size: number): Promise<void>;
  /** Puts the current file aside and starts an empty one; false when it could not, and the old one stays in use. */
  rotate(): Promise<boolean>;
  close(): void;
}

/** Where a {@linkcode GroupCommit} continues. */
export interface GroupCommitOptions {
  readonly store: RecordStore;
  readonly key: AuditKey;
  readonly head: ChainHead;
  /** Bytes of good records in the current file. */
  readonly size: number;
  /** Whether these bytes end in a newline. */
  readonly terminated: boolean;
  /** A file of at least so many bytes is rotated before the next record. */
  readonly maxFileBytes: number;
  /** Resolves when everything has run that is ready: all that it appends goes into one group. */
  readonly endOfTurn: () => Promise<void>;
}

interface Pending {
  readonly record: RecordText;
  resolve(): void;
  reject(error: AppError): void;
}

interface SealedGroup {
  readonly bytes: Uint8Array;
  readonly head: ChainHead;
}

// Bounds the memory of one write; reached only when the disk falls far behind.
const MAX_GROUP_BYTES = 4 * 1024 * 1024;

/** Writes the chain. After a failure memory and file both stand where the last good group left them. */
export class GroupCommit {
  readonly #store: RecordStore;
  readonly #key: AuditKey;
  readonly #maxFileBytes: number;
  readonly #endOfTurn: () => Promise<void>;
  #head: ChainHead;
  #size: number;
  #terminated: boolean;
  /** Bytes after `#size` may be in the file. */
  #dirty = false;
  #rotating = false;
  #queue: Pending[] = [];
  #draining: Promise<void> | undefined;
  #closed = false;

  constructor(options: GroupCommitOptions) {
    this.#store = options.store;
    this.#key = options.key;
    this.#maxFileBytes = options.maxFileBytes;
    this.#endOfTurn = options.endOfTurn;
    this.#head = options.head;
    this.#size = options.size;
    this.#terminated = options.terminated;
  }

  /**
   * Appends a record; the order of calls is the order in the file.
   *
   * @throws {AppError} `audit_unavailable` when it could not be made durable; the record is then not in the
   * chain, and the next append tries again
   */
  append(record: RecordText): Promise<void> {
    if (this.#closed) return Promise.reject(unavailable(new Error("the audit log is closed")));
    return new Promise((resolve, reject) => {
      this.#queue.push({ record, resolve, reject });
      this.#draining ??= this.#drain();
    });
  }

  /**
   * Checks that the file still is where it was and has exactly the bytes that were written to it.
   *
   * @throws {Error} saying what happened to it
   */
  check(): void {
    // Neither name nor size can be told during a rotation; it fails nothing, and the next check comes soon.
    if (this.#rotating) return;
    const size = this.#store.size();
    if (size < this.#size) throw new Error("it is shorter than what was written to it");
    // While a group is written, its bytes are in the file already.
    if (size > this.#size && !this.#dirty) throw new Error("it has bytes that this process did not write");
  }

  /** Waits for the appends under way, then releases the file; later appends fail. */
  async close(): Promise<void> {
    if (this.#closed) return await this.#draining;
    this.#closed = true;
    await this.#draining;
    this.#store.close();
  }

  async #drain(): Promise<void> {
    while (this.#queue.length > 0) {
      // What else is about to be appended shares the group: a write and a sync cost more than the wait.
      await this.#endOfTurn();
      await this.#commitGroup();
    }
    this.#draining = undefined;
  }

  async #commitGroup(): Promise<void> {
    const group: Pending[] = [];
    try {
      if (this.#dirty) await this.#rollBack();
      // A record in a file that nobody will read does not count.
      this.check();
      if (this.#size >= this.#maxFileBytes) await this.#rotate();
      const sealed = this.#sealGroup(group);
      this.#dirty = true;
      await this.#store.write(sealed.bytes);
      await this.#store.sync();
      this.#dirty = false;
      this.#head = sealed.head;
      this.#size += sealed.bytes.length;
      this.#terminated = true;
    } catch (cause) {
      if (group.length === 0) group.push(...this.#queue.splice(0));
      // Bytes whose sync failed may yet reach the disk: without them, file and memory agree again.
      if (this.#dirty) await this.#rollBack().catch(() => {});
      const error = unavailable(cause);
      for (const pending of group) pending.reject(error);
      return;
    }
    for (const pending of group) pending.resolve();
  }

  /** Moves as many records from the queue to the group as go into one write of the current file. */
  #sealGroup(group: Pending[]): SealedGroup {
    let head = this.#head;
    const lines: Uint8Array[] = this.#terminated ? [] : [Buffer.from("\n")];
    let bytes = lines.length;
    while (bytes < MAX_GROUP_BYTES && (group.length === 0 || this.#size + bytes < this.#maxFileBytes)) {
      const pending = this.#queue.shift();
      if (pending === undefined) break;
      group.push(pending);
      const { line, next } = seal(pending.record, head, this.#key);
      head = next;
      const encoded = Buffer.from(`${line}\n`);
      lines.push(encoded);
      bytes += encoded.length;
    }
    const [first] = lines;
    return { bytes: first !== undefined && lines.length === 1 ? first : concatBytes(lines), head };
  }

  async #rollBack(): Promise<void> {
    await this.#store.truncate(this.#size);
    this.#dirty = false;
  }

  async #rotate(): Promise<void> {
    this.#rotating = true;
    try {
      if (!await this.#store.rotate()) return;
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
