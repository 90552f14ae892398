/**
 * State in an SQLite file. Needs read and write permission on that file and no other: SQLite itself makes the
 * `-wal` file beside it, so the operating system's user needs the folder.
 *
 * ```ts ignore
 * import { openSqliteStore } from "./sqlite.ts";
 *
 * const store = openSqliteStore({ path: "/var/lib/gateway/signer/state.db", warn: console.warn });
 * ```
 *
 * @module
 */
import { AppError, errorText } from "@gateway/shared/errors";
import { type Freeze, isSameSubject, isScopedTo } from "../freezes.ts";
import type { Grant } from "@gateway/shared/policy/grants";
import type { FreezeSubject } from "@gateway/shared/wire/freeze";
import { insertInto, selectColumns, showText } from "@gateway/shared/state/columns";
import { SqliteAccess, type StateWarner } from "@gateway/shared/state/sqlite_access";
import { MIGRATIONS } from "./migrations.ts";
import {
  decodeFreeze,
  decodeGrant,
  encodeFreeze,
  encodeGrant,
  FREEZE_INTEGERS,
  FREEZE_TEXTS,
  GRANT_INTEGERS,
  GRANT_TEXTS,
} from "./rows.ts";
import type { StateStore } from "./store.ts";

/** What a store in SQLite is opened with. */
export interface SqliteStoreOptions {
  /** The file; made when there is none, in a folder that exists. */
  readonly path: string;
  /** Told of grants that can't be read and are left out. */
  readonly warn: StateWarner;
  /** How long to wait for another process that holds the file, in milliseconds; by default 5000. */
  readonly lockWaitMs?: number;
}

/**
 * Opens the store, for this process alone until it is closed.
 *
 * @throws {AppError} `invalid_config` when the file can't be opened, is in use by another process, is damaged,
 * or was written by a newer version
 */
export function openSqliteStore({ path, warn, lockWaitMs }: SqliteStoreOptions): StateStore {
  return new SqliteStore(SqliteAccess.open({ path, migrations: MIGRATIONS, lockWaitMs }), warn);
}

const SELECT_GRANTS = `SELECT ${selectColumns(GRANT_TEXTS, GRANT_INTEGERS)} FROM grants
  WHERE expires_at > :now OR typeof(expires_at) <> 'integer' ORDER BY granted_at, id`;
const SELECT_FREEZES = `SELECT ${selectColumns(FREEZE_TEXTS, FREEZE_INTEGERS)} FROM freezes`;
const INSERT_GRANT = insertInto("grants", [...GRANT_TEXTS, ...GRANT_INTEGERS]);
const INSERT_FREEZE = insertInto("freezes", [...FREEZE_TEXTS, ...FREEZE_INTEGERS]);

/** What names their subjects; a database can't fold names as we do. */
const SELECT_SCOPES = `SELECT ${selectColumns(["id", "caller", "end_user"], [])} FROM grants
  WHERE caller <> '' OR end_user <> ''`;
const SELECT_SUBJECTS = `SELECT ${selectColumns(["value"], [])} FROM freezes WHERE kind = :kind`;
const DELETE_FREEZE = "DELETE FROM freezes WHERE kind = :kind AND value = :value";

class SqliteStore implements StateStore {
  readonly survivesRestart = true;
  readonly #database: SqliteAccess;
  readonly #warn: StateWarner;

  constructor(database: SqliteAccess, warn: StateWarner) {
    this.#database = database;
    this.#warn = warn;
  }

  loadGrants(now: number): Promise<readonly Grant[]> {
    return this.#database.read(() => {
      const grants: Grant[] = [];
      for (const row of this.#database.rows(SELECT_GRANTS, { now: Math.floor(now / 1000) })) {
        try {
          const grant = decodeGrant(row);
          if (grant.expiresAt > now) grants.push(grant);
        } catch (error) {
          this.#warn("A grant in state_db can't be read and has no effect", {
            id: showText(row, "id"),
            error,
          });
        }
      }
      return grants;
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
    return this.#database.change(() =>
      this.#database.run("DELETE FROM grants WHERE expires_at <= :now", { now: seconds })
    );
  }

  loadFreezes(): Promise<readonly Freeze[]> {
    return this.#database.read(() => {
      const rows = this.#database.rows(SELECT_FREEZES);
      try {
        return rows.map(decodeFreeze);
      } catch (error) {
        throw new AppError(
          "invalid_config",
          `Cannot use state_db: a freeze can't be read: ${errorText(error)}`,
          { cause: error },
        );
      }
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

  checkpoint(): Promise<void> {
    return this.#database.checkpoint();
  }

  close(): Promise<void> {
    return this.#database.close();
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
