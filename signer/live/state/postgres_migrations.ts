/** The schema of the signer in a PostgreSQL database. */
import { INSTANCE_TABLES } from "@gateway/shared/instances";
import { type PostgresSchema, SAY_OLDEST } from "@gateway/shared/state";

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
