/**
 * State in a PostgreSQL database, shared by several signers.
 *
 * ```ts ignore
 * import { openPostgresStore } from "./postgres.ts";
 *
 * const store = await openPostgresStore({ settings: config, clock, warn: console.warn });
 * ```
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import type { Grant } from "@gateway/shared/policy";
import { inEpoch, PostgresLink, readEpochs } from "@gateway/shared/instances";
import {
  insertRow,
  type PostgresDatabase,
  type Query,
  readInteger,
  type Row,
  selectAsBytes,
  showText,
} from "@gateway/shared/state";
import { insertRows, PostgresAccess } from "@gateway/shared/state/postgres_access";
import type { FreezeSubject } from "@gateway/shared/wire";
import { type Freeze, isSameSubject, isScopedTo } from "../freezes.ts";
import type { Lease } from "../lease.ts";
import type { IssuedBatch } from "../krl/issued.ts";
import { CLOCK_SKEW_SECONDS, type KeptRevocation, REVOCATION_SECONDS } from "../krl/revocations.ts";
import { POSTGRES_SCHEMA } from "./postgres_migrations.ts";
import {
  CERTIFICATE_INTEGERS,
  CERTIFICATE_TEXTS,
  decodeCertificates,
  decodeFreeze,
  decodeLease,
  decodeRevocation,
  encodeCertificates,
  encodeFreeze,
  encodeGrant,
  encodeLease,
  encodeRevocation,
  FREEZE_INTEGERS,
  FREEZE_TEXTS,
  GRANT_INTEGERS,
  GRANT_READER,
  GRANT_TEXTS,
  LEASE_INTEGERS,
  LEASE_TEXTS,
  REVOCATION_INTEGERS,
  REVOCATION_TEXTS,
} from "./rows.ts";
import { PostgresPolicyVersions, readPolicies } from "./postgres_policy.ts";
import type { SharedDecisions, SharedState, StateStore } from "../store.ts";

/**
 * Opens the store.
 *
 * @param instance the name of this one among those that share it
 * @throws {AppError} `invalid_config` with cause and remedy when no server takes it, or its tables are not ours
 */
export async function openPostgresStore(
  database: PostgresDatabase,
  instance: string,
): Promise<StateStore & { readonly shared: SharedState }> {
  return new PostgresStore(await PostgresAccess.open(POSTGRES_SCHEMA, database), instance);
}

const SELECT_GRANTS = `SELECT ${selectAsBytes(GRANT_TEXTS, GRANT_INTEGERS)} FROM grants
  WHERE expires_at > $1 ORDER BY granted_at, grants.id`;
const SELECT_FREEZES = `SELECT ${selectAsBytes(FREEZE_TEXTS, FREEZE_INTEGERS)} FROM freezes`;
const SELECT_CERTIFICATES = `SELECT ${
  selectAsBytes(CERTIFICATE_TEXTS, CERTIFICATE_INTEGERS)
} FROM certificates
  WHERE valid_before > $1 AND epoch > $2 AND instance <> $3 ORDER BY epoch`;
/** Whoever writes last may have revoked first: what was revoked until then stays so. */
const LATER_REVOCATION = `ON CONFLICT (kind, value)
  DO UPDATE SET revoked_at = greatest(revocations.revoked_at, excluded.revoked_at)`;
/** No instance has it. */
const NOBODY = "";
const SELECT_REVOCATIONS = `SELECT ${selectAsBytes(REVOCATION_TEXTS, REVOCATION_INTEGERS)} FROM revocations
  WHERE revoked_at > $1`;
const SELECT_LEASES = `SELECT ${selectAsBytes(LEASE_TEXTS, LEASE_INTEGERS)} FROM leases WHERE instance = $1`;
const ADOPT_LEASES = `UPDATE leases SET instance = $1
  WHERE instance <> $1 AND instance NOT IN (SELECT name FROM instances)
  RETURNING ${selectAsBytes(LEASE_TEXTS, LEASE_INTEGERS)}`;
/**
 * Whoever makes a Secret has its name from there on; who took the lease over while its owner was silent, or has it
 * still, writes to it only while it is of the same Secret.
 */
const OR_REPLACE_LEASE = `ON CONFLICT (cluster, name) DO UPDATE SET
    (namespace, uid, caller, end_user, peers, expires_at, instance) = (excluded.namespace, excluded.uid,
      excluded.caller, excluded.end_user, excluded.peers, excluded.expires_at, excluded.instance)
  WHERE leases.instance = excluded.instance OR excluded.uid = '' OR leases.uid = excluded.uid
  RETURNING 1`;

/** What names their subjects; a database can't fold names as we do. */
const SELECT_SCOPES = `SELECT ${selectAsBytes(["id", "caller", "end_user"], [])} FROM grants
  WHERE grants.caller <> '' OR grants.end_user <> ''`;
const SELECT_SUBJECTS = `SELECT ${selectAsBytes(["value"], [])} FROM freezes WHERE kind = $1`;

class PostgresStore implements StateStore {
  readonly survivesRestart = true;
  readonly shared: SharedState;
  readonly #access: PostgresAccess;
  readonly #instance: string;

  constructor(access: PostgresAccess, instance: string) {
    this.#access = access;
    this.#instance = instance;
    this.shared = {
      schema: access.schemaVersion,
      policy: new PostgresPolicyVersions(access, instance),
      adoptLeases: () => access.change((query) => this.#leases(query, ADOPT_LEASES)),
      load: (link, { seen, now, knownPolicies }) =>
        link.read(async (query) => {
          const since = seen.certificates;
          const [epochs, certificates] = await Promise.all([
            readEpochs(query),
            this.#certificates(query, { now, since, not: this.#instance }),
          ]);
          if (epochs.state === seen.state) return { epochs, certificates };
          return { epochs, certificates, state: await this.#decisions(query, { now, knownPolicies }) };
        }),
      connect: (onNews) => PostgresLink.connect(access, POSTGRES_SCHEMA.name, onNews),
    };
  }

  loadGrants(now: number): Promise<readonly Grant[]> {
    return this.#access.read((query) => this.#grants(query, now));
  }

  async insertGrant(grant: Grant, replaces: readonly string[] = []): Promise<void> {
    const { text, parameters } = insertRow("grants", encodeGrant(grant));
    await this.#change("state", async (query) => {
      for (const id of replaces) await deleteGrant(query, id);
      await query(text, parameters);
    });
  }

  deleteGrant(id: string): Promise<boolean> {
    return this.#change("state", (query) => deleteGrant(query, id));
  }

  purgeExpired(now: number): Promise<number> {
    const seconds = Math.floor(now / 1000);
    return this.#access.change(async (query) => {
      await query("DELETE FROM certificates WHERE valid_before <= $1", [lastEnd(now)]);
      await query("DELETE FROM revocations WHERE revoked_at <= $1", [seconds - REVOCATION_SECONDS]);
      return (await query("DELETE FROM grants WHERE expires_at <= $1 RETURNING 1", [seconds])).length;
    });
  }

  loadFreezes(): Promise<readonly Freeze[]> {
    return this.#access.read((query) => this.#freezes(query));
  }

  async putFreeze(freeze: Freeze): Promise<void> {
    const { text, parameters } = insertRow("freezes", encodeFreeze(freeze));
    await this.#change("state", async (query) => {
      await deleteFreezes(query, freeze);
      await query(text, parameters);
      await deleteGrantsOf(query, freeze);
    });
  }

  deleteFreeze(subject: FreezeSubject): Promise<boolean> {
    return this.#change("state", async (query) => {
      if (!await deleteFreezes(query, subject)) return false;
      await deleteGrantsOf(query, subject);
      return true;
    });
  }

  loadCertificates(now: number): Promise<readonly IssuedBatch[]> {
    return this.#access.read((query) => this.#certificates(query, { now, since: 0n, not: NOBODY }));
  }

  async addCertificates(batches: readonly IssuedBatch[]): Promise<void> {
    const instance = this.#instance;
    const rows = batches.map(encodeCertificates);
    if (rows.length === 0) return;
    await this.#change(
      "certificates",
      (query, epoch) =>
        insertRows(query, "certificates", rows.map((row) => ({ ...row, instance, epoch: Number(epoch) }))),
    );
  }

  loadRevocations(since: number): Promise<readonly KeptRevocation[]> {
    return this.#access.read((query) => this.#revocations(query, since));
  }

  async putRevocations(revocations: readonly KeptRevocation[], version?: number): Promise<number> {
    const rows = latestOf(revocations).map(encodeRevocation);
    return await this.#change("state", async (query) => {
      // Another instance may be further.
      const raise = "UPDATE krl SET version = greatest(version + 1, $1)";
      const [, , krlVersion] = await Promise.all([
        insertRows(query, "revocations", rows, LATER_REVOCATION),
        version === undefined ? undefined : query(raise, [version]),
        this.#krlVersion(query),
      ]);
      return krlVersion;
    });
  }

  loadKrlVersion(): Promise<number> {
    return this.#access.read((query) => this.#krlVersion(query));
  }

  loadLeases(): Promise<readonly Lease[]> {
    return this.#access.read((query) => this.#leases(query, SELECT_LEASES));
  }

  async putLease(lease: Lease): Promise<void> {
    const { text, parameters } = insertRow("leases", { ...encodeLease(lease), instance: this.#instance });
    const replaced = await this.#access.change((query) => query(`${text} ${OR_REPLACE_LEASE}`, parameters));
    if (replaced.length === 0) {
      throw new AppError("conflict", "another signer has made the Secret of this name anew");
    }
  }

  async deleteLease({ cluster, name }: Pick<Lease, "cluster" | "name">): Promise<void> {
    const text = "DELETE FROM leases WHERE cluster = $1 AND name = $2 AND instance = $3";
    await this.#access.change((query) => query(text, [cluster, name, this.#instance]));
  }

  /** A commit is on the disk, and on that of a synchronous standby. */
  checkpoint(): Promise<void> {
    return this.#access.ended();
  }

  close(): Promise<void> {
    return this.#access.close();
  }

  /** One change after another, over all instances: each takes the row of its topic first. */
  #change<T>(
    topic: "state" | "certificates",
    action: (query: Query, epoch: bigint) => Promise<T>,
  ): Promise<T> {
    return this.#access.change((query) =>
      inEpoch(query, { topic, schema: POSTGRES_SCHEMA.name }, (epoch) => action(query, epoch))
    );
  }

  async #decisions(
    query: Query,
    { now, knownPolicies }: { readonly now: number; readonly knownPolicies: readonly string[] },
  ): Promise<SharedDecisions> {
    const [freezes, grants, revocations, krlVersion, policies] = await Promise.all([
      this.#freezes(query),
      this.#grants(query, now),
      this.#revocations(query, now - REVOCATION_SECONDS * 1000),
      this.#krlVersion(query),
      readPolicies(query, knownPolicies),
    ]);
    return { freezes, grants, revocations, krlVersion, ...policies };
  }

  async #grants(query: Query, now: number): Promise<readonly Grant[]> {
    const rows = await query(SELECT_GRANTS, [Math.floor(now / 1000)]);
    return this.#access.readable(rows, GRANT_READER).filter(({ expiresAt }) => expiresAt > now);
  }

  async #freezes(query: Query): Promise<readonly Freeze[]> {
    return this.#decoded(await query(SELECT_FREEZES), "a freeze", decodeFreeze);
  }

  async #certificates(
    query: Query,
    { now, since, not }: { readonly now: number; readonly since: bigint; readonly not: string },
  ): Promise<readonly IssuedBatch[]> {
    const rows = await query(SELECT_CERTIFICATES, [lastEnd(now), since, not]);
    return this.#decoded(rows, "a certificate that was issued", decodeCertificates);
  }

  async #revocations(query: Query, since: number): Promise<readonly KeptRevocation[]> {
    const rows = await query(SELECT_REVOCATIONS, [Math.floor(since / 1000)]);
    return this.#decoded(rows, "a revocation", decodeRevocation);
  }

  async #leases(query: Query, text: string): Promise<readonly Lease[]> {
    const rows = await query(text, [this.#instance]);
    return this.#decoded(rows, "a Secret that tokens are bound to", decodeLease);
  }

  async #krlVersion(query: Query): Promise<number> {
    const versions = this.#decoded(
      await query("SELECT version FROM krl"),
      "the revocation list's version",
      (row) => readInteger(row, "version"),
    );
    return Math.max(0, ...versions);
  }

  /** What is left out of a deny would pass. */
  #decoded<T>(rows: readonly Row[], what: string, decode: (row: Row) => T): readonly T[] {
    try {
      return rows.map(decode);
    } catch (error) {
      throw this.#access.unreadable(what, error);
    }
  }
}

async function deleteGrant(query: Query, id: string): Promise<boolean> {
  return (await query("DELETE FROM grants WHERE id = $1 RETURNING 1", [id])).length > 0;
}

async function deleteGrantsOf(query: Query, subject: FreezeSubject): Promise<void> {
  for (const row of await query(SELECT_SCOPES)) {
    const scope = { caller: showText(row, "caller"), endUser: showText(row, "end_user") };
    if (isScopedTo(scope, subject)) await deleteGrant(query, showText(row, "id"));
  }
}

async function deleteFreezes(query: Query, subject: FreezeSubject): Promise<boolean> {
  const { kind } = subject;
  const values = (await query(SELECT_SUBJECTS, [kind])).map((row) => showText(row, "value"));
  const same = values.filter((value) => isSameSubject({ kind, value }, subject));
  for (const value of same) await query("DELETE FROM freezes WHERE kind = $1 AND value = $2", [kind, value]);
  return same.length > 0;
}

/** One of each subject: a statement can't change a row twice. */
function latestOf(revocations: readonly KeptRevocation[]): readonly KeptRevocation[] {
  const latest = new Map<string, KeptRevocation>();
  for (const revocation of revocations) {
    const key = `${revocation.kind} ${revocation.value}`;
    if (revocation.revokedAt > (latest.get(key)?.revokedAt ?? -Infinity)) latest.set(key, revocation);
  }
  return [...latest.values()];
}

/** The second at which a certificate ended that no host believes now; in seconds. */
function lastEnd(now: number): number {
  return Math.floor(now / 1000) - CLOCK_SKEW_SECONDS;
}
