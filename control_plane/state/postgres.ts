import { inEpoch, INSTANCE_TABLES, PostgresLink, readEpochs } from "@gateway/shared/instances";
import {
  ADD_OLDEST_COLUMN,
  POSTGRES,
  type PostgresDatabase,
  type PostgresSchema,
  type Steps,
} from "@gateway/shared/state";
import { perform, PostgresAccess } from "@gateway/shared/state/postgres_access";
import { APPROVALS, BASELINES } from "./rows.ts";
import { type ControlStore, type SharedApprovals, single, SqlControlStore, toInteger } from "./store.ts";

const columns = (texts: readonly string[], integers: readonly string[]) =>
  [
    ...texts.map((name) => `${name} text COLLATE "C" NOT NULL`),
    ...integers.map((name) => `${name} int8 NOT NULL`),
  ].join(",\n      ");

/** The columns that later migrations add. */
const ADDED = ["timeout_ms", "signed_approval", "proofs"];
const isFirst = (name: string) => !ADDED.includes(name);

/** The lists of columns are part of version 1: a new column is a migration. */
export const POSTGRES_SCHEMA: PostgresSchema = {
  name: "control_plane",
  owner: "control plane",
  migrations: [
    `${INSTANCE_TABLES}
    CREATE TABLE approvals (
      place int8 GENERATED ALWAYS AS IDENTITY,
      ${columns(APPROVALS.texts.filter(isFirst), APPROVALS.integers.filter(isFirst))},
      PRIMARY KEY (id)
    );
    CREATE INDEX approvals_created ON approvals (created_at);
    CREATE TABLE baselines (
      ${columns(BASELINES.texts, BASELINES.integers)},
      PRIMARY KEY (subject)
    );`,
    // The timeouts of existing approvals are unknown, so assume 30 days, in milliseconds.
    `ALTER TABLE approvals ADD kept_until int8;
    UPDATE approvals SET kept_until = created_at + 2592000000;
    ALTER TABLE approvals ALTER kept_until SET NOT NULL;`,
    // 0: the timeout of the deciding control plane applies.
    `ALTER TABLE approvals ADD timeout_ms int8 NOT NULL DEFAULT 0;`,
    // Until this time, the process that inserted or claimed the approval notifies approvers. 0: no
    // notification.
    `ALTER TABLE approvals ADD notify_until int8 NOT NULL DEFAULT 0;
    CREATE INDEX approvals_notify ON approvals (notify_until) WHERE notify_until > 0;`,
    ADD_OLDEST_COLUMN,
    // Until this time, only one instance may request a signature for the approval.
    `ALTER TABLE approvals ADD claimed_until int8 NOT NULL DEFAULT 0;`,
    `ALTER TABLE approvals ADD signed_approval text COLLATE "C" NOT NULL DEFAULT '';
    ALTER TABLE approvals ADD proofs text COLLATE "C" NOT NULL DEFAULT '';`,
  ],
  oldest: 5,
};

/** Milliseconds, by the clock that all instances share. */
const NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::int8";
/**
 * Claims a collection for 30 s, because a collection takes at most 10 s for each signer. If the claiming
 * control plane is killed, the others wait until the claim ends.
 */
const CLAIM_COLLECTION = `UPDATE approvals SET claimed_until = ${NOW} + 30000
  WHERE id = $1 AND status = 'approved' AND consumed = 0 AND claimed_until < ${NOW} RETURNING 1`;
const RELEASE_COLLECTION = "UPDATE approvals SET claimed_until = 0 WHERE id = $1";

/** Opens the store. @throws {AppError} `invalid_config` with cause and fix */
export async function openPostgresControlStore(
  database: PostgresDatabase,
): Promise<ControlStore & { readonly shared: SharedApprovals }> {
  const access = await PostgresAccess.open(POSTGRES_SCHEMA, database);
  const change = <T>(steps: Steps<T>) => access.change((query) => perform(query, steps));
  const store = new SqlControlStore({
    survivesRestart: true,
    select: POSTGRES.select,
    order: "place",
    // Another instance may have a longer timeout.
    isUnwanted: `kept_until < ${NOW}`,
    ownColumns: ({ createdAt }, { keptUntil = createdAt }) => ({ kept_until: toInteger(keptUntil) }),
    listed: "json_array_elements_text($1::text::json)",
    skipLocked: "FOR UPDATE SKIP LOCKED",
    read: (steps) => access.read((query) => perform(query, steps)),
    change,
    announce: (steps) =>
      access.change((query) =>
        inEpoch(query, { topic: "state", schema: POSTGRES_SCHEMA.name }, () => perform(query, steps))
      ),
    readable: (rows, reader) => access.readable(rows, reader),
    close: () => access.close(),
  });
  const shared: SharedApprovals = {
    schema: access.schemaVersion,
    connect: (onNotice) => PostgresLink.connect(access, POSTGRES_SCHEMA.name, onNotice),
    load: (link, timing) =>
      link.read(async (query) => {
        const loading = perform(query, store.selectApprovals(timing));
        const [epochs, approvals] = await Promise.all([readEpochs(query), loading]);
        return { epochs, approvals };
      }),
  };
  return Object.assign(store, {
    shared,
    claimCollection: async (id: string) => (await change(single(CLAIM_COLLECTION, id))).length === 1,
    releaseCollection: async (id: string) => void await change(single(RELEASE_COLLECTION, id)),
    findBaseline: (subject: string) => store.readBaseline(subject),
  });
}
