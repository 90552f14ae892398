/** The signer's tables in both databases. To change them, append a migration; never edit one that was released. */
import { INSTANCE_TABLES } from "@gateway/shared/instances";
import { type PostgresSchema, SAY_OLDEST, type StateSchema } from "@gateway/shared/state";

/** The migrations of an SQLite file, whose `user_version` counts those that were applied. */
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

/** Columns of PostgreSQL tables. Texts compare byte by byte, like everything that is decided by. */
const texts = (...names: readonly string[]) =>
  names.map((name) => `${name} text COLLATE "C" NOT NULL`).join(", ");
const integers = (...names: readonly string[]) => names.map((name) => `${name} int8 NOT NULL`).join(", ");

export const POSTGRES_SCHEMA: PostgresSchema = {
  name: "signer",
  owner: "signer",
  migrations: [
    `${INSTANCE_TABLES}
    CREATE TABLE grants (
      ${texts("id", "host", "allow", "waive_approval", "caller", "end_user", "sudo_user")},
      ${texts("content_sha256", "approver", "approval_id")},
      ${integers("sudo", "granted_at", "expires_at")},
      PRIMARY KEY (id)
    );
    CREATE INDEX grants_expires ON grants (expires_at);
    CREATE TABLE freezes (
      ${texts("kind", "value", "reason", "frozen_by")}, ${integers("frozen_at")},
      PRIMARY KEY (kind, value)
    );
    CREATE TABLE certificates (
      ${texts("peer", "caller", "end_user", "host", "role", "elevation", "serials", "instance")},
      ${integers("pty", "issued_at", "valid_before", "epoch")}
    );
    CREATE INDEX certificates_epoch ON certificates (epoch);
    CREATE INDEX certificates_valid ON certificates (valid_before);
    CREATE TABLE revocations (
      ${texts("kind", "value")}, ${integers("revoked_at")},
      PRIMARY KEY (kind, value)
    );
    CREATE TABLE krl (version int8 NOT NULL);
    INSERT INTO krl VALUES (0);
    CREATE TABLE leases (
      ${texts("cluster", "name", "namespace", "uid", "caller", "end_user", "peers")},
      ${integers("expires_at")},
      PRIMARY KEY (cluster, name)
    );`,
    `CREATE TABLE policy_versions (
      ${texts("document", "sha256", "made_by", "change")}, ${integers("version", "made_at")},
      PRIMARY KEY (version)
    );`,
    `ALTER TABLE leases ADD COLUMN ${texts("instance")} DEFAULT '';`,
    `CREATE TABLE policy_proposals (${texts("document", "sha256")}, PRIMARY KEY (sha256));
    ALTER TABLE instances ADD COLUMN ${texts("prepared")} DEFAULT '';`,
    "COMMENT ON COLUMN revocations.kind IS 'caller, end_user, serial, key_id, request';",
    SAY_OLDEST,
  ],
  oldest: 6,
};
