/** State in a PostgreSQL database, shared by several control planes. */
import { AppError } from "@gateway/shared/errors";
import { inEpoch, INSTANCE_TABLES, PostgresLink, readEpochs } from "@gateway/shared/instances/postgres_link";
import { insertRow, selectAsBytes } from "@gateway/shared/state/columns";
import { PostgresAccess, type PostgresDatabase, type Query } from "@gateway/shared/state/postgres_access";
import type { PostgresSchema } from "@gateway/shared/state/postgres_schema";
import type { Approval } from "../approval/approval.ts";
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
import type { ControlStore, SharedApprovals, StoredBaseline } from "./store.ts";

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
      ${columns(APPROVAL_TEXTS, APPROVAL_INTEGERS)},
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
  ],
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

const SELECT_APPROVALS = `SELECT ${selectAsBytes(APPROVAL_TEXTS, APPROVAL_INTEGERS)} FROM approvals
  WHERE approvals.created_at > $1 ORDER BY approvals.created_at, place`;
const UPDATE_APPROVAL = `UPDATE approvals SET ${
  STATE_COLUMNS.map((name, index) => `${name} = $${index + 4}`).join(", ")
} WHERE id = $1 AND status = $2 AND consumed = $3 RETURNING 1`;
/** Another instance may let requests wait for longer than this one. By the one clock that they have in common. */
const UNWANTED = "kept_until < extract(epoch FROM clock_timestamp()) * 1000";
const SELECT_BASELINES = `SELECT ${selectAsBytes(BASELINE_TEXTS, BASELINE_INTEGERS)} FROM baselines`;

class PostgresControlStore implements ControlStore {
  readonly survivesRestart = true;
  readonly shared: SharedApprovals;
  readonly #access: PostgresAccess;

  constructor(access: PostgresAccess) {
    this.#access = access;
    this.shared = {
      schema: access.schemaVersion,
      connect: async (onChange) => new PostgresLink(await access.connect(onChange), POSTGRES_SCHEMA.name),
      load: (link, createdAfter) =>
        link.read(async (query) => ({
          epochs: await readEpochs(query),
          approvals: await this.#approvals(query, createdAfter),
        })),
    };
  }

  loadApprovals(createdAfter: number): Promise<readonly Approval[]> {
    return this.#access.change(async (query) => {
      await query(`DELETE FROM approvals WHERE created_at <= $1 AND ${UNWANTED}`, [toInteger(createdAfter)]);
      return await this.#approvals(query, createdAfter);
    });
  }

  async insertApproval(approval: Approval, keptUntil = approval.createdAt): Promise<void> {
    checkApproval(approval);
    checkState(approval.state);
    const { text, parameters } = insertRow("approvals", {
      ...encodeApproval(approval),
      kept_until: toInteger(keptUntil),
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

  deleteApprovals(ids: readonly string[]): Promise<void> {
    return this.#access.change(async (query) => {
      await query(
        `DELETE FROM approvals WHERE ${UNWANTED} AND id IN (SELECT json_array_elements_text($1::text::json))`,
        [JSON.stringify(ids)],
      );
    });
  }

  loadBaselines(): Promise<readonly StoredBaseline[]> {
    return this.#access.read(async (query) =>
      this.#access.readable(await query(SELECT_BASELINES), BASELINE_READER)
    );
  }

  async putBaseline(baseline: StoredBaseline): Promise<void> {
    checkBaseline(baseline);
    const { text, parameters } = insertRow("baselines", encodeBaseline(baseline));
    const replaced = ["last_seen", "hosts", "commands"].map((name) => `${name} = excluded.${name}`).join(
      ", ",
    );
    await this.#access.change((query) =>
      query(`${text} ON CONFLICT (subject) DO UPDATE SET ${replaced}`, parameters)
    );
  }

  deleteBaselines(subjects: readonly string[]): Promise<void> {
    return this.#access.change(async (query) => {
      for (const subject of subjects) await query("DELETE FROM baselines WHERE subject = $1", [subject]);
    });
  }

  close(): Promise<void> {
    return this.#access.close();
  }

  async #change(action: (query: Query) => Promise<unknown>): Promise<void> {
    await this.#access.change((query) =>
      inEpoch(query, { topic: "state", schema: POSTGRES_SCHEMA.name }, () => action(query))
    );
  }

  async #approvals(query: Query, createdAfter: number): Promise<readonly Approval[]> {
    return this.#access.readable(await query(SELECT_APPROVALS, [toInteger(createdAfter)]), APPROVAL_READER);
  }
}

/** What an approval has to be for a change: of two that decide or collect, in whatever instances, one finds it so. */
function stateBefore({ state }: Approval): { readonly status: string; readonly consumed: number } {
  return { status: state.kind === "consumed" ? "approved" : "pending", consumed: 0 };
}

async function lost(query: Query, { id, state }: Approval): Promise<AppError> {
  const found = await query("SELECT 1 FROM approvals WHERE id = $1", [id]);
  if (found.length === 0) return new AppError("internal", "There is no approval with this id");
  if (state.kind === "consumed") return new AppError("gone", "approval already used");
  return new AppError("conflict", "approval already decided");
}

/** Of a time that may be before all times. */
function toInteger(time: number): number {
  return Math.max(Number.MIN_SAFE_INTEGER, Math.floor(time));
}
