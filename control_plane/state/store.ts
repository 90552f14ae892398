import { AppError } from "@gateway/shared/errors";
import type { Epochs, InstanceLink, Shared } from "@gateway/shared/instances";
import {
  type Dialect,
  insertRow,
  type Parameters,
  readText,
  type Row,
  type RowReader,
  type Steps,
} from "@gateway/shared/state";
import type { Approval, ApprovalState, Timing } from "../approvals/approval.ts";
import type { ApprovalStore, RetentionOptions } from "../approvals/outcomes.ts";
import type { BaselineStore } from "../guardrails/guardrails.ts";
import type { Baseline } from "../guardrails/tracker.ts";
import type { NotificationClaim, NotificationStore } from "../notify/outbox.ts";
import {
  APPROVAL_READER,
  APPROVALS,
  BASELINE_READER,
  BASELINES,
  encodeApproval,
  encodeEarlierProofs,
  encodeState,
} from "./rows.ts";

export interface SharedApprovals extends Shared {
  /** The approvals that are not purgeable, the oldest first, as they were at one moment. */
  load(
    link: InstanceLink,
    timing: Timing,
  ): Promise<{ readonly epochs: Epochs; readonly approvals: readonly Approval[] }>;
}

/**
 * Keeps approvals and baselines for the next start. Every change is all or nothing, and committed when its promise
 * resolves: a process that is killed later does not lose it.
 */
export interface ControlStore extends ApprovalStore, NotificationStore, BaselineStore {
  /**
   * Present if other instances may change the store. Then exactly one instance makes each change of an
   * approval.
   */
  readonly shared?: SharedApprovals;

  close(): Promise<void>;
}

/** The operations and SQL texts that differ between SQLite and PostgreSQL. */
interface ControlDatabase {
  readonly survivesRestart: boolean;
  readonly select: Dialect["select"];
  /** The column that orders approvals of one millisecond. */
  readonly order: string;
  /** The SQL condition for approvals that no other instance needs. */
  readonly isUnwanted: string;
  /** Columns of a new approval that only this database has. */
  readonly ownColumns: (approval: Approval, keeping: RetentionOptions) => Parameters;
  /** The SQL that expands the JSON list of texts in `$1`. */
  readonly listed: string;
  /** The SQL that prevents two instances from claiming the same row. */
  readonly skipLocked: string;
  read<T>(steps: Steps<T>): Promise<T>;
  change<T>(steps: Steps<T>): Promise<T>;
  /** Changes approvals, and wakes the instances that share them. */
  announce<T>(steps: Steps<T>): Promise<T>;
  /** The rows as values; an unreadable one is left out with a warning. */
  readable<T>(rows: readonly Row[], reader: RowReader<T>): readonly T[];
  close(): Promise<void>;
}

/** The negation of `isPurgeable()`, with the parameters of {@linkcode keptAt}. */
const IS_KEPT = "CASE WHEN timeout_ms = 0 THEN created_at >= $2 ELSE created_at + 2 * timeout_ms >= $1 END";

/** The one store of a control plane: over SQLite for one process, over PostgreSQL for several. */
export class SqlControlStore implements ControlStore {
  readonly #database: ControlDatabase;
  /**
   * For each baseline: the time of the last request as this instance read or wrote it, and whether the stored
   * baseline contains more than this instance knows. A later stored time was written by another instance.
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
    yield* single(text, ...keptAt(timing));
    return yield* this.selectApprovals(timing);
  }

  /** Reads the approvals that are not purgeable, the oldest first. */
  *selectApprovals(timing: Timing): Steps<readonly Approval[]> {
    const { select, order } = this.#database;
    const text = `SELECT ${select(APPROVALS.texts, APPROVALS.integers)} FROM approvals WHERE ${IS_KEPT}
      ORDER BY approvals.created_at, ${order}`;
    return this.#database.readable(yield* single(text, ...keptAt(timing)), APPROVAL_READER);
  }

  async insertApproval(approval: Approval, keeping: RetentionOptions = {}): Promise<void> {
    const { text, parameters } = insertRow("approvals", {
      ...encodeApproval(approval),
      notify_until: toInteger(keeping.notifyUntil ?? 0),
      ...this.#database.ownColumns(approval, keeping),
    });
    await this.#database.announce(single(text, ...parameters));
  }

  async updateApproval(...approvals: readonly Approval[]): Promise<void> {
    const changes = approvals.map(({ id, state }) => ({ id, state, row: encodeState(state) }));
    await this.#database.announce(updateStates(changes));
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

  loadBaselines(): Promise<readonly Baseline[]> {
    return this.#baselines("");
  }

  async readBaseline(subject: string): Promise<Baseline | undefined> {
    return (await this.#baselines("WHERE subject = $1", subject))[0];
  }

  async #baselines(condition: string, ...parameters: readonly string[]): Promise<readonly Baseline[]> {
    const text = `SELECT ${this.#baselineColumns()} FROM baselines ${condition}`;
    const rows = await this.#database.read(single(text, ...parameters));
    const baselines = this.#database.readable(rows, BASELINE_READER);
    for (const { subject, lastSeen } of baselines) this.#left.set(subject, { lastSeen, isShared: false });
    return baselines;
  }

  async putBaseline(baseline: Baseline): Promise<void> {
    this.#left.set(
      baseline.subject,
      await this.#database.change(this.#mergeBaseline(baseline, BASELINES.encode(baseline))),
    );
  }

  async deleteBaselines(subjects: readonly string[]): Promise<void> {
    await this.#database.change(this.#dropBaselines(subjects));
    for (const subject of subjects) this.#left.delete(subject);
  }

  close(): Promise<void> {
    return this.#database.close();
  }

  #baselineColumns(): string {
    return this.#database.select(BASELINES.texts, BASELINES.integers);
  }

  *#mergeBaseline(
    baseline: Baseline,
    row: Parameters,
  ): Steps<{ readonly lastSeen: number; readonly isShared: boolean }> {
    const left = this.#left.get(baseline.subject);
    const { text, parameters } = insertRow("baselines", row);
    // Lock the row, even a new one, so that the second of two concurrent writers adds to the result of the
    // first.
    const lock = `ON CONFLICT (subject) DO UPDATE SET last_seen = baselines.last_seen`;
    const found = yield* single(`${text} ${lock} RETURNING ${this.#baselineColumns()}`, ...parameters);
    const [stored = baseline] = this.#database.readable(found, BASELINE_READER);
    const isShared = left === undefined || left.isShared || left.lastSeen !== stored.lastSeen;
    const kept = isShared ? merged(stored, baseline) : baseline;
    const { subject = "", last_seen = 0, hosts = "", commands = "" } = BASELINES.encode(kept);
    const update = "UPDATE baselines SET last_seen = $2, hosts = $3, commands = $4 WHERE subject = $1";
    yield* single(update, subject, last_seen, hosts, commands);
    const isWhole = kept.lastSeen === baseline.lastSeen && kept.hosts.length === baseline.hosts.length &&
      kept.commands.length === baseline.commands.length;
    // A baseline that only this instance has written may be replaced.
    return { lastSeen: kept.lastSeen, isShared: isShared && !isWhole };
  }

  *#dropBaselines(subjects: readonly string[]): Steps<void> {
    for (const subject of subjects) {
      const lastSeen = this.#left.get(subject)?.lastSeen ?? Number.MIN_SAFE_INTEGER;
      yield* single("DELETE FROM baselines WHERE subject = $1 AND last_seen <= $2", subject, lastSeen);
    }
  }
}

/** A transaction of one statement. */
export function* single(text: string, ...parameters: readonly (string | number)[]): Steps<readonly Row[]> {
  const [rows = []] = yield [{ text, parameters }];
  return rows;
}

/** If two instances decide or collect an approval, only one of them finds it in the previous state. */
function* updateStates(
  changes: readonly { readonly id: string; readonly state: ApprovalState; readonly row: Parameters }[],
): Steps<void> {
  for (const { id, state, row } of changes) {
    const before = state.kind === "consumed" ? "approved" : "pending";
    const columns = Object.keys(row).map((name, index) => `${name} = $${index + 3}`).join(", ");
    const values = Object.values(row);
    // Of two approvers who sign at the same time, the second has to sign again.
    const earlier = encodeEarlierProofs(state);
    const unsigned = earlier === undefined ? "" : `AND proofs = $${values.length + 3}`;
    const text =
      `UPDATE approvals SET ${columns} WHERE id = $1 AND status = $2 AND consumed = 0 ${unsigned} RETURNING 1`;
    const parameters = [id, before, ...values, ...(earlier === undefined ? [] : [earlier])];
    if ((yield* single(text, ...parameters)).length > 0) continue;
    if ((yield* single("SELECT 1 FROM approvals WHERE id = $1", id)).length === 0) {
      throw new AppError("internal", "There is no approval with this id");
    }
    if (state.kind === "consumed") throw new AppError("gone", "approval already used");
    throw new AppError("conflict", "approval already decided, or signed by another approver meanwhile");
  }
}

/** The parameters of {@linkcode IS_KEPT}: the time, and the earliest creation of an approval without a timeout. */
function keptAt({ now, timeoutMs }: Timing): readonly number[] {
  return [toInteger(now), toInteger(now - 2 * timeoutMs)];
}

/**
 * Rounds a time down to an integer that the database can store. `-Infinity` becomes the smallest safe
 * integer.
 */
export function toInteger(time: number): number {
  return Math.max(Number.MIN_SAFE_INTEGER, Math.floor(time));
}

/**
 * Merges the baselines of two instances. Neither instance removes entries of the other, because every request
 * of an unknown subject counts as usual.
 */
function merged(stored: Baseline, { subject, lastSeen, hosts, commands }: Baseline): Baseline {
  return {
    subject,
    lastSeen: Math.max(stored.lastSeen, lastSeen),
    hosts: [...new Set([...stored.hosts, ...hosts])],
    commands: [...new Set([...stored.commands, ...commands])],
  };
}
