/** State in a PostgreSQL database, shared by several control planes. */
import { AppError } from "@gateway/shared/errors";
import { inEpoch, INSTANCE_TABLES, PostgresLink, readEpochs } from "@gateway/shared/instances";
import {
  insertRow,
  type PostgresDatabase,
  type PostgresSchema,
  type Query,
  readText,
  SAY_OLDEST,
  selectAsBytes,
} from "@gateway/shared/state";
import { PostgresAccess } from "@gateway/shared/state/postgres_access";
import type { Approval } from "../approvals/approval.ts";
import type { Timing } from "../approvals/transitions.ts";
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
  FIRST_APPROVAL_INTEGERS,
  isKept,
  keptAt,
  STATE_COLUMNS,
  toInteger,
} from "./rows.ts";
import type { Keeping } from "../approvals/outcomes.ts";
import type { Baseline } from "../guardrails/tracker.ts";
import type { NotificationClaim } from "../notify/outbox.ts";
import type { ControlStore, SharedApprovals } from "./store.ts";

const columns = (texts: readonly string[], integers: readonly string[]) =>
  [
    ...texts.map((name) => `${name} text COLLATE "C" NOT NULL`),
    ...integers.map((name) => `${name} int8 NOT NULL`),
  ].join(",\n      ");

/** The schema of the control plane. The lists of columns are part of version 1: a new column is a migration. */
export const POSTGRES_SCHEMA: PostgresSchema = {
  name: "control_plane",
  owner: "control plane",
  migrations: [
    `${INSTANCE_TABLES}
    CREATE TABLE approvals (
      place int8 GENERATED ALWAYS AS IDENTITY,
      ${columns(APPROVAL_TEXTS, FIRST_APPROVAL_INTEGERS)},
      PRIMARY KEY (id)
    );
    CREATE INDEX approvals_created ON approvals (created_at);
    CREATE TABLE baselines (
      ${columns(BASELINE_TEXTS, BASELINE_INTEGERS)},
      PRIMARY KEY (subject)
    );`,
    // Nobody knows any more for how long they were to wait: 30 days, in milliseconds.
    `ALTER TABLE approvals ADD kept_until int8;
    UPDATE approvals SET kept_until = created_at + 2592000000;
    ALTER TABLE approvals ALTER kept_until SET NOT NULL;`,
    // 0: nobody has said, and each control plane says it for itself.
    `ALTER TABLE approvals ADD timeout_ms int8 NOT NULL DEFAULT 0;`,
    // Until when who inserted or claimed it tells approvers of it. 0: they were told, or don't have to be.
    `ALTER TABLE approvals ADD notify_until int8 NOT NULL DEFAULT 0;
    CREATE INDEX approvals_notify ON approvals (notify_until) WHERE notify_until > 0;`,
    SAY_OLDEST,
    // Until when an instance may sign the approval alone. 0: no instance signs it.
    `ALTER TABLE approvals ADD claimed_until int8 NOT NULL DEFAULT 0;`,
  ],
  oldest: 5,
};

/**
 * Opens the store.
 *
 * @throws {AppError} `invalid_config` with cause and remedy when no server takes it, or its tables are not ours
 */
export async function openPostgresControlStore(
  database: PostgresDatabase,
): Promise<ControlStore & { readonly shared: SharedApprovals }> {
  return new PostgresControlStore(await PostgresAccess.open(POSTGRES_SCHEMA, database));
}

const IS_KEPT = isKept("$1::int8", "$2::int8");
const SELECT_APPROVALS = `SELECT ${selectAsBytes(APPROVAL_TEXTS, APPROVAL_INTEGERS)} FROM approvals
  WHERE ${IS_KEPT} ORDER BY approvals.created_at, place`;
const UPDATE_APPROVAL = `UPDATE approvals SET ${
  STATE_COLUMNS.map((name, index) => `${name} = $${index + 4}`).join(", ")
} WHERE id = $1 AND status = $2 AND consumed = $3 RETURNING 1`;
const CLAIM_NOTIFICATIONS = claimStatement({
  ...{ now: "$1::int8", until: "$2::int8", limit: "$3::int8" },
  ...{ ids: selectAsBytes(["id"], []), lock: "FOR UPDATE SKIP LOCKED" },
});
/** In milliseconds, by the one clock that all instances have in common. */
const NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::int8";
/** Another instance may let requests wait for longer than this one. */
const UNWANTED = `kept_until < ${NOW}`;
/** A collection takes 10 s at most for each signer that is asked. If its control plane is killed, others wait for the rest. */
const CLAIM_COLLECTION = `UPDATE approvals SET claimed_until = ${NOW} + 30000
  WHERE id = $1 AND status = 'approved' AND consumed = 0 AND claimed_until < ${NOW} RETURNING 1`;
const BASELINE_COLUMNS = selectAsBytes(BASELINE_TEXTS, BASELINE_INTEGERS);
const SELECT_BASELINES = `SELECT ${BASELINE_COLUMNS} FROM baselines`;
const LOCK_BASELINE = "ON CONFLICT (subject) DO UPDATE SET last_seen = baselines.last_seen";
const UPDATE_BASELINE = "UPDATE baselines SET last_seen = $2, hosts = $3, commands = $4 WHERE subject = $1";

class PostgresControlStore implements ControlStore {
  readonly survivesRestart = true;
  readonly shared: SharedApprovals;
  readonly #access: PostgresAccess;
  /**
   * The last sight of each baseline as this instance has read or written it, and whether there is more in it than this
   * instance knows. A later one is of another instance.
   */
  readonly #left = new Map<string, { readonly lastSeen: number; readonly isShared: boolean }>();

  constructor(access: PostgresAccess) {
    this.#access = access;
    this.shared = {
      schema: access.schemaVersion,
      connect: (onNews) => PostgresLink.connect(access, POSTGRES_SCHEMA.name, onNews),
      load: (link, timing) =>
        link.read(async (query) => {
          const [epochs, approvals] = await Promise.all([readEpochs(query), this.#approvals(query, timing)]);
          return { epochs, approvals };
        }),
    };
  }

  loadApprovals(timing: Timing): Promise<readonly Approval[]> {
    return this.#access.change(async (query) => {
      const { now, createdFrom } = keptAt(timing);
      await query(`DELETE FROM approvals WHERE NOT ${IS_KEPT} AND ${UNWANTED}`, [now, createdFrom]);
      return await this.#approvals(query, timing);
    });
  }

  async insertApproval(approval: Approval, { keptUntil, notifyUntil }: Keeping = {}): Promise<void> {
    checkApproval(approval);
    checkState(approval.state);
    const { text, parameters } = insertRow("approvals", {
      ...encodeKept(approval, notifyUntil),
      kept_until: toInteger(keptUntil ?? approval.createdAt),
    });
    await this.#change((query) => query(text, parameters));
  }

  async updateApproval(...approvals: readonly Approval[]): Promise<void> {
    const changes = approvals.map((approval) => {
      checkState(approval.state);
      return { approval, before: stateBefore(approval), after: encodeState(approval.state) };
    });
    await this.#change(async (query) => {
      for (const { approval, before, after } of changes) {
        const parameters = [approval.id, before.status, before.consumed];
        const changed = await query(UPDATE_APPROVAL, [
          ...parameters,
          ...STATE_COLUMNS.map((name) => after[name] ?? ""),
        ]);
        if (changed.length === 0) throw await lost(query, approval);
      }
    });
  }

  claimCollection(id: string): Promise<boolean> {
    return this.#access.change(async (query) => (await query(CLAIM_COLLECTION, [id])).length === 1);
  }

  releaseCollection(id: string): Promise<void> {
    return this.#access.change(async (query) => {
      await query("UPDATE approvals SET claimed_until = 0 WHERE id = $1", [id]);
    });
  }

  deleteApprovals(ids: readonly string[]): Promise<void> {
    return this.#access.change(async (query) => {
      await query(
        `DELETE FROM approvals WHERE ${UNWANTED} AND id IN (SELECT json_array_elements_text($1::text::json))`,
        [JSON.stringify(ids)],
      );
    });
  }

  claimNotifications({ now, until, limit }: NotificationClaim): Promise<readonly string[]> {
    return this.#access.change(async (query) => {
      const claimed = await query(CLAIM_NOTIFICATIONS, [toInteger(now), toInteger(until), limit]);
      return claimed.map((row) => readText(row, "id"));
    });
  }

  endNotification(id: string): Promise<void> {
    return this.#access.change(async (query) => {
      await query("UPDATE approvals SET notify_until = 0 WHERE id = $1", [id]);
    });
  }

  async loadBaselines(): Promise<readonly Baseline[]> {
    const baselines = await this.#access.read(async (query) =>
      this.#access.readable(await query(SELECT_BASELINES), BASELINE_READER)
    );
    for (const { subject, lastSeen } of baselines) this.#left.set(subject, { lastSeen, isShared: false });
    return baselines;
  }

  async findBaseline(subject: string): Promise<Baseline | undefined> {
    const [baseline] = await this.#access.read(async (query) =>
      this.#access.readable(await query(`${SELECT_BASELINES} WHERE subject = $1`, [subject]), BASELINE_READER)
    );
    if (baseline !== undefined) this.#left.set(subject, { lastSeen: baseline.lastSeen, isShared: false });
    return baseline;
  }

  async putBaseline(baseline: Baseline): Promise<void> {
    checkBaseline(baseline);
    const left = this.#left.get(baseline.subject);
    const written = await this.#access.change(async (query) => {
      // Locks the row, also one that is new: of two that write at the same time the second adds to the first.
      const { text, parameters } = insertRow("baselines", encodeBaseline(baseline));
      const found = await query(`${text} ${LOCK_BASELINE} RETURNING ${BASELINE_COLUMNS}`, parameters);
      const [stored = baseline] = this.#access.readable(found, BASELINE_READER);
      const isShared = left === undefined || left.isShared || left.lastSeen !== stored.lastSeen;
      const kept = isShared ? merged(stored, baseline) : baseline;
      const { subject, last_seen, hosts, commands } = encodeBaseline(kept);
      await query(UPDATE_BASELINE, [subject ?? "", last_seen ?? 0, hosts ?? "", commands ?? ""]);
      // What this instance has put alone it may replace.
      return { lastSeen: kept.lastSeen, isShared: isShared && !isEqual(kept, baseline) };
    });
    this.#left.set(baseline.subject, written);
  }

  async deleteBaselines(subjects: readonly string[]): Promise<void> {
    await this.#access.change(async (query) => {
      for (const subject of subjects) {
        const lastSeen = this.#left.get(subject)?.lastSeen ?? Number.MIN_SAFE_INTEGER;
        await query("DELETE FROM baselines WHERE subject = $1 AND last_seen <= $2", [subject, lastSeen]);
      }
    });
    for (const subject of subjects) this.#left.delete(subject);
  }

  close(): Promise<void> {
    return this.#access.close();
  }

  async #change(action: (query: Query) => Promise<unknown>): Promise<void> {
    await this.#access.change((query) =>
      inEpoch(query, { topic: "state", schema: POSTGRES_SCHEMA.name }, () => action(query))
    );
  }

  async #approvals(query: Query, timing: Timing): Promise<readonly Approval[]> {
    const { now, createdFrom } = keptAt(timing);
    return this.#access.readable(await query(SELECT_APPROVALS, [now, createdFrom]), APPROVAL_READER);
  }
}

/** What an approval has to be for a change: of two that decide or collect, in whatever instances, one finds it so. */
function stateBefore({ state }: Approval): { readonly status: string; readonly consumed: number } {
  return { status: state.kind === "consumed" ? "approved" : "pending", consumed: 0 };
}

/** What two instances know of a subject. Neither forgets for the other: of what is not known nothing is unusual. */
function merged(
  stored: Baseline,
  { subject, lastSeen, hosts, commands }: Baseline,
): Baseline {
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

async function lost(query: Query, { id, state }: Approval): Promise<AppError> {
  const found = await query("SELECT 1 FROM approvals WHERE id = $1", [id]);
  if (found.length === 0) return new AppError("internal", "There is no approval with this id");
  if (state.kind === "consumed") return new AppError("gone", "approval already used");
  return new AppError("conflict", "approval already decided");
}
