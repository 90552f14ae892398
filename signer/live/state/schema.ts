/**
 * The tables of a signer in both databases, and the meaning of their rows. Times are whole seconds, rounded
 * down. To change the tables, append a migration. Never edit a released migration.
 */
import { INSTANCE_TABLES } from "@gateway/shared/instances";
import type { Grant } from "@gateway/shared/policy";
import { FREEZE_KINDS } from "@gateway/shared/wire";
import type { Freeze } from "../freezes.ts";
import {
  type CertificateHolder,
  type IssuedBatch,
  REVOCABLE_KINDS,
  type StoredRevocation,
} from "../krl/certificates.ts";
import {
  ADD_OLDEST_COLUMN,
  columnsOf,
  flagColumn,
  integerColumn,
  listColumn,
  type PostgresSchema,
  type StateSchema,
  Table,
  textColumn,
  timeColumn,
  wordColumn,
} from "@gateway/shared/state";

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
  // Changes nothing but the version of the schema: programs of earlier versions cannot read revocations of
  // requests.
  "/* revocations.kind may be 'request' */",
  "/* revocations.kind may be 'document' */",
];

export const SCHEMA: StateSchema = {
  owner: "signer",
  migrations: MIGRATIONS,
  loss: "its grants, waivers and freezes are lost: repeat the freezes",
};

/** Columns of PostgreSQL tables. Texts are compared byte by byte, as in SQLite and in memory. */
const columns = (...names: readonly string[]) =>
  names.map((name) => name.endsWith(" int8") ? `${name} NOT NULL` : `${name} text COLLATE "C" NOT NULL`)
    .join(", ");

export const POSTGRES_SCHEMA: PostgresSchema = {
  name: "signer",
  owner: "signer",
  migrations: [
    `${INSTANCE_TABLES}
    CREATE TABLE grants (
      ${columns("id", "host", "allow", "waive_approval", "caller", "end_user", "sudo int8", "sudo_user")},
      ${columns("content_sha256", "approver", "approval_id", "granted_at int8", "expires_at int8")},
      PRIMARY KEY (id)
    );
    CREATE INDEX grants_expires ON grants (expires_at);
    CREATE TABLE freezes (
      ${columns("kind", "value", "reason", "frozen_by", "frozen_at int8")},
      PRIMARY KEY (kind, value)
    );
    CREATE TABLE certificates (
      ${columns("peer", "caller", "end_user", "host", "role", "elevation", "pty int8", "issued_at int8")},
      ${columns("valid_before int8", "serials", "instance", "epoch int8")}
    );
    CREATE INDEX certificates_epoch ON certificates (epoch);
    CREATE INDEX certificates_valid ON certificates (valid_before);
    CREATE TABLE revocations (
      ${columns("kind", "value", "revoked_at int8")},
      PRIMARY KEY (kind, value)
    );
    CREATE TABLE krl (version int8 NOT NULL);
    INSERT INTO krl VALUES (0);
    CREATE TABLE leases (
      ${columns("cluster", "name", "namespace", "uid", "caller", "end_user", "peers", "expires_at int8")},
      PRIMARY KEY (cluster, name)
    );`,
    `CREATE TABLE policy_versions (
      ${columns("version int8", "document", "sha256", "made_by", "change", "made_at int8")},
      PRIMARY KEY (version)
    );`,
    `ALTER TABLE leases ADD COLUMN ${columns("instance")} DEFAULT '';`,
    `CREATE TABLE policy_proposals (${columns("document", "sha256")}, PRIMARY KEY (sha256));
    ALTER TABLE instances ADD COLUMN ${columns("prepared")} DEFAULT '';`,
    "COMMENT ON COLUMN revocations.kind IS 'caller, end_user, serial, key_id, request';",
    ADD_OLDEST_COLUMN,
    "COMMENT ON COLUMN revocations.kind IS 'caller, end_user, serial, key_id, request, document';",
  ],
  oldest: 7,
};

/** A Secret that tokens of a cluster are bound to: one for each caller and end user. */
export interface Lease {
  readonly cluster: string;
  readonly namespace: string;
  readonly name: string;
  /** The UID of the Secret. Empty: it is unknown whether the Secret exists. */
  readonly uid: string;
  readonly caller: string;
  /** Empty: none. */
  readonly endUser: string;
  /**
   * The CNs of the connections that received tokens, because the freeze of a forwarder also revokes tokens
   * that it forwarded.
   */
  readonly peers: readonly string[];
  /**
   * The time when no token needs the Secret any more, in milliseconds since the epoch; 0: delete the Secret
   * now.
   */
  readonly expiresAt: number;
}

const seconds = (name: string) => timeColumn(name, 1000);

export const GRANTS = new Table<Grant>("grants", {
  ...columnsOf(textColumn, "id", "host", "caller", "endUser", "sudoUser", "contentSha256"),
  ...columnsOf(textColumn, "approver", "approvalId"),
  ...columnsOf(listColumn, "allow", "waiveApproval"),
  sudo: flagColumn("sudo"),
  ...columnsOf(seconds, "grantedAt", "expiresAt"),
});

export const FREEZES = new Table<Freeze>("freezes", {
  kind: wordColumn("kind", FREEZE_KINDS),
  ...columnsOf(textColumn, "value", "reason", "frozenBy"),
  frozenAt: seconds("frozen_at"),
});

/**
 * Certificates of one holder that were issued in the same second and have the same lifetime. Their serials
 * are separated by spaces.
 */
export const CERTIFICATES = new Table<
  CertificateHolder & Pick<IssuedBatch, "issuedAt" | "validBefore"> & { readonly serials: string }
>("certificates", {
  ...columnsOf(textColumn, "peer", "caller", "endUser", "host", "role", "serials"),
  elevationPrefix: textColumn("elevation"),
  pty: flagColumn("pty"),
  ...columnsOf(integerColumn, "issuedAt", "validBefore"),
});

export const REVOCATIONS = new Table<StoredRevocation>("revocations", {
  kind: wordColumn("kind", REVOCABLE_KINDS),
  value: textColumn("value"),
  revokedAt: seconds("revoked_at"),
});

export const LEASES = new Table<Lease>("leases", {
  ...columnsOf(textColumn, "cluster", "namespace", "name", "uid", "caller", "endUser"),
  peers: listColumn("peers"),
  expiresAt: seconds("expires_at"),
});
