/** State in a PostgreSQL database, shared by several control planes. */
import { inEpoch, INSTANCE_TABLES, PostgresLink, readEpochs } from "@gateway/shared/instances";
import {
  type PostgresDatabase,
  type PostgresSchema,
  type Query,
  SAY_OLDEST,
  selectAsBytes,
} from "@gateway/shared/state";
import { PostgresAccess } from "@gateway/shared/state/postgres_access";
import { APPROVAL_TEXTS, BASELINE_INTEGERS, BASELINE_TEXTS, FIRST_APPROVAL_INTEGERS } from "./rows.ts";
import {
  type ControlStore,
  type SharedApprovals,
  single,
  SqlControlStore,
  type Steps,
  toInteger,
} from "./store.ts";

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

/** In milliseconds, by the one clock that all instances have in common. */
const NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::int8";
/** A collection takes 10 s at most for each signer that is asked. If its control plane is killed, others wait for the rest. */
const CLAIM_COLLECTION = `UPDATE approvals SET claimed_until = ${NOW} + 30000
  WHERE id = $1 AND status = 'approved' AND consumed = 0 AND claimed_until < ${NOW} RETURNING 1`;
const RELEASE_COLLECTION = "UPDATE approvals SET claimed_until = 0 WHERE id = $1";

/**
 * Opens the store.
 *
 * @throws {AppError} `invalid_config` with cause and remedy when no server takes it, or its tables are not ours
 */
export async function openPostgresControlStore(
  database: PostgresDatabase,
): Promise<ControlStore & { readonly shared: SharedApprovals }> {
  const access = await PostgresAccess.open(POSTGRES_SCHEMA, database);
  const change = <T>(steps: Steps<T>) => access.change((query) => run(query, steps));
  const store = new SqlControlStore({
    survivesRestart: true,
    select: selectAsBytes,
    order: "place",
    // Another instance may let requests wait for longer than this one.
    isUnwanted: `kept_until < ${NOW}`,
    ownColumns: ({ createdAt }, { keptUntil = createdAt }) => ({ kept_until: toInteger(keptUntil) }),
    listed: "json_array_elements_text($1::text::json)",
    skipLocked: "FOR UPDATE SKIP LOCKED",
    read: (steps) => access.read((query) => run(query, steps)),
    change,
    announce: (steps) =>
      access.change((query) =>
        inEpoch(query, { topic: "state", schema: POSTGRES_SCHEMA.name }, () => run(query, steps))
      ),
    readable: (rows, reader) => access.readable(rows, reader),
    close: () => access.close(),
  });
  const shared: SharedApprovals = {
    schema: access.schemaVersion,
    connect: (onNews) => PostgresLink.connect(access, POSTGRES_SCHEMA.name, onNews),
    load: (link, timing) =>
      link.read(async (query) => {
        const approvals = run(query, store.selectApprovals(timing));
        const [epochs, loaded] = await Promise.all([readEpochs(query), approvals]);
        return { epochs, approvals: loaded };
      }),
  };
  return Object.assign(store, {
    shared,
    claimCollection: async (id: string) => (await change(single(CLAIM_COLLECTION, id))).length === 1,
    releaseCollection: async (id: string) => void await change(single(RELEASE_COLLECTION, id)),
    findBaseline: (subject: string) => store.readBaseline(subject),
  });
}

async function run<T>(query: Query, steps: Steps<T>): Promise<T> {
  let step = steps.next();
  while (step.done !== true) step = steps.next(await query(step.value.text, step.value.parameters));
  return step.value;
}
