import { AppError } from "@gateway/shared/errors";
import { insertInto, selectColumns, showText } from "@gateway/shared/state/columns";
import { SqliteAccess, type StateWarner } from "@gateway/shared/state/sqlite_access";
import type { Approval } from "../approval/approval.ts";
import { MIGRATIONS } from "./migrations.ts";
import {
  APPROVAL_INTEGERS,
  APPROVAL_TEXTS,
  BASELINE_INTEGERS,
  BASELINE_TEXTS,
  checkApproval,
  checkBaseline,
  checkState,
  decodeApproval,
  decodeBaseline,
  encodeApproval,
  encodeBaseline,
  encodeState,
  STATE_COLUMNS,
} from "./rows.ts";
import type { ControlStore, StoredBaseline } from "./store.ts";

/** What a store in SQLite is opened with. */
export interface SqliteControlStoreOptions {
  /** The file; made when there is none, in a folder that exists. */
  readonly path: string;
  /** Told of what can't be read and is left out. */
  readonly warn: StateWarner;
  /** How long to wait for another process that holds the file, in milliseconds; by default 5000. */
  readonly lockWaitMs?: number;
}

/**
 * Opens the store, for this process alone until it is closed.
 *
 * @throws {AppError} `invalid_config` when the file can't be opened, is in use by another process, is damaged,
 * or was written by a newer version
 */
export function openSqliteControlStore(options: SqliteControlStoreOptions): ControlStore {
  const { path, warn, lockWaitMs } = options;
  return new SqliteControlStore(SqliteAccess.open({ path, migrations: MIGRATIONS, lockWaitMs }), warn);
}

const SELECT_APPROVALS = `SELECT ${selectColumns(APPROVAL_TEXTS, APPROVAL_INTEGERS)} FROM approvals
  ORDER BY created_at, rowid`;
const INSERT_APPROVAL = insertInto("approvals", [...APPROVAL_TEXTS, ...APPROVAL_INTEGERS]);
const UPDATE_APPROVAL = `UPDATE approvals SET ${STATE_COLUMNS.map((name) => `${name} = :${name}`).join(", ")}
  WHERE id = :id`;
const DELETE_OLD_APPROVALS = "DELETE FROM approvals WHERE created_at <= :after";
const DELETE_APPROVALS = "DELETE FROM approvals WHERE id IN (SELECT value FROM json_each(:ids))";
const SELECT_BASELINES = `SELECT ${selectColumns(BASELINE_TEXTS, BASELINE_INTEGERS)} FROM baselines`;
const PUT_BASELINE = `${insertInto("baselines", [...BASELINE_TEXTS, ...BASELINE_INTEGERS])}
  ON CONFLICT (subject) DO UPDATE SET last_seen = :last_seen, hosts = :hosts, commands = :commands`;
const DELETE_BASELINES = "DELETE FROM baselines WHERE subject IN (SELECT value FROM json_each(:subjects))";

class SqliteControlStore implements ControlStore {
  readonly survivesRestart = true;
  readonly #database: SqliteAccess;
  readonly #warn: StateWarner;

  constructor(database: SqliteAccess, warn: StateWarner) {
    this.#database = database;
    this.#warn = warn;
  }

  loadApprovals(createdAfter: number): Promise<readonly Approval[]> {
    return this.#database.change(() => {
      this.#database.run(DELETE_OLD_APPROVALS, { after: createdAfter });
      return this.#database.rows(SELECT_APPROVALS).flatMap((row) => {
        try {
          return [decodeApproval(row)];
        } catch (error) {
          this.#warn("An approval in state_db can't be read and is left out", {
            id: showText(row, "id"),
            error,
          });
          return [];
        }
      });
    });
  }

  insertApproval(approval: Approval): Promise<void> {
    return this.#database.change(() => {
      checkApproval(approval);
      checkState(approval.state);
      this.#database.run(INSERT_APPROVAL, encodeApproval(approval));
    });
  }

  updateApproval({ id, state }: Approval): Promise<void> {
    return this.#database.change(() => {
      checkState(state);
      if (this.#database.run(UPDATE_APPROVAL, { id, ...encodeState(state) }) === 1) return;
      throw new AppError("internal", "There is no approval of this id");
    });
  }

  deleteApprovals(ids: readonly string[]): Promise<void> {
    return this.#database.change(() => {
      this.#database.run(DELETE_APPROVALS, { ids: JSON.stringify(ids) });
    });
  }

  loadBaselines(): Promise<readonly StoredBaseline[]> {
    return this.#database.read(() =>
      this.#database.rows(SELECT_BASELINES).flatMap((row) => {
        try {
          return [decodeBaseline(row)];
        } catch (error) {
          const subject = showText(row, "subject");
          this.#warn("A baseline in state_db can't be read and is left out", { subject, error });
          return [];
        }
      })
    );
  }

  putBaseline(baseline: StoredBaseline): Promise<void> {
    return this.#database.change(() => {
      checkBaseline(baseline);
      this.#database.run(PUT_BASELINE, encodeBaseline(baseline));
    });
  }

  deleteBaselines(subjects: readonly string[]): Promise<void> {
    return this.#database.change(() => {
      this.#database.run(DELETE_BASELINES, { subjects: JSON.stringify(subjects) });
    });
  }

  close(): Promise<void> {
    return this.#database.close();
  }
}
