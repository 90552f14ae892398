/** The schema of the signer in a PostgreSQL database. */
import type { PostgresSchema } from "@gateway/shared/state/postgres_schema";

/** Byte by byte, like everything that is decided by. */
const TEXT = 'text COLLATE "C" NOT NULL';

/**
 * What several signers share. `epochs` counts the changes of what is decided by, and those of the certificates: the row
 * is taken first in every change, so that changes are committed in the order of their numbers. `instances` has a row
 * for each signer, with the number it has seen.
 */
export const POSTGRES_SCHEMA: PostgresSchema = {
  name: "signer",
  owner: "signer",
  migrations: [
    `CREATE TABLE epochs (topic ${TEXT} PRIMARY KEY, value int8 NOT NULL);
    INSERT INTO epochs VALUES ('state', 1), ('certificates', 1);
    CREATE TABLE instances (
      name ${TEXT} PRIMARY KEY,
      session ${TEXT},
      version ${TEXT},
      beat int8 NOT NULL,
      seen int8 NOT NULL
    );
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
  ],
};
