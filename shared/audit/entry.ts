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
 * `time`, `seq`, `prev_hash` and `sig`. Fields that start with `ext` are written into the record's last member, the object
 * `ext`.
 */
export interface AuditEntry {
  /** CN of whoever asked; in local mode `local`. */
  readonly caller?: string;
  /** The host's address, or the name that was asked for where no host has it. */
  readonly host?: string;
  /** The account on the host. */
  readonly user?: string;
  /** The principal of the certificate. */
  readonly principal?: string;
  /** The command as it was asked for, masked before it is written. */
  readonly command?: string;
  /** The life of the certificate, such as `300s`. */
  readonly ttl?: string;
  /** Unsigned, 64 bits. */
  readonly serial?: bigint;
  /** The session that the record belongs to; also in `ext`. */
  readonly session_id?: string;
  /** Empty for SSH hosts. */
  readonly target_type?: string;
  /** SHA-256 of what the record stands for, such as a recording or a file; 64 lowercase hex digits. */
  readonly body_sha256?: string;
  /** What happened, such as `issued` or `denied`. */
  readonly outcome: string;
  /** The command's exit code. */
  readonly exit_code?: number;
  /** Why it came to nothing. */
  readonly err?: string;
  /** `sudo:<user>`. */
  readonly elevation?: string;
  /** With a terminal. */
  readonly pty?: boolean;
  /** The rule that decided. */
  readonly policy_rule?: string;
  /** Nothing was signed or run. */
  readonly dry_run?: boolean;
  /** What enforcement would have done, or what is amiss with the record. */
  readonly warning?: string;
  /** The approval that it needed. */
  readonly approval_id?: string;
  /** CN of the approver. */
  readonly approved_by?: string;
  /** How the approver was asked, such as `elicitation`. */
  readonly approved_via?: string;
  /** What the guardrails found. */
  readonly anomaly?: string;
  /** `ext`: the requested command if `command` describes the request instead; written masked, with its SHA-256. */
  readonly command_line?: string;
  /** `ext`: the ID of the request. Absent: the ID of the request in which the record is appended. */
  readonly request_id?: string;
  /** `ext`: the logical name of the host or cluster. */
  readonly host_name?: string;
  /** `ext`: the address of the host, or the URL of the cluster's API server. */
  readonly addr?: string;
  /** `ext`: the version of the hosts in the database that decided. */
  readonly policy_version?: number | undefined;
  /** `ext`: SHA-256 of what a transfer writes. */
  readonly content_sha256?: string;
  /** `ext`: the reason that the caller gave, masked. */
  readonly reason?: string;
  /** `ext`: the ID of a Kubernetes token. The API server's audit log has the same ID. */
  readonly jti?: string;
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
  /**
   * Checks whether a record could be appended: the log is unchanged and the disk takes more bytes.
   *
   * @throws {Error} with the reason why not
   */
  check(): void;
  /** Waits for the appends under way, then closes. */
  close(): Promise<void>;
}

/** What happens to an action whose record can't be written: `closed` withholds it, `open` lets it proceed. */
export type AuditFailMode = "closed" | "open";
