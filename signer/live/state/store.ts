import { AppError } from "@gateway/shared/errors";
import type { Grant } from "@gateway/shared/policy";
import {
  deleteFrom,
  type Dialect,
  insertRow,
  insertRows,
  type Parameters,
  readInteger,
  type Row,
  type RowReader,
  showText,
  SQLITE,
  SqliteAccess,
  type StateFile,
  type Statement,
  type Steps,
  type Table,
} from "@gateway/shared/state";
import type { FreezeSubject } from "@gateway/shared/wire";
import { type Freeze, isSameSubject, isScopedTo } from "../freezes.ts";
import {
  CLOCK_SKEW_SECONDS,
  type IssuedBatch,
  readSerial,
  REVOCATION_SECONDS,
  type StoredRevocation,
} from "../krl/certificates.ts";
import { CERTIFICATES, FREEZES, GRANTS, type Lease, LEASES, REVOCATIONS, SCHEMA } from "./schema.ts";

/** The instances that must see a change: all immediately, those that look up certificates, or only this one. */
type Topic = "state" | "certificates" | "own";

/** The operations and SQL texts that differ between the two databases. */
export interface SignerDatabase {
  readonly access: Pick<SqliteAccess, "readable" | "readAll" | "checkpoint" | "close">;
  readonly dialect: Dialect;
  readonly survivesRestart: boolean;
  /** The columns of certificates and leases that name this instance; empty in a database of one signer. */
  readonly own: Parameters;
  /** The column that orders certificates by the time when they were added. */
  readonly order: string;
  /** The SQL condition under which a lease may replace another one with the same name. */
  readonly mayReplaceLease: string;
  read<T>(steps: Steps<T>): Promise<T>;
  change<T>(topic: Topic, steps: (more: Parameters) => Steps<T>): Promise<T>;
}

export type StateStore = Omit<SqlStateStore, "certificates" | "decisions" | "leases">;

interface Selection<T> extends Statement {
  readonly read: (rows: readonly Row[]) => T;
}

/** The complete data that all instances base decisions on. */
interface Decisions {
  readonly freezes: readonly Freeze[];
  readonly grants: readonly Grant[];
  readonly revocations: readonly StoredRevocation[];
  readonly krlVersion: number;
}

/** An unreadable grant is skipped, because it then permits nothing. */
const GRANT_READER: RowReader<Grant> = {
  decode: (row) => GRANTS.decode(row),
  key: "id",
  warning: "grant in state_db cannot be read and has no effect",
};
/** The instance that writes last may have revoked first, so the later time is kept. */
const LATER_REVOCATION = `ON CONFLICT (kind, value) DO UPDATE SET revoked_at = CASE
  WHEN excluded.revoked_at > revocations.revoked_at THEN excluded.revoked_at ELSE revocations.revoked_at END`;

/**
 * Grants, freezes, certificates, revocations and leases that survive a restart. Decisions are made from memory and never
 * wait for the store. Every change is all or nothing, and committed when its promise resolves: a process that is killed
 * later does not lose it. A change that rejects has not been made, as far as the store can tell.
 */
export class SqlStateStore {
  readonly #database: SignerDatabase;

  constructor(database: SignerDatabase) {
    this.#database = database;
  }

  get survivesRestart(): boolean {
    return this.#database.survivesRestart;
  }

  /** The grants and waivers that expire after `now`, the oldest first; unreadable ones are left out. */
  loadGrants(now: number): Promise<readonly Grant[]> {
    return this.#load(this.#grants(now));
  }

  /** Stores a grant, and removes the grants that it replaces in the same change. */
  async insertGrant(grant: Grant, replaces: readonly string[] = []): Promise<void> {
    const deletions = replaces.map((id) => deleteFrom("grants", { id }));
    await this.#change("state", [...deletions, insertRow("grants", GRANTS.encode(grant))]);
  }

  async deleteGrant(id: string): Promise<boolean> {
    return (await this.#change("state", [deleteFrom("grants", { id })])).length > 0;
  }

  /** Removes expired grants, and certificates that every host rejects. */
  async purgeExpired(now: number): Promise<number> {
    const purged = await this.#change("own", [
      { text: "DELETE FROM certificates WHERE valid_before <= $1", parameters: [lastEnd(now)] },
      {
        text: "DELETE FROM revocations WHERE revoked_at <= $1",
        parameters: [toSeconds(now) - REVOCATION_SECONDS],
      },
      { text: "DELETE FROM grants WHERE expires_at <= $1 RETURNING 1", parameters: [toSeconds(now)] },
    ]);
    return purged.length;
  }

  /** @throws {AppError} `invalid_config` if a freeze cannot be read */
  loadFreezes(): Promise<readonly Freeze[]> {
    return this.#load(this.#all(FREEZES, "a freeze"));
  }

  /** Stores a freeze in place of older ones of its subject, and removes its grants and waivers. */
  async putFreeze(freeze: Freeze): Promise<void> {
    const insertion = insertRow("freezes", FREEZES.encode(freeze));
    const { dialect } = this.#database;
    await this.#database.change("state", function* () {
      yield* deleteFreezes(dialect, freeze);
      yield [insertion];
      yield* deleteGrantsOf(dialect, freeze);
    });
  }

  /** Removes a freeze and the remaining grants of its subject; false if it was not frozen. */
  deleteFreeze(subject: FreezeSubject): Promise<boolean> {
    const { dialect } = this.#database;
    return this.#database.change("state", function* () {
      const wasFrozen = yield* deleteFreezes(dialect, subject);
      if (wasFrozen) yield* deleteGrantsOf(dialect, subject);
      return wasFrozen;
    });
  }

  loadCertificates(now: number): Promise<readonly IssuedBatch[]> {
    return this.#database.read(this.certificates(now));
  }

  async addCertificates(batches: readonly IssuedBatch[]): Promise<void> {
    const rows = batches.map(({ holder, ...batch }) =>
      CERTIFICATES.encode({ ...holder, ...batch, serials: batch.serials.join(" ") })
    );
    if (rows.length === 0) return;
    const { dialect, change } = this.#database;
    await change("certificates", function* (more) {
      yield insertRows(dialect, "certificates", rows.map((row) => ({ ...row, ...more })));
    });
  }

  /**
   * The revocations that were made after `since`.
   *
   * @throws {AppError} `invalid_config` if one cannot be read
   */
  loadRevocations(since: number): Promise<readonly StoredRevocation[]> {
    return this.#load(this.#revocations(since));
  }

  /**
   * Stores revocations. For each subject the later one is kept.
   *
   * @param version if the list changes: the lowest number that its next version may have
   * @returns the version of the list. A changed list gets a version that no instance has used before
   */
  async putRevocations(revocations: readonly StoredRevocation[], version?: number): Promise<number> {
    const rows = latestOf(revocations).map((revocation) => REVOCATIONS.encode(revocation));
    const versions = await this.#change("state", [
      ...insertRows(this.#database.dialect, "revocations", rows, LATER_REVOCATION),
      ...(version === undefined ? [] : [
        { text: "INSERT INTO krl SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM krl)" },
        {
          text: "UPDATE krl SET version = CASE WHEN version < $1 THEN $1 ELSE version + 1 END",
          parameters: [version],
        },
      ]),
      this.#krlVersion,
    ]);
    return this.#krlVersion.read(versions);
  }

  /** Marks decision documents as used. Returns false if one of them was used before. */
  async useDocuments(used: readonly StoredRevocation[]): Promise<boolean> {
    const rows = used.map((each) => REVOCATIONS.encode(each));
    const claim = "ON CONFLICT DO NOTHING RETURNING 1";
    const insertion = insertRows(this.#database.dialect, "revocations", rows, claim);
    return (await this.#change("state", insertion)).length === used.length;
  }

  loadKrlVersion(): Promise<number> {
    return this.#load(this.#krlVersion);
  }

  /**
   * All leases of this instance.
   *
   * @throws {AppError} `invalid_config` if one cannot be read, because its Secret would otherwise never be
   * deleted
   */
  loadLeases(): Promise<readonly Lease[]> {
    const { instance } = this.#database.own;
    return this.#load(instance === undefined ? this.leases() : this.leases("instance = $1", instance));
  }

  /**
   * Stores a lease, which replaces an older one of the same cluster and name.
   *
   * @throws {AppError} `conflict` if another instance has its name for another Secret
   */
  async putLease(lease: Lease): Promise<void> {
    const row = { ...LEASES.encode(lease), ...this.#database.own };
    const { text, parameters } = insertRow("leases", row);
    const values = Object.keys(row).map((name) => `${name} = excluded.${name}`).join(", ");
    const replace =
      `ON CONFLICT (cluster, name) DO UPDATE SET ${values} WHERE ${this.#database.mayReplaceLease}`;
    const kept = await this.#change("own", [{ text: `${text} ${replace} RETURNING 1`, parameters }]);
    if (kept.length === 0) {
      throw new AppError("conflict", "another signer has created the Secret of this name again");
    }
  }

  async deleteLease({ cluster, name }: Pick<Lease, "cluster" | "name">): Promise<void> {
    await this.#change("own", [deleteFrom("leases", { cluster, name, ...this.#database.own })]);
  }

  /**
   * Resolves when every earlier change survives a power loss.
   *
   * @throws {AppError} `internal` if that is uncertain. The changes then still survive the end of the process
   */
  checkpoint(): Promise<void> {
    return this.#database.access.checkpoint();
  }

  close(): Promise<void> {
    return this.#database.access.close();
  }

  /** The certificates that a host may still accept; `$2` is the first parameter of a further condition. */
  *certificates(
    now: number,
    others = "TRUE",
    ...parameters: readonly (string | number)[]
  ): Steps<readonly IssuedBatch[]> {
    const condition = `valid_before > $1 AND ${others} ORDER BY ${this.#database.order}`;
    const what = "a certificate that was issued";
    const selection = this.#all(CERTIFICATES, what, condition, lastEnd(now), ...parameters);
    const [rows = []] = yield [selection];
    return this.#database.access.readAll(rows, what, (row) => {
      const { issuedAt, validBefore, serials, ...holder } = CERTIFICATES.decode(row);
      return { holder, issuedAt, validBefore, serials: serials.split(" ").map(toSerial) };
    });
  }

  *decisions(now: number): Steps<Decisions> {
    const freezes = this.#all(FREEZES, "a freeze");
    const grants = this.#grants(now);
    const revocations = this.#revocations(now - REVOCATION_SECONDS * 1000);
    const rows = yield [freezes, grants, revocations, this.#krlVersion];
    return {
      freezes: freezes.read(rows[0] ?? []),
      grants: grants.read(rows[1] ?? []),
      revocations: revocations.read(rows[2] ?? []),
      krlVersion: this.#krlVersion.read(rows[3] ?? []),
    };
  }

  #grants(now: number): Selection<readonly Grant[]> {
    return {
      ...this.#all(GRANTS, "a grant", "expires_at > $1 ORDER BY granted_at, grants.id", toSeconds(now)),
      read: (rows) =>
        this.#database.access.readable(rows, GRANT_READER).filter(({ expiresAt }) => expiresAt > now),
    };
  }

  #revocations(since: number): Selection<readonly StoredRevocation[]> {
    return this.#all(REVOCATIONS, "a revocation", "revoked_at > $1", toSeconds(since));
  }

  get #krlVersion(): Selection<number> {
    const version = (row: Row) => readInteger(row, "version");
    return {
      text: "SELECT version FROM krl",
      read: (rows) =>
        Math.max(0, ...this.#database.access.readAll(rows, "the revocation list's version", version)),
    };
  }

  /**
   * @param what names the kind of row in the error about an unreadable row, because a deny is never skipped
   */
  #all<T extends object>(
    table: Table<T>,
    what: string,
    condition = "TRUE",
    ...parameters: readonly (string | number)[]
  ): Selection<readonly T[]> {
    const columns = this.#database.dialect.select(table.texts, table.integers);
    return {
      text: `SELECT ${columns} FROM ${table.name} WHERE ${condition}`,
      parameters,
      read: (rows) => this.#database.access.readAll(rows, what, (row) => table.decode(row)),
    };
  }

  #load<T>(selection: Selection<T>): Promise<T> {
    return this.#database.read(read(selection));
  }

  leases(condition = "TRUE", ...parameters: readonly (string | number)[]): Selection<readonly Lease[]> {
    return this.#all(LEASES, "a Secret that tokens are bound to", condition, ...parameters);
  }

  /** Runs statements as one change, and gives the rows of the last one. */
  #change(topic: Topic, statements: readonly Statement[]): Promise<readonly Row[]> {
    return this.#database.change(topic, function* () {
      return (yield statements).at(-1) ?? [];
    });
  }
}

function* read<T>(selection: Selection<T>): Steps<T> {
  const [rows = []] = yield [selection];
  return selection.read(rows);
}

/** Deletes a subject's grants. A database cannot fold names as `isScopedTo()` does. */
function* deleteGrantsOf({ select }: Dialect, subject: FreezeSubject): Steps<void> {
  const scoped = "FROM grants WHERE grants.caller <> '' OR grants.end_user <> ''";
  const [rows = []] = yield [{ text: `SELECT ${select(["id", "caller", "end_user"], [])} ${scoped}` }];
  const doomed = rows.filter((row) =>
    isScopedTo({ caller: showText(row, "caller"), endUser: showText(row, "end_user") }, subject)
  );
  if (doomed.length > 0) yield doomed.map((row) => deleteFrom("grants", { id: showText(row, "id") }));
}

function* deleteFreezes({ select }: Dialect, subject: FreezeSubject): Steps<boolean> {
  const { kind } = subject;
  const text = `SELECT ${select(["value"], [])} FROM freezes WHERE kind = $1`;
  const [rows = []] = yield [{ text, parameters: [kind] }];
  const same = rows.map((row) => showText(row, "value"))
    .filter((value) => isSameSubject({ kind, value }, subject));
  if (same.length > 0) yield same.map((value) => deleteFrom("freezes", { kind, value }));
  return same.length > 0;
}

/** One revocation of each subject, because a statement can't change a row twice. */
function latestOf(revocations: readonly StoredRevocation[]): readonly StoredRevocation[] {
  const byTime = revocations.toSorted((left, right) => left.revokedAt - right.revokedAt);
  return [...new Map(byTime.map((each) => [`${each.kind} ${each.value}`, each])).values()];
}

/** The expiry, in seconds, of the newest certificates that every host now rejects. */
function lastEnd(now: number): number {
  return toSeconds(now) - CLOCK_SKEW_SECONDS;
}

function toSerial(text: string): bigint {
  const serial = readSerial(text);
  if (serial === undefined) throw new TypeError("column serials is not a list of serials");
  return serial;
}

function toSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}

/**
 * Opens an SQLite file, or a store in memory for an empty path, for this process alone until it is closed. SQLite creates
 * the `-wal` file next to the file, so the operating system's user needs write access to the directory.
 *
 * @throws {AppError} `invalid_config` with cause and fix if the file cannot be opened, is in use by another process, is
 * damaged, belongs to another program, or was written by a newer version
 */
export function openSqliteStore(file: StateFile): StateStore {
  const access = SqliteAccess.open(SCHEMA, file);
  return new SqlStateStore({
    access,
    dialect: SQLITE,
    survivesRestart: file.path !== "",
    own: {},
    order: "rowid",
    mayReplaceLease: "TRUE",
    read: (steps) => access.read(() => access.perform(steps)),
    // Certificates are written four times a second without a sync. The audit log contains those that a power
    // loss removes.
    change: (topic, steps) =>
      topic === "certificates"
        ? access.changeUnsynced(() => access.perform(steps({})))
        : access.change(() => access.perform(steps({}))),
  });
}
