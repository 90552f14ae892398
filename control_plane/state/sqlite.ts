import { SQLITE, SqliteAccess, type StateFile, type StateSchema, type Steps } from "@gateway/shared/state";
import { type ControlStore, SqlControlStore } from "./store.ts";

/** The migrations. Append a new one to change the schema, and never edit a released one. Times are milliseconds. */
export const MIGRATIONS: readonly string[] = [
  `CREATE TABLE approvals (
    id TEXT PRIMARY KEY,
    caller TEXT NOT NULL DEFAULT '',
    end_user TEXT NOT NULL DEFAULT '',
    host TEXT NOT NULL DEFAULT '',
    command TEXT NOT NULL DEFAULT '',
    sudo INTEGER NOT NULL DEFAULT 0,
    sudo_user TEXT NOT NULL DEFAULT '',
    rule TEXT NOT NULL DEFAULT '',
    anomalies TEXT NOT NULL DEFAULT '[]',
    status TEXT NOT NULL,
    consumed INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    decided_at INTEGER NOT NULL DEFAULT 0,
    decided_by TEXT NOT NULL DEFAULT '',
    learn_ttl_seconds INTEGER NOT NULL DEFAULT 0,
    request_json TEXT NOT NULL
  );
  CREATE INDEX approvals_created ON approvals (created_at);
  CREATE TABLE baselines (
    subject TEXT PRIMARY KEY,
    last_seen INTEGER NOT NULL,
    hosts TEXT NOT NULL DEFAULT '[]',
    commands TEXT NOT NULL DEFAULT '[]'
  );`,
  `ALTER TABLE approvals ADD COLUMN lead TEXT NOT NULL DEFAULT '';
  ALTER TABLE approvals ADD COLUMN account TEXT NOT NULL DEFAULT '';
  ALTER TABLE approvals ADD COLUMN addr TEXT NOT NULL DEFAULT '';
  ALTER TABLE approvals ADD COLUMN life_seconds INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE approvals ADD COLUMN comment TEXT NOT NULL DEFAULT '';`,
  `ALTER TABLE approvals ADD COLUMN k8s_diff TEXT NOT NULL DEFAULT '';`,
  // 0: the timeout of the control plane that opens the file applies.
  `ALTER TABLE approvals ADD COLUMN timeout_ms INTEGER NOT NULL DEFAULT 0;`,
  // Until this time, the process that inserted or claimed the approval notifies approvers. 0: no
  // notification.
  `ALTER TABLE approvals ADD COLUMN notify_until INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX approvals_notify ON approvals (notify_until) WHERE notify_until > 0;`,
  `ALTER TABLE approvals ADD COLUMN signed_approval TEXT NOT NULL DEFAULT '';
  ALTER TABLE approvals ADD COLUMN proofs TEXT NOT NULL DEFAULT '';`,
];

/**
 * Distinguishes milliseconds from seconds: as milliseconds this number is in 1973, and as seconds in the year
 * 5138.
 */
const EARLIEST_MS = 100_000_000_000;

const SCHEMA: StateSchema = {
  owner: "control plane",
  migrations: MIGRATIONS,
  loss: "its approvals and baselines are lost, and brokers have to repeat pending requests",
  foreign: {
    query: `SELECT 1 FROM approvals WHERE created_at < ${EARLIEST_MS}`,
    cause: "another implementation wrote it, with times in seconds instead of milliseconds",
  },
};

/**
 * Opens the store for this process alone.
 *
 * @throws {AppError} `invalid_config` with cause and fix if the file can't be opened, is in use by another process,
 * is damaged, is another program's, or was written by a newer version
 */
export function openSqliteControlStore(file: StateFile): ControlStore {
  const access = SqliteAccess.open(SCHEMA, file);
  const change = <T>(steps: Steps<T>) => access.change(() => access.perform(steps));
  return new SqlControlStore({
    survivesRestart: file.path !== "",
    select: SQLITE.select,
    order: "rowid",
    isUnwanted: "TRUE",
    ownColumns: () => ({}),
    listed: "value FROM json_each($1)",
    skipLocked: "",
    read: (steps) => access.read(() => access.perform(steps)),
    change,
    announce: change,
    readable: (rows, reader) => access.readable(rows, reader),
    close: () => access.close(),
  });
}
