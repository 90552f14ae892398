/**
 * The schema of the state database. `user_version` counts the migrations that were applied; to change the
 * schema, append one, and never edit one that was released.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { MIGRATIONS } from "./migrations.ts";
 *
 * assert.ok(MIGRATIONS.length >= 2);
 * ```
 *
 * @module
 */
import type { StateSchema } from "@gateway/shared/state";

/** The statements that lead from one version to the next; the first from an empty file to version 1. */
export const MIGRATIONS: readonly string[] = [
  `CREATE TABLE grants (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    allow TEXT NOT NULL DEFAULT '[]',
    waive_approval TEXT NOT NULL DEFAULT '[]',
    caller TEXT NOT NULL DEFAULT '',
    end_user TEXT NOT NULL DEFAULT '',
    sudo INTEGER NOT NULL DEFAULT 0,
    sudo_user TEXT NOT NULL DEFAULT '',
    approver TEXT NOT NULL DEFAULT '',
    approval_id TEXT NOT NULL DEFAULT '',
    granted_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
  );
  CREATE INDEX grants_expires ON grants (expires_at);`,
  `CREATE TABLE freezes (
    kind TEXT NOT NULL,
    value TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    frozen_by TEXT NOT NULL DEFAULT '',
    frozen_at INTEGER NOT NULL,
    PRIMARY KEY (kind, value)
  );`,
  "ALTER TABLE grants ADD COLUMN content_sha256 TEXT NOT NULL DEFAULT '';",
  `CREATE TABLE certificates (
    peer TEXT NOT NULL,
    caller TEXT NOT NULL,
    end_user TEXT NOT NULL DEFAULT '',
    host TEXT NOT NULL,
    role TEXT NOT NULL,
    elevation TEXT NOT NULL DEFAULT '',
    pty INTEGER NOT NULL DEFAULT 0,
    issued_at INTEGER NOT NULL,
    valid_before INTEGER NOT NULL,
    serials TEXT NOT NULL
  );
  CREATE INDEX certificates_valid ON certificates (valid_before);
  CREATE TABLE revocations (
    kind TEXT NOT NULL,
    value TEXT NOT NULL,
    revoked_at INTEGER NOT NULL,
    PRIMARY KEY (kind, value)
  );
  CREATE TABLE krl (version INTEGER NOT NULL);`,
  `CREATE TABLE leases (
    cluster TEXT NOT NULL,
    name TEXT NOT NULL,
    namespace TEXT NOT NULL,
    uid TEXT NOT NULL DEFAULT '',
    caller TEXT NOT NULL,
    end_user TEXT NOT NULL DEFAULT '',
    peers TEXT NOT NULL DEFAULT '[]',
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (cluster, name)
  );`,
  // An older program knows no revocations of requests.
  "/* revocations.kind may be 'request' */",
];

export const SCHEMA: StateSchema = {
  owner: "signer",
  migrations: MIGRATIONS,
  loss: "its grants, waivers and freezes are gone: freeze again who was frozen",
};
