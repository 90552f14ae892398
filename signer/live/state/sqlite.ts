/**
 * State in an SQLite file, or, for an empty path, in memory. A file needs read and
 * write permission on that file and no other. SQLite itself creates the `-wal` file next to it, so the operating
 * system's user needs write access to the directory.
 *
 * ```ts ignore
 * import { openSqliteStore } from "./sqlite.ts";
 *
 * const store = openSqliteStore({ path: "/var/lib/gateway/signer/state.db", warn: console.warn });
 * ```
 *
 * @module
 */
import { type Freeze, isSameSubject, isScopedTo } from "../freezes.ts";
import type { Grant } from "@gateway/shared/policy";
import type { FreezeSubject } from "@gateway/shared/wire";
import type { Lease } from "../lease.ts";
import type { IssuedBatch } from "../krl/issued.ts";
import { CLOCK_SKEW_SECONDS, type KeptRevocation, REVOCATION_SECONDS } from "../krl/revocations.ts";
import {
  insertInto,
  readInteger,
  type Row,
  selectColumns,
  showText,
  SqliteAccess,
  type StateFile,
} from "@gateway/shared/state";
import { SCHEMA } from "./migrations.ts";
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
import type { StateStore } from "../store.ts";

/**
 * Opens the store, for this process alone until it is closed.
 *
 * @throws {AppError} `invalid_config` with cause and remedy when the file can't be opened, is in use by another
 * process, is damaged, is another program's, or was written by a newer version
 */
export function openSqliteStore(file: StateFile): StateStore {
  return new SqliteStore(file);
}

const SELECT_GRANTS = `SELECT ${selectColumns(GRANT_TEXTS, GRANT_INTEGERS)} FROM grants
  WHERE expires_at > :now OR typeof(expires_at) <> 'integer' ORDER BY granted_at, id`;
const SELECT_FREEZES = `SELECT ${selectColumns(FREEZE_TEXTS, FREEZE_INTEGERS)} FROM freezes`;
const INSERT_GRANT = insertInto("grants", [...GRANT_TEXTS, ...GRANT_INTEGERS]);
const INSERT_FREEZE = insertInto("freezes", [...FREEZE_TEXTS, ...FREEZE_INTEGERS]);

const SELECT_CERTIFICATES = `SELECT ${
  selectColumns(CERTIFICATE_TEXTS, CERTIFICATE_INTEGERS)
} FROM certificates
  WHERE valid_before > :believed OR typeof(valid_before) <> 'integer'`;
const INSERT_CERTIFICATES = insertInto("certificates", [...CERTIFICATE_TEXTS, ...CERTIFICATE_INTEGERS]);
const SELECT_REVOCATIONS = `SELECT ${selectColumns(REVOCATION_TEXTS, REVOCATION_INTEGERS)} FROM revocations
  WHERE revoked_at > :since OR typeof(revoked_at) <> 'integer'`;
/** Whoever writes last may have revoked first: what was revoked until then stays so. */
const PUT_REVOCATION = `${insertInto("revocations", [...REVOCATION_TEXTS, ...REVOCATION_INTEGERS])}
  ON CONFLICT (kind, value) DO UPDATE SET revoked_at = max(revoked_at, excluded.revoked_at)`;

const SELECT_LEASES = `SELECT ${selectColumns(LEASE_TEXTS, LEASE_INTEGERS)} FROM leases`;
const INSERT_LEASE = insertInto("leases", [...LEASE_TEXTS, ...LEASE_INTEGERS]);
const DELETE_LEASE = "DELETE FROM leases WHERE cluster = :cluster AND name = :name";

/** What names their subjects; a database can't fold names as we do. */
const SELECT_SCOPES = `SELECT ${selectColumns(["id", "caller", "end_user"], [])} FROM grants
  WHERE caller <> '' OR end_user <> ''`;
const SELECT_SUBJECTS = `SELECT ${selectColumns(["value"], [])} FROM freezes WHERE kind = :kind`;
const DELETE_FREEZE = "DELETE FROM freezes WHERE kind = :kind AND value = :value";

class SqliteStore implements StateStore {
  readonly survivesRestart: boolean;
  readonly #database: SqliteAccess;

  constructor(file: StateFile) {
    this.survivesRestart = file.path !== "";
    this.#database = SqliteAccess.open(SCHEMA, file);
  }

  loadGrants(now: number): Promise<readonly Grant[]> {
    return this.#database.read(() => {
      const rows = this.#database.rows(SELECT_GRANTS, { now: Math.floor(now / 1000) });
      return this.#database.readable(rows, GRANT_READER).filter(({ expiresAt }) => expiresAt > now);
    });
  }

  insertGrant(grant: Grant, replaces: readonly string[] = []): Promise<void> {
    return this.#database.change(() => {
      for (const id of replaces) this.#deleteGrant(id);
      this.#database.run(INSERT_GRANT, encodeGrant(grant));
    });
  }

  deleteGrant(id: string): Promise<boolean> {
    return this.#database.change(() => this.#deleteGrant(id) > 0);
  }

  purgeExpired(now: number): Promise<number> {
    const seconds = Math.floor(now / 1000);
    return this.#database.change(() => {
      this.#database.run("DELETE FROM certificates WHERE valid_before <= :believed", {
        believed: lastEnd(now),
      });
      this.#database.run("DELETE FROM revocations WHERE revoked_at <= :since", {
        since: seconds - REVOCATION_SECONDS,
      });
      return this.#database.run("DELETE FROM grants WHERE expires_at <= :now", { now: seconds });
    });
  }

  loadFreezes(): Promise<readonly Freeze[]> {
    return this.#database.read(() => {
      return this.#decoded(this.#database.rows(SELECT_FREEZES), "a freeze", decodeFreeze);
    });
  }

  putFreeze(freeze: Freeze): Promise<void> {
    return this.#database.change(() => {
      this.#deleteFreezes(freeze);
      this.#database.run(INSERT_FREEZE, encodeFreeze(freeze));
      this.#deleteGrantsOf(freeze);
    });
  }

  deleteFreeze(subject: FreezeSubject): Promise<boolean> {
    return this.#database.change(() => {
      if (this.#deleteFreezes(subject) === 0) return false;
      this.#deleteGrantsOf(subject);
      return true;
    });
  }

  loadCertificates(now: number): Promise<readonly IssuedBatch[]> {
    return this.#database.read(() => {
      const rows = this.#database.rows(SELECT_CERTIFICATES, { believed: lastEnd(now) });
      return this.#decoded(rows, "a certificate that was issued", decodeCertificates);
    });
  }

  addCertificates(batches: readonly IssuedBatch[]): Promise<void> {
    // Four times a second while there is something to sign. The audit log tells of those that a loss of power takes away.
    return this.#database.changeUnsynced(() => {
      for (const batch of batches) this.#database.run(INSERT_CERTIFICATES, encodeCertificates(batch));
    });
  }

  loadRevocations(since: number): Promise<readonly KeptRevocation[]> {
    return this.#database.read(() => {
      const rows = this.#database.rows(SELECT_REVOCATIONS, { since: Math.floor(since / 1000) });
      return this.#decoded(rows, "a revocation", decodeRevocation);
    });
  }

  putRevocations(revocations: readonly KeptRevocation[], version?: number): Promise<number> {
    return this.#database.change(() => {
      for (const revocation of revocations) {
        this.#database.run(PUT_REVOCATION, encodeRevocation(revocation));
      }
      const last = this.#krlVersion();
      if (version === undefined) return last;
      const next = Math.max(last + 1, version);
      this.#database.run("DELETE FROM krl", {});
      this.#database.run("INSERT INTO krl (version) VALUES (:next)", { next });
      return next;
    });
  }

  loadKrlVersion(): Promise<number> {
    return this.#database.read(() => this.#krlVersion());
  }

  loadLeases(): Promise<readonly Lease[]> {
    return this.#database.read(() =>
      this.#decoded(this.#database.rows(SELECT_LEASES), "a Secret that tokens are bound to", decodeLease)
    );
  }

  putLease(lease: Lease): Promise<void> {
    return this.#database.change(() => {
      const { cluster, name } = lease;
      this.#database.run(DELETE_LEASE, { cluster, name });
      this.#database.run(INSERT_LEASE, encodeLease(lease));
    });
  }

  deleteLease({ cluster, name }: Pick<Lease, "cluster" | "name">): Promise<void> {
    return this.#database.change(() => void this.#database.run(DELETE_LEASE, { cluster, name }));
  }

  checkpoint(): Promise<void> {
    return this.#database.checkpoint();
  }

  close(): Promise<void> {
    return this.#database.close();
  }

  #krlVersion(): number {
    const rows = this.#database.rows("SELECT version FROM krl");
    const read = (row: Row) => readInteger(row, "version");
    return Math.max(0, ...this.#decoded(rows, "the revocation list's version", read));
  }

  /** What is left out of a deny would pass. */
  #decoded<T>(rows: readonly Row[], what: string, decode: (row: Row) => T): readonly T[] {
    try {
      return rows.map(decode);
    } catch (error) {
      throw this.#database.unreadable(what, error);
    }
  }

  #deleteGrant(id: string): number {
    return this.#database.run("DELETE FROM grants WHERE id = :id", { id });
  }

  #deleteGrantsOf(subject: FreezeSubject): void {
    for (const row of this.#database.rows(SELECT_SCOPES)) {
      const scope = { caller: showText(row, "caller"), endUser: showText(row, "end_user") };
      if (isScopedTo(scope, subject)) this.#deleteGrant(showText(row, "id"));
    }
  }

  #deleteFreezes(subject: FreezeSubject): number {
    const { kind } = subject;
    const values = this.#database.rows(SELECT_SUBJECTS, { kind }).map((row) => showText(row, "value"));
    return values.filter((value) => isSameSubject({ kind, value }, subject))
      .map((value) => this.#database.run(DELETE_FREEZE, { kind, value }))
      .reduce((sum, deleted) => sum + deleted, 0);
  }
}

/** The second at which a certificate ended that no host believes now; in seconds. */
function lastEnd(now: number): number {
  return Math.floor(now / 1000) - CLOCK_SKEW_SECONDS;
}
