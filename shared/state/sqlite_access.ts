/**
 * Reading and changing a state database. Needs read and write permission on its file and no other: SQLite
 * itself makes the `-wal` file beside it, so the operating system's user needs the folder.
 *
 * ```ts ignore
 * import { SqliteAccess } from "@gateway/shared/state/sqlite_access";
 *
 * const access = SqliteAccess.open(schema, { path: "/var/lib/gateway/seen.db", warn: console.warn });
 * await access.change(() => access.run("INSERT INTO seen VALUES (:name)", { name: "web01" }));
 * ```
 *
 * @module
 */
import type { DatabaseSync } from "node:sqlite";
import { AppError, errorText } from "../errors.ts";
import { quoteText } from "../quote.ts";
import { type Parameters, readRows, type Row, type RowReader, type StateWarner } from "./columns.ts";
import type { StateSchema } from "./schema.ts";
import { damageRemedy, openDatabase } from "./sqlite_database.ts";

/** Where a database is, and who hears of it. */
export interface StateFile {
  /** The file; made when there is none, in a folder that exists. */
  readonly path: string;
  /** Told of what can't be read and is left out. */
  readonly warn: StateWarner;
  /** How long to wait for another process that holds the file, in milliseconds; by default 5000. */
  readonly lockWaitMs?: number | undefined;
}

/** A database that is this process's alone until it is closed. */
export class SqliteAccess {
  readonly #database: DatabaseSync;
  readonly #schema: StateSchema;
  readonly #file: StateFile;

  private constructor(schema: StateSchema, file: StateFile) {
    this.#database = openDatabase({ path: file.path, schema, lockWaitMs: file.lockWaitMs ?? 5000 });
    this.#schema = schema;
    this.#file = file;
  }

  /**
   * Opens it, and brings it to the known schema.
   *
   * @throws {AppError} `invalid_config` with cause and remedy when the file can't be opened, is in use by another
   * process, is damaged, is another program's, or was written by a newer version
   */
  static open(schema: StateSchema, file: StateFile): SqliteAccess {
    return new SqliteAccess(schema, file);
  }

  /**
   * Runs an action, which may read.
   *
   * @throws {AppError} `internal` when the database fails; an `AppError` of the action as it is
   */
  // deno-lint-ignore require-await -- what the action throws becomes a rejection
  async read<T>(action: () => T): Promise<T> {
    try {
      return action();
    } catch (error) {
      if (error instanceof AppError) throw error;
      throw new AppError("internal", "The state database could not be used", { cause: error });
    }
  }

  /**
   * Runs an action in a transaction: all or nothing of it is there, and durable, when the promise resolves.
   *
   * @throws {AppError} `internal` when it could not be committed
   */
  change<T>(action: () => T): Promise<T> {
    return this.#commit("FULL", action);
  }

  /**
   * As {@linkcode change}, but without the wait for the disk, which would hold up everything else in this process: there
   * when the promise resolves, also after this process was killed; a loss of power takes it away until a later change
   * is durable, or a checkpoint. What is lost so is always the last.
   *
   * @throws {AppError} `internal` when it could not be committed
   */
  changeUnsynced<T>(action: () => T): Promise<T> {
    return this.#commit("NORMAL", action);
  }

  #commit<T>(synchronous: "FULL" | "NORMAL", action: () => T): Promise<T> {
    return this.read(() => {
      // Of no effect within a transaction.
      this.#database.exec(`PRAGMA synchronous = ${synchronous}; BEGIN IMMEDIATE`);
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

  /** The rows of a query, for an action; see `selectColumns`. */
  rows(sql: string, parameters: Parameters = {}): readonly Row[] {
    const statement = this.#database.prepare(sql);
    // A number out of the range of `number` is one row's fault, not the whole table's.
    statement.setReadBigInts(true);
    return statement.all(parameters);
  }

  /** The rows of a query as values, for an action; one that can't be read is left out with a warning. */
  readable<T>(rows: readonly Row[], reader: RowReader<T>): readonly T[] {
    return readRows(rows, reader, this.#file.warn);
  }

  /** What to throw where a row can't be read and must not be left out. */
  unreadable(what: string, cause: unknown): AppError {
    const message = `Cannot use state_db ${quoteText(this.#file.path)}: ${what} can't be read: ${
      errorText(cause)
    }`;
    return new AppError("invalid_config", `${message}; ${damageRemedy(this.#schema)}`, { cause });
  }

  /** Runs a statement, for an action; gives the number of rows it changed. */
  run(sql: string, parameters: Parameters): number {
    return Number(this.#database.prepare(sql).run(parameters).changes);
  }

  /**
   * Resolves when every change so far is where a loss of power can't reach it.
   *
   * @throws {AppError} `internal` when that is not certain
   */
  checkpoint(): Promise<void> {
    return this.read(() => {
      const row = this.#database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get();
      if (row?.["busy"] !== 0) throw new Error("the checkpoint is incomplete");
    });
  }

  /** Closes the file, also a second time. */
  close(): Promise<void> {
    if (this.#database.isOpen) this.#database.close();
    return Promise.resolve();
  }
}
