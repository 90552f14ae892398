/**
 * What an audit record says, and the port that keeps it. The chain, the signature and the file are in the
 * modules beside this one.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import type { AuditEntry } from "@gateway/shared/audit/entry";
 *
 * const entry: AuditEntry = { caller: "broker-1", host: "10.0.0.1:22", outcome: "issued", serial: 7n };
 * assert.equal(entry.outcome, "issued");
 * ```
 *
 * @module
 */

/**
 * The content of one record; absent strings are `""`, absent numbers 0, absent booleans false. The log adds
 * `time`, `seq`, `prev_hash` and `sig`.
 */
export interface AuditEntry {
  readonly caller?: string;
  readonly host?: string;
  readonly user?: string;
  readonly principal?: string;
  readonly command?: string;
  readonly ttl?: string;
  /** Unsigned, 64 bits. */
  readonly serial?: bigint;
  readonly session_id?: string;
  readonly target_type?: string;
  readonly body_sha256?: string;
  readonly outcome: string;
  readonly exit_code?: number;
  readonly err?: string;
  /** `sudo:<user>`. */
  readonly elevation?: string;
  readonly pty?: boolean;
  readonly policy_rule?: string;
  readonly dry_run?: boolean;
  readonly warning?: string;
  readonly approval_id?: string;
  readonly approved_by?: string;
  readonly approved_via?: string;
  readonly anomaly?: string;
}

/** Where audit records go. */
export interface AuditLog {
  /**
   * Appends one record. Resolves only when the record is durable; records are written in the order of the
   * calls.
   *
   * @throws {AppError} `audit_unavailable` when it could not be made durable
   */
  append(entry: AuditEntry): Promise<void>;
  /** Waits for the appends under way, then closes. */
  close(): Promise<void>;
}

/** What happens to an action whose record can't be written: `closed` withholds it, `open` lets it proceed. */
export type AuditFailMode = "closed" | "open";
