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
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { AppError } from "../errors.ts";
import type { Freeze } from "../policy/freeze.ts";
import type { Grant } from "../policy/grants.ts";
import type { FreezeSubject } from "../wire/freeze.ts";
import {
  decodeFreeze,
  decodeGrant,
  encodeFreeze,
  encodeGrant,
  FREEZE_INTEGERS,
  FREEZE_TEXTS,
  GRANT_INTEGERS,
  GRANT_TEXTS,
  type Parameters,
  type Row,
} from "./rows.ts";
import { openDatabase } from "./sqlite_database.ts";
import type { StateStore } from "./store.ts";

/** What a store in SQLite is opened with. */
export interface SqliteStoreOptions {
  /** The file; made when there is none, in a folder that exists. */
  readonly path: string;
  /** Told of grants that can't be read and are left out. */
  readonly warn: (message: string, fields: Readonly<Record<string, unknown>>) => void;
  /** How long to wait for another process that holds the file, in milliseconds; by default 5000. */
  readonly lockWaitMs?: number;
}

/**
 * Opens the store, for this process alone until it is closed.
 *
 * @throws {AppError} `invalid_config` when the file can't be opened, is in use by another process, is damaged,
 * or was written by a newer version
 */
export function openSqliteStore({ path, warn, lockWaitMs = 5000 }: SqliteStoreOptions): StateStore {
  return new SqliteStore(openDatabase({ path, lockWaitMs }), warn);
}

const SELECT_GRANTS = `SELECT ${columns(GRANT_TEXTS, GRANT_INTEGERS)} FROM grants
  WHERE expires_at > :now OR typeof(expires_at) <> 'integer' ORDER BY granted_at, id`;
const SELECT_FREEZES = `SELECT ${columns(FREEZE_TEXTS, FREEZE_INTEGERS)} FROM freezes`;
const INSERT_GRANT = insertInto("grants", [...GRANT_TEXTS, ...GRANT_INTEGERS]);
const INSERT_FREEZE = insertInto("freezes", [...FREEZE_TEXTS, ...FREEZE_INTEGERS]);

/** The column of `grants` that a kind of freeze is about; sessions and serials have no grants. */
const SCOPE_COLUMN = { caller: "caller", end_user: "end_user", session_id: "", serial: "" } as const;

class SqliteStore implements StateStore {
  readonly survivesRestart = true;
  readonly #database: DatabaseSync;
  readonly #warn: SqliteStoreOptions["warn"];

  constructor(database: DatabaseSync, warn: SqliteStoreOptions["warn"]) {
    this.#database = database;
    this.#warn = warn;
  }

  loadGrants(now: number): Promise<readonly Grant[]> {
    return this.#read(() => {
      const grants: Grant[] = [];
      for (const row of this.#rows(SELECT_GRANTS, { now: Math.floor(now / 1000) })) {
        try {
          const grant = decodeGrant(row);
          if (grant.expiresAt > now) grants.push(grant);
        } catch (error) {
          this.#warn("A grant in state_db can't be read and has no effect", { id: showId(row), error });
        }
      }
      return grants;
    });
  }

  insertGrant(grant: Grant, replaces: readonly string[] = []): Promise<void> {
    return this.#change(() => {
      for (const id of replaces) this.#deleteGrant(id);
      this.#run(INSERT_GRANT, encodeGrant(grant));
    });
  }

  deleteGrant(id: string): Promise<boolean> {
    return this.#change(() => this.#deleteGrant(id) > 0);
  }

  purgeExpired(now: number): Promise<number> {
    const seconds = Math.floor(now / 1000);
    return this.#change(() => this.#run("DELETE FROM grants WHERE expires_at <= :now", { now: seconds }));
  }

  loadFreezes(): Promise<readonly Freeze[]> {
    return this.#read(() => {
      const rows = this.#rows(SELECT_FREEZES, {});
      try {
        return rows.map(decodeFreeze);
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        throw new AppError("invalid_config", `Cannot use state_db: a freeze can't be read: ${why}`, {
          cause: error,
        });
      }
    });
  }

  putFreeze(freeze: Freeze): Promise<void> {
    return this.#change(() => {
      this.#deleteFreeze(freeze);
      this.#run(INSERT_FREEZE, encodeFreeze(freeze));
      this.#deleteGrantsOf(freeze);
    });
  }

  deleteFreeze(subject: FreezeSubject): Promise<boolean> {
    return this.#change(() => {
      if (this.#deleteFreeze(subject) === 0) return false;
      this.#deleteGrantsOf(subject);
      return true;
    });
  }

  checkpoint(): Promise<void> {
    return this.#read(() => {
      const row = this.#database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get();
      if (row?.["busy"] !== 0) throw new Error("the checkpoint is incomplete");
    });
  }

  close(): Promise<void> {
    if (this.#database.isOpen) this.#database.close();
    return Promise.resolve();
  }

  #deleteGrant(id: string): number {
    return this.#run("DELETE FROM grants WHERE id = :id", { id });
  }

  #deleteGrantsOf({ kind, value }: FreezeSubject): void {
    const column = SCOPE_COLUMN[kind];
    if (column === "" || value === "") return;
    this.#run(`DELETE FROM grants WHERE ${column} = :value`, { value });
  }

  #deleteFreeze({ kind, value }: FreezeSubject): number {
    return this.#run("DELETE FROM freezes WHERE kind = :kind AND value = :value", { kind, value });
  }

  #rows(sql: string, parameters: Parameters): readonly Row[] {
    const statement: StatementSync = this.#database.prepare(sql);
    // A number out of the range of `number` is one row's fault, not the whole table's.
    statement.setReadBigInts(true);
    return statement.all(parameters);
  }

  #run(sql: string, parameters: Parameters): number {
    return Number(this.#database.prepare(sql).run(parameters).changes);
  }

  #change<T>(action: () => T): Promise<T> {
    return this.#read(() => {
      this.#database.exec("BEGIN IMMEDIATE");
      try {
        const result = action();
        this.#database.exec("COMMIT");
        return result;
      } catch (error) {
        if (this.#database.isTransaction) this.#database.exec("ROLLBACK");
        throw error;
      }
    });
  }

  // deno-lint-ignore require-await -- what the action throws becomes a rejection
  async #read<T>(action: () => T): Promise<T> {
    try {
      return action();
    } catch (error) {
      if (error instanceof AppError) throw error;
      throw new AppError("internal", "The state database could not be used", { cause: error });
    }
  }
}

function columns(texts: readonly string[], integers: readonly string[]): string {
  return [...texts.map((name) => `CAST(${name} AS BLOB) AS ${name}`), ...integers].join(", ");
}

function insertInto(table: string, names: readonly string[]): string {
  return `INSERT INTO ${table} (${names.join(", ")}) VALUES (${names.map((name) => `:${name}`).join(", ")})`;
}

function showId({ id }: Row): string {
  return id instanceof Uint8Array ? new TextDecoder().decode(id) : "";
}
