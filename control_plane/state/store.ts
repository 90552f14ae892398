import { AppError } from "@gateway/shared/errors";
import type { Epochs, InstanceLink, Shared } from "@gateway/shared/instances";
import { insertRow, type Parameters, readText, type Row, type RowReader } from "@gateway/shared/state";
import type { Approval, Timing } from "../approvals/approval.ts";
import type { ApprovalStore, Keeping } from "../approvals/outcomes.ts";
import type { BaselineStore } from "../guardrails/guardrails.ts";
import type { Baseline } from "../guardrails/tracker.ts";
import type { NotificationClaim, NotificationStore } from "../notify/outbox.ts";
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
  encodeApproval,
  encodeBaseline,
  encodeState,
  STATE_COLUMNS,
} from "./rows.ts";

export interface SharedApprovals extends Shared {
  /** Those that are not purgeable, the oldest first, as they were at one moment. */
  load(
    link: InstanceLink,
    timing: Timing,
  ): Promise<{ readonly epochs: Epochs; readonly approvals: readonly Approval[] }>;
}

/**
 * Keeps approvals and baselines for the next start. Every change is all or nothing, and committed when its
 * promise resolves: a process killed later does not lose it. A change that rejects has not been made, as far
 * as the store can tell. Times are kept to the millisecond.
 */
export interface ControlStore extends ApprovalStore, NotificationStore, BaselineStore {
  /** Present where other instances may change it too: each change of an approval is made by one of them then. */
  readonly shared?: SharedApprovals;

  /** Releases the store; it can't be used any more. */
  close(): Promise<void>;
}

/** The statements of one transaction, in order. Each gives the rows that it returns. */
export type Steps<T> = Generator<
  { readonly text: string; readonly parameters: readonly (string | number)[] },
  T,
  readonly Row[]
>;

/** A database, and how it writes what SQLite and PostgreSQL write differently. */
interface ControlDatabase {
  readonly survivesRestart: boolean;
  /** The columns of a `SELECT` that `readText()` and `readInteger()` can read. */
  readonly select: (texts: readonly string[], integers: readonly string[]) => string;
  /** The column that keeps the order of approvals of one millisecond. */
  readonly order: string;
  /** The condition that no other instance wants an approval kept. */
  readonly isUnwanted: string;
  /** Columns of a new approval that only this database has. */
  readonly ownColumns: (approval: Approval, keeping: Keeping) => Parameters;
  /** The texts of a JSON list in `$1`. */
  readonly listed: string;
  /** Keeps claims of several instances at the same time apart. */
  readonly skipLocked: string;
  read<T>(steps: Steps<T>): Promise<T>;
  change<T>(steps: Steps<T>): Promise<T>;
  /** Changes approvals, and wakes the instances that share them. */
  announce<T>(steps: Steps<T>): Promise<T>;
  /** The rows as values; an unreadable one is left out with a warning. */
  readable<T>(rows: readonly Row[], reader: RowReader<T>): readonly T[];
  close(): Promise<void>;
}

/** The condition that an approval is not purgeable, as `isPurgeable()` has it, for the parameters of {@linkcode keptAt}. */
const IS_KEPT = "CASE WHEN timeout_ms = 0 THEN created_at >= $2 ELSE created_at + 2 * timeout_ms >= $1 END";
const UPDATE_APPROVAL = `UPDATE approvals SET ${
  STATE_COLUMNS.map((name, index) => `${name} = $${index + 4}`).join(", ")
} WHERE id = $1 AND status = $2 AND consumed = $3 RETURNING 1`;
const LOCK_BASELINE = "ON CONFLICT (subject) DO UPDATE SET last_seen = baselines.last_seen";
const UPDATE_BASELINE = "UPDATE baselines SET last_seen = $2, hosts = $3, commands = $4 WHERE subject = $1";

/** The one store of a control plane: over SQLite for one process, over PostgreSQL for several. */
export class SqlControlStore implements ControlStore {
  readonly #database: ControlDatabase;
  /**
   * The last sight of each baseline as this instance has read or written it, and whether there is more in it than this
   * instance knows. A later one is of another instance.
   */
  readonly #left = new Map<string, { readonly lastSeen: number; readonly isShared: boolean }>();

  constructor(database: ControlDatabase) {
    this.#database = database;
  }

  get survivesRestart(): boolean {
    return this.#database.survivesRestart;
  }

  loadApprovals(timing: Timing): Promise<readonly Approval[]> {
    return this.#database.change(this.#purgeAndSelect(timing));
  }

  *#purgeAndSelect(timing: Timing): Steps<readonly Approval[]> {
    const text = `DELETE FROM approvals WHERE NOT ${IS_KEPT} AND ${this.#database.isUnwanted}`;
    yield { text, parameters: keptAt(timing) };
    return yield* this.selectApprovals(timing);
  }

  /** Reads the approvals that are not purgeable, the oldest first. */
  *selectApprovals(timing: Timing): Steps<readonly Approval[]> {
    const { select, order } = this.#database;
    const text = `SELECT ${select(APPROVAL_TEXTS, APPROVAL_INTEGERS)} FROM approvals WHERE ${IS_KEPT}
      ORDER BY approvals.created_at, ${order}`;
    return this.#database.readable(yield { text, parameters: keptAt(timing) }, APPROVAL_READER);
  }

  async insertApproval(approval: Approval, keeping: Keeping = {}): Promise<void> {
    checkApproval(approval);
    checkState(approval.state);
    const row = insertRow("approvals", {
      ...encodeApproval(approval),
      notify_until: keeping.notifyUntil === undefined ? 0 : toInteger(keeping.notifyUntil),
      ...this.#database.ownColumns(approval, keeping),
    });
    await this.#database.announce(single(row.text, ...row.parameters));
  }

  async updateApproval(...approvals: readonly Approval[]): Promise<void> {
    for (const { state } of approvals) checkState(state);
    await this.#database.announce(updateStates(approvals));
  }

  async deleteApprovals(ids: readonly string[]): Promise<void> {
    const { isUnwanted, listed } = this.#database;
    const text = `DELETE FROM approvals WHERE ${isUnwanted} AND id IN (SELECT ${listed})`;
    await this.#database.change(single(text, JSON.stringify(ids)));
  }

  async claimNotifications({ now, until, limit }: NotificationClaim): Promise<readonly string[]> {
    const { select, skipLocked } = this.#database;
    const text = `UPDATE approvals SET notify_until = $2 WHERE id IN (
      SELECT id FROM approvals WHERE notify_until > 0 AND notify_until < $1 AND status = 'pending'
      ORDER BY notify_until LIMIT $3 ${skipLocked}) RETURNING ${select(["id"], [])}`;
    const claimed = await this.#database.change(single(text, toInteger(now), toInteger(until), limit));
    return claimed.map((row) => readText(row, "id"));
  }

  async endNotification(id: string): Promise<void> {
    await this.#database.change(single("UPDATE approvals SET notify_until = 0 WHERE id = $1", id));
  }

  async loadBaselines(): Promise<readonly Baseline[]> {
    return this.#known(await this.#database.read(single(this.#selectBaselines())));
  }

  /** Reads the baseline of one subject. */
  async readBaseline(subject: string): Promise<Baseline | undefined> {
    const text = `${this.#selectBaselines()} WHERE subject = $1`;
    return this.#known(await this.#database.read(single(text, subject)))[0];
  }

  async putBaseline(baseline: Baseline): Promise<void> {
    checkBaseline(baseline);
    this.#left.set(baseline.subject, await this.#database.change(this.#mergeBaseline(baseline)));
  }

  async deleteBaselines(subjects: readonly string[]): Promise<void> {
    await this.#database.change(this.#dropBaselines(subjects));
    for (const subject of subjects) this.#left.delete(subject);
  }

  close(): Promise<void> {
    return this.#database.close();
  }

  *#mergeBaseline(baseline: Baseline): Steps<{ readonly lastSeen: number; readonly isShared: boolean }> {
    const left = this.#left.get(baseline.subject);
    // Locks the row, also one that is new: of two that write at the same time the second adds to the first.
    const { text, parameters } = insertRow("baselines", encodeBaseline(baseline));
    const columns = this.#database.select(BASELINE_TEXTS, BASELINE_INTEGERS);
    const found = yield { text: `${text} ${LOCK_BASELINE} RETURNING ${columns}`, parameters };
    const [stored = baseline] = this.#database.readable(found, BASELINE_READER);
    const isShared = left === undefined || left.isShared || left.lastSeen !== stored.lastSeen;
    const kept = isShared ? merged(stored, baseline) : baseline;
    const { subject = "", last_seen = 0, hosts = "", commands = "" } = encodeBaseline(kept);
    yield { text: UPDATE_BASELINE, parameters: [subject, last_seen, hosts, commands] };
    // What this instance has put alone it may replace.
    return { lastSeen: kept.lastSeen, isShared: isShared && !isEqual(kept, baseline) };
  }

  *#dropBaselines(subjects: readonly string[]): Steps<void> {
    for (const subject of subjects) {
      const lastSeen = this.#left.get(subject)?.lastSeen ?? Number.MIN_SAFE_INTEGER;
      yield {
        text: "DELETE FROM baselines WHERE subject = $1 AND last_seen <= $2",
        parameters: [subject, lastSeen],
      };
    }
  }

  #selectBaselines(): string {
    return `SELECT ${this.#database.select(BASELINE_TEXTS, BASELINE_INTEGERS)} FROM baselines`;
  }

  #known(rows: readonly Row[]): readonly Baseline[] {
    const baselines = this.#database.readable(rows, BASELINE_READER);
    for (const { subject, lastSeen } of baselines) this.#left.set(subject, { lastSeen, isShared: false });
    return baselines;
  }
}

/** A transaction of one statement. */
export function* single(text: string, ...parameters: readonly (string | number)[]): Steps<readonly Row[]> {
  return yield { text, parameters };
}

/** Of two that decide or collect the same approval, in whatever instances, one finds it as it has to be for that. */
function* updateStates(approvals: readonly Approval[]): Steps<void> {
  for (const { id, state } of approvals) {
    const before = state.kind === "consumed" ? "approved" : "pending";
    const after = encodeState(state);
    const values = STATE_COLUMNS.map((name) => after[name] ?? "");
    const changed = yield { text: UPDATE_APPROVAL, parameters: [id, before, 0, ...values] };
    if (changed.length > 0) continue;
    const found = yield { text: "SELECT 1 FROM approvals WHERE id = $1", parameters: [id] };
    if (found.length === 0) throw new AppError("internal", "There is no approval with this id");
    if (state.kind === "consumed") throw new AppError("gone", "approval already used");
    throw new AppError("conflict", "approval already decided");
  }
}

/** The parameters of {@linkcode IS_KEPT}: the time, and when the oldest one without a timeout was created. */
function keptAt({ now, timeoutMs }: Timing): readonly number[] {
  return [toInteger(now), toInteger(now - 2 * timeoutMs)];
}

/** Of a time that may be before all times. */
export function toInteger(time: number): number {
  return Math.max(Number.MIN_SAFE_INTEGER, Math.floor(time));
}

/** What two instances know of a subject. Neither forgets for the other: of what is not known nothing is unusual. */
function merged(stored: Baseline, { subject, lastSeen, hosts, commands }: Baseline): Baseline {
  return {
    subject,
    lastSeen: Math.max(stored.lastSeen, lastSeen),
    hosts: [...new Set([...stored.hosts, ...hosts])],
    commands: [...new Set([...stored.commands, ...commands])],
  };
}

/** Whether the one that holds the other holds nothing more. */
function isEqual(whole: Baseline, part: Baseline): boolean {
  return whole.lastSeen === part.lastSeen && whole.hosts.length === part.hosts.length &&
    whole.commands.length === part.commands.length;
}
