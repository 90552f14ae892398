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

/** Keeps entries as they were given: no redaction, no chain. */
export class MemoryAuditLog implements AuditLog {
  /** Everything that was appended, in its order. */
  readonly entries: AuditEntry[] = [];
  /** While true, appends fail the way a full disk makes them fail. */
  failing = false;
  closed = false;
  /** Runs after each append, which then waits for it. */
  onAppended: ((entry: AuditEntry) => Promise<unknown> | undefined) | undefined;

  /** Keeps the entry, one turn of the event loop later at the earliest, as a disk would. */
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
