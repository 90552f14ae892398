/**
 * An audit log in memory, for tests.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { MemoryAuditLog } from "@gateway/shared/testing";
 *
 * const log = new MemoryAuditLog();
 * await log.append({ outcome: "issued" });
 * assert.deepEqual(log.entries.map((entry) => entry.outcome), ["issued"]);
 * ```
 *
 * @module
 */
import type { AuditLog } from "../audit/log.ts";
import type { AuditEntry } from "../audit/record.ts";
import { AppError, AUDIT_UNAVAILABLE } from "../errors.ts";

/** Stores entries as given, without redaction and chain. */
export class MemoryAuditLog implements AuditLog {
  /** All appended entries in order. */
  readonly entries: AuditEntry[] = [];
  /** While true, appends fail as on a full disk. */
  failing = false;
  closed = false;
  /** Runs after each append. The append waits for it. */
  onAppended: ((entry: AuditEntry) => Promise<unknown> | undefined) | undefined;

  /** Stores the entry after at least one turn of the event loop, like a disk. */
  async append(entry: AuditEntry): Promise<void> {
    await Promise.resolve();
    if (this.failing || this.closed) {
      throw new AppError("audit_unavailable", AUDIT_UNAVAILABLE, { cause: new Error("no space left") });
    }
    this.entries.push(entry);
    const after = this.onAppended?.(entry);
    if (after !== undefined) await after;
  }

  check(): void {
    if (this.failing) throw new Error("no space left");
  }

  close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }
}
