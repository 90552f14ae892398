/**
 * The fail mode: what happens to an action whose audit record can't be written. In the closed mode its result
 * is withheld, in the open mode it proceeds; both count and log the failure.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { AuditGate } from "@gateway/shared/audit/gate";
 * import { MemoryAuditLog } from "@gateway/shared/testing/memory_audit_log";
 *
 * const log = new MemoryAuditLog();
 * let blocked = 0;
 * const gate = new AuditGate({
 *   log,
 *   failMode: "closed",
 *   onAppendFailure: () => {},
 *   onBlocked: () => blocked++,
 * });
 * log.failing = true;
 * await assert.rejects(gate.require({ outcome: "issued" }), { message: "audit unavailable" });
 * assert.equal(blocked, 1);
 * ```
 *
 * @module
 */
import { AppError, AUDIT_UNAVAILABLE, describeFault, errorText } from "../errors.ts";
import { currentRequestId } from "../request_context.ts";
import type { AuditEntry, AuditFailMode, AuditLog } from "./entry.ts";

/** Where the gate reports records that it could not keep; a `ServiceLogger` fits. */
export interface AuditGateLogger {
  /** Reports that records are kept again. */
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** Reports one record that was lost, with the facts about it. */
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/** What an {@linkcode AuditGate} is made of. */
export interface AuditGateOptions {
  /** Where records are appended. */
  readonly log: AuditLog;
  /** Absent and `""` mean `closed`; so does anything that is not `open`. */
  readonly failMode?: AuditFailMode | "" | undefined;
  /** Told of each record that could not be appended. Absent: only the counters are. */
  readonly logger?: AuditGateLogger | undefined;
  /** Called once per record that could not be appended (`audit_append_failures_total`). */
  readonly onAppendFailure: () => void;
  /** Called once per action withheld (`audit_blocked_total`). */
  readonly onBlocked: () => void;
}

const FIX =
  "free space if the disk is full; if another process changed the file, find out which one, then put the file back as " +
  "it was, or restart the service, which continues the log that it finds or begins a new one";

/** Appends records and decides what a failure to do so means. */
export class AuditGate {
  readonly #options: AuditGateOptions;
  /** What {@linkcode check} found last. */
  #fault: string | undefined;

  /** A gate in front of a log. */
  constructor(options: AuditGateOptions) {
    this.#options = options;
  }

  /**
   * Appends the record without which the action may not have an effect: call it before anything is released.
   *
   * @throws {AppError} `audit_unavailable`, text `audit unavailable`, when the record could not be made
   * durable and the fail mode is closed
   */
  async require(made: AuditEntry): Promise<void> {
    const entry = ofRequest(made);
    try {
      await this.#options.log.append(entry);
    } catch (cause) {
      const open = this.#options.failMode === "open";
      this.#report(entry, cause, open ? "action proceeds" : "action withheld");
      if (open) return;
      this.#options.onBlocked();
      throw new AppError("audit_unavailable", AUDIT_UNAVAILABLE, { cause });
    }
  }

  /** Appends a record that nothing hangs on, such as that of a refusal; a failure is logged and counted. */
  async bestEffort(made: AuditEntry): Promise<void> {
    const entry = ofRequest(made);
    try {
      await this.#options.log.append(entry);
    } catch (cause) {
      this.#report(entry, cause, "best effort");
    }
  }

  /** Whether actions are not held up by what {@linkcode check} found. */
  get isOpen(): boolean {
    return this.#fault === undefined || this.#options.failMode === "open";
  }

  /** Checks whether a record can be written, and logs when that changes. */
  check(): void {
    const fault = this.#findFault();
    if (fault === this.#fault) return;
    this.#fault = fault;
    const { logger } = this.#options;
    if (fault === undefined) logger?.info("Audit records can be written again");
    else logger?.error("Audit records cannot be written", { cause: fault, fix: FIX });
  }

  #findFault(): string | undefined {
    try {
      this.#options.log.check();
      return undefined;
    } catch (error) {
      return errorText(error);
    }
  }

  /** Waits for the appends under way and closes the log. */
  close(): Promise<void> {
    return this.#options.log.close();
  }

  #report(entry: AuditEntry, cause: unknown, consequence: string): void {
    this.#options.onAppendFailure();
    this.#options.logger?.error("Cannot append audit record", {
      outcome: entry.outcome,
      caller: entry.caller,
      ...(entry.request_id ? { request_id: entry.request_id } : {}),
      consequence,
      cause: describeFault(cause),
    });
  }
}

/** A record names the request that it is made in. */
function ofRequest(entry: AuditEntry): AuditEntry {
  const id = currentRequestId();
  return id === undefined || entry.request_id !== undefined ? entry : { ...entry, request_id: id };
}
