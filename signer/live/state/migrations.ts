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

/** Byte by byte, like everything that is decided by. */
const TEXT = 'text COLLATE "C" NOT NULL';

export const POSTGRES_SCHEMA: PostgresSchema = {
  name: "signer",
  owner: "signer",
  migrations: [
    `${INSTANCE_TABLES}
    CREATE TABLE grants (
      id ${TEXT} PRIMARY KEY,
      host ${TEXT},
      allow ${TEXT},
      waive_approval ${TEXT},
      caller ${TEXT},
      end_user ${TEXT},
      sudo int8 NOT NULL,
      sudo_user ${TEXT},
      content_sha256 ${TEXT},
      approver ${TEXT},
      approval_id ${TEXT},
      granted_at int8 NOT NULL,
      expires_at int8 NOT NULL
    );
    CREATE INDEX grants_expires ON grants (expires_at);
    CREATE TABLE freezes (
      kind ${TEXT},
      value ${TEXT},
      reason ${TEXT},
      frozen_by ${TEXT},
      frozen_at int8 NOT NULL,
      PRIMARY KEY (kind, value)
    );
    CREATE TABLE certificates (
      peer ${TEXT},
      caller ${TEXT},
      end_user ${TEXT},
      host ${TEXT},
      role ${TEXT},
      elevation ${TEXT},
      pty int8 NOT NULL,
      issued_at int8 NOT NULL,
      valid_before int8 NOT NULL,
      serials ${TEXT},
      instance ${TEXT},
      epoch int8 NOT NULL
    );
    CREATE INDEX certificates_epoch ON certificates (epoch);
    CREATE INDEX certificates_valid ON certificates (valid_before);
    CREATE TABLE revocations (
      kind ${TEXT},
      value ${TEXT},
      revoked_at int8 NOT NULL,
      PRIMARY KEY (kind, value)
    );
    CREATE TABLE krl (version int8 NOT NULL);
    INSERT INTO krl VALUES (0);
    CREATE TABLE leases (
      cluster ${TEXT},
      name ${TEXT},
      namespace ${TEXT},
      uid ${TEXT},
      caller ${TEXT},
      end_user ${TEXT},
      peers ${TEXT},
      expires_at int8 NOT NULL,
      PRIMARY KEY (cluster, name)
    );`,
    `CREATE TABLE policy_versions (
      version int8 NOT NULL PRIMARY KEY,
      document ${TEXT},
      sha256 ${TEXT},
      made_by ${TEXT},
      change ${TEXT},
      made_at int8 NOT NULL
    );`,
    `ALTER TABLE leases ADD COLUMN instance ${TEXT} DEFAULT '';`,
    `CREATE TABLE policy_proposals (
      document ${TEXT},
      sha256 ${TEXT} PRIMARY KEY
    );
    ALTER TABLE instances ADD COLUMN prepared ${TEXT} DEFAULT '';`,
    "COMMENT ON COLUMN revocations.kind IS 'caller, end_user, serial, key_id, request';",
    SAY_OLDEST,
  ],
  oldest: 6,
};
