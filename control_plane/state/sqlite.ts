import { AppError } from "@gateway/shared/errors";
import { insertInto, readText, selectColumns, SqliteAccess, type StateFile } from "@gateway/shared/state";
import type { Approval } from "../approvals/approval.ts";
import type { Timing } from "../approvals/transitions.ts";
import { SCHEMA } from "./migrations.ts";
import {
  APPROVAL_INTEGERS,
  APPROVAL_READER,
  APPROVAL_TEXTS,
  BASELINE_INTEGERS,
  BASELINE_READER,
  BASELINE_TEXTS,
  checkApproval,
  checkBaseline,
  checkState,
  claimStatement,
  encodeBaseline,
  encodeKept,
  encodeState,
  isKept,
  keptAt,
  STATE_COLUMNS,
} from "./rows.ts";
import type { Keeping } from "../approvals/outcomes.ts";
import type { Baseline } from "../guardrails/tracker.ts";
import type { NotificationClaim } from "../notify/outbox.ts";
import type { ControlStore } from "./store.ts";

/**
 * Opens the store, for this process alone until it is closed.
 *
 * @throws {AppError} `invalid_config` with cause and remedy when the file can't be opened, is in use by another
 * process, is damaged, is another program's, or was written by a newer version
 */
export function openSqliteControlStore(file: StateFile): ControlStore {
  return new SqliteControlStore(SqliteAccess.open(SCHEMA, file), file.path !== "");
}

const SELECT_APPROVALS = `SELECT ${selectColumns(APPROVAL_TEXTS, APPROVAL_INTEGERS)} FROM approvals
  ORDER BY created_at, rowid`;
const INSERT_APPROVAL = insertInto("approvals", [...APPROVAL_TEXTS, ...APPROVAL_INTEGERS, "notify_until"]);
const UPDATE_APPROVAL = `UPDATE approvals SET ${STATE_COLUMNS.map((name) => `${name} = :${name}`).join(", ")}
  WHERE id = :id`;
const DELETE_OLD_APPROVALS = `DELETE FROM approvals WHERE NOT ${isKept(":now", ":createdFrom")}`;
const DELETE_APPROVALS = "DELETE FROM approvals WHERE id IN (SELECT value FROM json_each(:ids))";
const CLAIM_NOTIFICATIONS = claimStatement({
  ...{ now: ":now", until: ":until", limit: ":limit", ids: selectColumns(["id"], []), lock: "" },
});
const END_NOTIFICATION = "UPDATE approvals SET notify_until = 0 WHERE id = :id";
const SELECT_BASELINES = `SELECT ${selectColumns(BASELINE_TEXTS, BASELINE_INTEGERS)} FROM baselines`;
const PUT_BASELINE = `${insertInto("baselines", [...BASELINE_TEXTS, ...BASELINE_INTEGERS])}
  ON CONFLICT (subject) DO UPDATE SET last_seen = :last_seen, hosts = :hosts, commands = :commands`;
const DELETE_BASELINES = "DELETE FROM baselines WHERE subject IN (SELECT value FROM json_each(:subjects))";

class SqliteControlStore implements ControlStore {
  readonly survivesRestart: boolean;
  readonly #database: SqliteAccess;

  constructor(database: SqliteAccess, survivesRestart: boolean) {
    this.survivesRestart = survivesRestart;
    this.#database = database;
  }

  loadApprovals(timing: Timing): Promise<readonly Approval[]> {
    return this.#database.change(() => {
      this.#database.run(DELETE_OLD_APPROVALS, { ...keptAt(timing) });
      return this.#database.readable(this.#database.rows(SELECT_APPROVALS), APPROVAL_READER);
    });
  }

  insertApproval(approval: Approval, { notifyUntil }: Keeping = {}): Promise<void> {
    return this.#database.change(() => {
      checkApproval(approval);
      checkState(approval.state);
      this.#database.run(INSERT_APPROVAL, encodeKept(approval, notifyUntil));
    });
  }

  updateApproval(...approvals: readonly Approval[]): Promise<void> {
    return this.#database.change(() => {
      for (const { id, state } of approvals) {
        checkState(state);
        if (this.#database.run(UPDATE_APPROVAL, { id, ...encodeState(state) }) === 1) continue;
        throw new AppError("internal", "There is no approval with this id");
      }
    });
  }

  deleteApprovals(ids: readonly string[]): Promise<void> {
    return this.#database.change(() => {
      this.#database.run(DELETE_APPROVALS, { ids: JSON.stringify(ids) });
    });
  }

  claimNotifications(claim: NotificationClaim): Promise<readonly string[]> {
    return this.#database.change(() =>
      this.#database.rows(CLAIM_NOTIFICATIONS, { ...claim }).map((row) => readText(row, "id"))
    );
  }

  endNotification(id: string): Promise<void> {
    return this.#database.change(() => void this.#database.run(END_NOTIFICATION, { id }));
  }

  loadBaselines(): Promise<readonly Baseline[]> {
    return this.#database.read(() =>
      this.#database.readable(this.#database.rows(SELECT_BASELINES), BASELINE_READER)
    );
  }

  putBaseline(baseline: Baseline): Promise<void> {
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
