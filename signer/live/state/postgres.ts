/** State in a PostgreSQL database, shared by several signers. */
import { createHash } from "node:crypto";
import {
  type Epochs,
  inEpoch,
  type InstanceLink,
  PostgresLink,
  readEpochs,
  type Shared,
} from "@gateway/shared/instances";
import {
  checkStorable,
  insertRow,
  POSTGRES,
  type PostgresDatabase,
  readInteger,
  readText,
  readTime,
  type Row,
  selectAsBytes,
  type Steps,
} from "@gateway/shared/state";
import { perform, PostgresAccess } from "@gateway/shared/state/postgres_access";
import { LEASES, POSTGRES_SCHEMA } from "./schema.ts";
import { type SignerDatabase, SqlStateStore, type StateStore } from "./store.ts";

export type SharedState = ReturnType<typeof shareState>;
/** A store, and the state that signers share if several of them use the store. */
export type SignerStore = StateStore & { readonly shared?: SharedState };
export type PolicyVersions = ReturnType<typeof openPolicyVersions>;
export type PolicyChange = ReturnType<typeof readChange>;

export interface StoredDocument {
  /** SHA-256 of the document, stored with it; lowercase hex. */
  readonly sha256: string;
  /** JSON; absent if the reader already has the document with this SHA-256. */
  readonly document?: string;
}

export interface StoredPolicy extends StoredDocument {
  readonly version: number;
}

/**
 * Opens the store.
 *
 * @param instance the name of this instance among those that share the database
 * @throws {AppError} `invalid_config` with cause and fix if no server accepts the connection, or the tables are foreign
 */
export async function openPostgresStore(
  database: PostgresDatabase,
  instance: string,
): Promise<StateStore & { readonly shared: SharedState }> {
  const access = await PostgresAccess.open(POSTGRES_SCHEMA, database);
  const signerDatabase: SignerDatabase = {
    access,
    dialect: POSTGRES,
    survivesRestart: true,
    own: { instance },
    order: "epoch",
    // The instance that creates a Secret owns its name. Another instance that took over the lease of a silent
    // owner, or that still has it, may update the lease only if the lease is for the same Secret.
    mayReplaceLease: "leases.instance = excluded.instance OR excluded.uid = '' OR leases.uid = excluded.uid",
    read: (steps) => access.read((query) => perform(query, steps)),
    change: (topic, steps) =>
      access.change((query) => {
        if (topic === "own") return perform(query, steps({}));
        // Each change first locks the row of its topic, so that changes of all instances run one after
        // another.
        return inEpoch(
          query,
          { topic, schema: POSTGRES_SCHEMA.name },
          (epoch) => perform(query, steps({ instance, epoch: Number(epoch) })),
        );
      }),
  };
  const store = new SqlStateStore(signerDatabase);
  return Object.assign(store, { shared: shareState(access, store, signerDatabase, instance) });
}

const ADOPT_LEASES = `UPDATE leases SET instance = $1
  WHERE instance <> $1 AND instance NOT IN (SELECT name FROM instances)
  RETURNING ${selectAsBytes(LEASES.texts, LEASES.integers)}`;

function shareState(
  access: PostgresAccess,
  store: SqlStateStore,
  database: SignerDatabase,
  instance: string,
) {
  return {
    schema: access.schemaVersion,
    connect: (onNotice) => PostgresLink.connect(access, POSTGRES_SCHEMA.name, onNotice),
    policy: openPolicyVersions(database, instance),
    /** Each lease is adopted by exactly one instance. */
    adoptLeases: () =>
      access.change(async (query) => store.leases().read(await query(ADOPT_LEASES, [instance]))),
    /**
     * Reads, in one snapshot, what other instances have changed: certificates added since the last load, and the
     * decisions if their epoch has changed. Hosts with a known SHA-256 are omitted.
     */
    load: (
      link: InstanceLink,
      { seen, now, knownPolicies }: {
        readonly seen: Epochs;
        readonly now: number;
        readonly knownPolicies: readonly string[];
      },
    ) =>
      link.read(async (query) => {
        const since = Number(seen.certificates);
        const [epochs, certificates] = await Promise.all([
          readEpochs(query),
          perform(query, store.certificates(now, "epoch > $2 AND instance <> $3", since, instance)),
        ]);
        if (epochs.state === seen.state) return { epochs, certificates };
        const [decisions, policies] = await Promise.all([
          perform(query, store.decisions(now)),
          perform(query, readPolicies(knownPolicies)),
        ]);
        return { epochs, certificates, state: { ...decisions, ...policies } };
      }),
  } satisfies Shared & Record<string, unknown>;
}

const CHANGE = selectAsBytes(["made_by", "change"], ["version", "made_at"]);
/** The document is sent only if the reader does not know its SHA-256. */
const DOCUMENT = `convert_to(sha256, 'UTF8') AS sha256,
    convert_to(CASE WHEN sha256 = $1 OR sha256 = $2 THEN '' ELSE document END, 'UTF8') AS document`;
const NEWEST = `SELECT version, ${DOCUMENT} FROM policy_versions ORDER BY version DESC LIMIT 1`;
const PROPOSAL = `SELECT ${DOCUMENT} FROM policy_proposals`;
/** A stopped instance counts until the others have detected that it stopped. */
const PREPARED = `SELECT (SELECT count(*) FROM policy_proposals WHERE sha256 = $1) AS proposals,
  (SELECT count(*) FROM instances WHERE prepared <> $1 AND name <> $2) AS others`;

export function digestOf(document: string): string {
  return createHash("sha256").update(document).digest("hex");
}

function* readPolicies(
  known: readonly string[],
): Steps<{ readonly policy?: StoredPolicy; readonly proposal?: StoredDocument }> {
  const parameters = [known[0] ?? "", known[1] ?? ""];
  const documentOf = (row: Row): StoredDocument => {
    const sha256 = readText(row, "sha256");
    return { sha256, ...(!known.includes(sha256) && { document: readText(row, "document") }) };
  };
  const [newest, proposed] = yield [{ text: NEWEST, parameters }, { text: PROPOSAL, parameters }];
  const [policy, proposal] = [newest?.[0], proposed?.[0]];
  return {
    ...(policy !== undefined && {
      policy: { version: readInteger(policy, "version"), ...documentOf(policy) },
    }),
    ...(proposal !== undefined && { proposal: documentOf(proposal) }),
  };
}

/** The versions of the hosts that several signers share. A version is never changed or removed. */
function openPolicyVersions({ read, change }: SignerDatabase, instance: string) {
  const rows = (text: string, ...parameters: readonly (string | number)[]) =>
    read(function* (): Steps<readonly Row[]> {
      return (yield [{ text, parameters }])[0] ?? [];
    }());
  return {
    list: async () =>
      (await rows(`SELECT ${CHANGE} FROM policy_versions ORDER BY version DESC`)).map(readChange),

    async find(version: number) {
      const columns = `${CHANGE}, ${selectAsBytes(["document"], [])}`;
      const [row] = await rows(`SELECT ${columns} FROM policy_versions WHERE version = $1`, version);
      return row && { ...readChange(row), document: readText(row, "document") };
    },

    /**
     * Adds the version after `base`, or the first version if `base` is absent. Returns false if `base` is not
     * the newest version.
     *
     * @throws {AppError} `internal` if the version was not stored, `state_stale` if that is uncertain
     */
    async add({ base, document, madeBy, madeAt, ...next }: Omit<PolicyChange, "version"> & {
      readonly document: string;
      readonly base: Pick<StoredPolicy, "version" | "sha256"> | undefined;
    }): Promise<boolean> {
      checkStorable([document, madeBy, next.change]);
      // Take the number first: if two signers add a version concurrently, the second one sees the version of
      // the first.
      return await change("state", function* () {
        const { policy: newest } = yield* readPolicies([base?.sha256 ?? ""]);
        if (newest?.version !== base?.version || newest?.sha256 !== base?.sha256) return false;
        const version = (base?.version ?? 0) + 1;
        const made = { made_by: madeBy, change: next.change, made_at: Math.floor(madeAt / 1000) };
        yield [
          insertRow("policy_versions", { version, document, sha256: digestOf(document), ...made }),
          { text: "DELETE FROM policy_proposals" },
        ];
        return true;
      });
    },

    /**
     * Sends all instances the document that may become the next version, so that they compile it while the
     * newest version is in force. It replaces an earlier proposal. No request is decided by a proposal.
     */
    async propose(document: string): Promise<void> {
      checkStorable([document]);
      await change("state", function* () {
        yield [
          { text: "DELETE FROM policy_proposals" },
          insertRow("policy_proposals", { document, sha256: digestOf(document) }),
        ];
      });
    },

    /** Announces that this instance has prepared a proposal as far as it can. */
    async announcePrepared(sha256: string): Promise<void> {
      await change("own", function* () {
        yield [{
          text: "UPDATE instances SET prepared = $1 WHERE name = $2",
          parameters: [sha256, instance],
        }];
      });
    },

    /**
     * Whether the other instances have prepared a proposal; `replaced` if a later proposal has replaced it.
     */
    async findPrepared(sha256: string): Promise<"all" | "some" | "replaced"> {
      const [row] = await rows(PREPARED, sha256, instance);
      if (row === undefined || readInteger(row, "proposals") === 0) return "replaced";
      return readInteger(row, "others") === 0 ? "all" : "some";
    },
  };
}

function readChange(row: Row) {
  return {
    version: readInteger(row, "version"),
    /** The CN of the admin. */
    madeBy: readText(row, "made_by"),
    /** The kind of change, such as `import`. */
    change: readText(row, "change"),
    /** Milliseconds since the epoch, in whole seconds. */
    madeAt: readTime(row, "made_at", 1000),
  };
}
