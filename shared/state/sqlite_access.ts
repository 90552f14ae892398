/**
 * Access to a state database in SQLite. It needs read and write permission on the file alone. SQLite itself creates the `-wal`
 * file next to it, so the operating system's user needs write access to the directory.
 *
 * @module
 */
import { DatabaseSync } from "node:sqlite";
import { AppError, configError, errorText } from "../errors.ts";
import { quoteText } from "../text.ts";
import {
  type Parameters,
  readAll,
  readRows,
  type Row,
  type RowReader,
  type StateWarner,
  type Steps,
} from "./columns.ts";

/** A database, and its warnings. */
export interface StateFile {
  /**
   * The path of the file, which is created in an existing directory. Empty: in memory, and lost when the
   * process ends.
   */
  readonly path: string;
  /** Called for data that cannot be read and is skipped. */
  readonly warn: StateWarner;
  /** How long to wait for another process that holds the file, in milliseconds; by default 5000. */
  readonly lockWaitMs?: number;
}

/** A database that only this process can use until it is closed. */
export class SqliteAccess {
  readonly #database: DatabaseSync;
  readonly #schema: StateSchema;
  readonly #file: StateFile;

  private constructor(schema: StateSchema, file: StateFile) {
    this.#database = openDatabase(schema, file);
    this.#schema = schema;
    this.#file = file;
  }

  /**
   * Opens the database and migrates it.
   *
   * @throws {AppError} `invalid_config` with cause and fix if the file cannot be opened, is in use by another process, is damaged,
   * belongs to another program, or was written by a newer version
   */
  static open(schema: StateSchema, file: StateFile): SqliteAccess {
    return new SqliteAccess(schema, file);
  }

  /**
   * Runs an action that reads. @throws {AppError} `internal` if the database fails; an `AppError` of the
   * action is passed on
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

  /** Runs an action in a transaction: all or nothing, and durable when it resolves. @throws {AppError} `internal` */
  change<T>(action: () => T): Promise<T> {
    return this.#commit("FULL", action);
  }

  /**
   * Like {@linkcode change}, but without a wait for the disk, which would block this process. The change
   * survives the end of the process, but a power loss may undo the last such changes. @throws {AppError}
   * `internal`
   */
  changeUnsynced<T>(action: () => T): Promise<T> {
    return this.#commit("NORMAL", action);
  }

  #commit<T>(synchronous: "FULL" | "NORMAL", action: () => T): Promise<T> {
    return this.read(() => {
      // This PRAGMA has no effect within a transaction, so run it before BEGIN.
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

  rows(sql: string, parameters: Parameters = {}): readonly Row[] {
    const statement = this.#database.prepare(sql);
    // An integer out of range must be the fault of one row, not of the whole table.
    statement.setReadBigInts(true);
    return statement.all(parameters);
  }

  readable<T>(rows: readonly Row[], reader: RowReader<T>): readonly T[] {
    return readRows(rows, reader, this.#file.warn);
  }

  /** The rows as values. @throws {AppError} `invalid_config` if one cannot be read */
  readAll<T>(rows: readonly Row[], what: string, decode: (row: Row) => T): readonly T[] {
    return readAll(rows, decode, (cause) => {
      const place = `Cannot use state_db ${quoteText(this.#file.path)}`;
      const problem = `${what} can't be read: ${errorText(cause)}`;
      return configError(`${place}: ${problem}; ${damageRemedy(this.#schema)}`, cause);
    });
  }

  /** Runs the statements of a transaction, for an action. */
  perform<T>(steps: Steps<T>): T {
    let step = steps.next();
    while (step.done !== true) {
      step = steps.next(step.value.map(({ text, parameters = [] }) => {
        const named = parameters.map((value, index) => [`${index + 1}`, value] as const);
        return this.rows(text, Object.fromEntries(named));
      }));
    }
    return step.value;
  }

  /** Runs a statement, for an action; returns how many rows it changed. */
  run(sql: string, parameters: Parameters): number {
    return Number(this.#database.prepare(sql).run(parameters).changes);
  }

  /**
   * Resolves when a power loss can no longer undo any change so far. @throws {AppError} `internal` if that is
   * uncertain
   */
  checkpoint(): Promise<void> {
    return this.read(() => {
      const row = this.#database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get();
      if (row?.["busy"] !== 0) throw new Error("the checkpoint is incomplete");
    });
  }

  close(): Promise<void> {
    if (this.#database.isOpen) this.#database.close();
    return Promise.resolve();
  }
}

/** Creates the file if it does not exist, readable only by its owner. A rejected file is not changed. */
function openDatabase(schema: StateSchema, { path, lockWaitMs = 5000 }: StateFile): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    if (path !== "") createFile(path);
    database = new DatabaseSync(path === "" ? ":memory:" : path, {
      timeout: lockWaitMs,
      enableForeignKeyConstraints: true,
    });
    prepare(database, schema, path === "" ? "memory" : "wal");
    return database;
  } catch (error) {
    database?.close();
    const [message, remedy] = error instanceof Refusal
      ? [error.message, error.remedy]
      : explain(error, schema);
    throw configError(`Cannot open state_db ${quoteText(path)}: ${message}; ${remedy}`, {
      cause: error,
    });
  }
}

function readPragma(database: DatabaseSync, pragma: string): unknown {
  const row = database.prepare(`PRAGMA ${pragma}`).get();
  return row === undefined ? undefined : Object.values(row)[0];
}

function damageRemedy({ loss }: StateSchema): string {
  return `stop the service, keep this file, and restore a backup; without a backup, move the file away, and ${loss}`;
}

const FOREIGN = "name a separate or new file in state_db; this one was not changed";
const NEWER = "start the program version that wrote it, or a later one; the file was not changed";
const IN_USE = "stop that process first, or name another file in state_db: only one process can use it";
const OUT_OF_REACH =
  "give the service's user read and write access to the file, and write access to its directory";

class Refusal extends Error {
  readonly remedy: string;

  constructor(message: string, remedy: string) {
    super(message);
    this.remedy = remedy;
  }
}

function createFile(path: string): void {
  try {
    Deno.openSync(path, { write: true, createNew: true, mode: 0o600 }).close();
  } catch (error) {
    // Do not open the existing file here: closing it would release every lock that SQLite holds on it in this
    // process (fcntl(2)).
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
}

function prepare(database: DatabaseSync, schema: StateSchema, journal: "wal" | "memory"): void {
  // Set this before the first access, so that no other process can open the database in between.
  readPragma(database, "locking_mode = EXCLUSIVE");
  const version = identify(database, schema);
  // A damaged page or index could hide a freeze.
  const check = String(readPragma(database, "integrity_check(1)")).replaceAll(/\s+/g, " ");
  if (check !== "ok") throw new Refusal(`it is damaged: ${check}`, damageRemedy(schema));
  const mode = readPragma(database, "journal_mode = WAL");
  if (mode !== journal) throw new Error(`its journal mode stays ${String(mode)}`);
  // With NORMAL, a power loss could undo a commit. That would be acceptable for a new grant, but not for a
  // revocation, because the revoked grant would be back. Therefore every commit waits for the disk.
  database.exec("PRAGMA synchronous = FULL");
  migrate(database, schema, version);
}

/** The version of the schema. @throws {Refusal} if the database belongs to another service */
function identify(database: DatabaseSync, schema: StateSchema): number {
  const { owner, migrations, foreign } = schema;
  const id = Number(readPragma(database, "application_id"));
  const version = Number(readPragma(database, "user_version"));
  const isOurs = id === APPLICATION_IDS[owner];
  if (!isOurs && id !== 0) {
    const other = Object.entries(APPLICATION_IDS).find(([, known]) => known === id)?.[0];
    const whose = other === undefined
      ? `another program's (application_id ${id})`
      : `the state database of a ${other}`;
    throw new Refusal(`it is ${whose}, not of a ${owner}`, FOREIGN);
  }
  if (version > migrations.length) {
    throw new Refusal(`its version is ${version} and this program knows ${migrations.length}`, NEWER);
  }
  const difference = findDifference(database, schema, version);
  if (isOurs && difference !== undefined) {
    throw new Refusal(`it is damaged: ${difference}`, damageRemedy(schema));
  }
  if (!isOurs && foreign !== undefined && finds(database, foreign.query)) {
    throw new Refusal(foreign.cause, FOREIGN);
  }
  if (difference !== undefined) throw new Refusal(`it is another program's: ${difference}`, FOREIGN);
  return version;
}

function finds(database: DatabaseSync, query: string): boolean {
  try {
    return database.prepare(query).get() !== undefined;
  } catch (error) {
    if (resultCode(error) === SQL_ERROR) return false;
    throw error;
  }
}

function migrate(database: DatabaseSync, { owner, migrations }: StateSchema, version: number): void {
  const mark = `PRAGMA application_id = ${APPLICATION_IDS[owner]}`;
  for (const [index, statements] of migrations.entries()) {
    if (index < version) continue;
    database.exec("BEGIN EXCLUSIVE");
    try {
      database.exec(`${statements}\nPRAGMA user_version = ${index + 1};\n${mark}`);
      database.exec("COMMIT");
    } catch (error) {
      if (database.isTransaction) database.exec("ROLLBACK");
      throw error;
    }
  }
  // The file was created by an earlier version of this program, or by another implementation with the same
  // tables.
  if (Number(readPragma(database, "application_id")) === 0) database.exec(mark);
}

// Primary result codes of SQLite (sqlite.org/rescode.html).
const SQL_ERROR = 1;
const BUSY = 5;
const LOCKED = 6;
const CORRUPT = 11;
const FULL = 13;
const NOT_A_DATABASE = 26;

function explain(error: unknown, schema: StateSchema): readonly [message: string, remedy: string] {
  const message = errorText(error);
  if (error instanceof Deno.errors.NotFound) {
    return ["its directory does not exist", "create it, with access for the service's user only"];
  }
  if (error instanceof Deno.errors.NotCapable) {
    const remedy = "start it with the flags that broker-ctl permissions shows for its config";
    return ["outside this process's permissions", remedy];
  }
  switch (resultCode(error)) {
    case BUSY:
    case LOCKED:
      return ["it is in use by another process", IN_USE];
    case CORRUPT:
      return [`it is damaged: ${message}`, damageRemedy(schema)];
    case NOT_A_DATABASE:
      return [message, `${FOREIGN}. If it was ours it is damaged: ${damageRemedy(schema)}`];
    case FULL:
      return [message, "free space on its disk"];
    default:
      return [message, OUT_OF_REACH];
  }
}

/** The primary result code of SQLite; 0 for an error that does not come from SQLite. */
function resultCode(error: unknown): number {
  return error instanceof Error && "errcode" in error && typeof error.errcode === "number"
    ? error.errcode & 0xff
    : 0;
}

/** The `application_id` in the header of each service's file: four letters. A file without one is known by its tables. */
const APPLICATION_IDS = {
  signer: 0x67536967,
  "control plane": 0x6743706c,
  "approval bridge": 0x67427267,
} as const;

/** The tables of a service's file. */
export interface StateSchema {
  readonly owner: keyof typeof APPLICATION_IDS;
  /** The statements from one version to the next; the first one starts from an empty file. */
  readonly migrations: readonly string[];
  /**
   * Describes the consequence of starting without the file, and the operator's next step. The text continues
   * a sentence.
   */
  readonly loss: string;
  /** A query that finds a row only in a file of another implementation with the same tables; the cause continues a sentence. */
  readonly foreign?: { readonly query: string; readonly cause: string };
}

/** The first difference between the tables of a file and those of a version. */
function findDifference(
  database: DatabaseSync,
  { owner, migrations }: StateSchema,
  version: number,
): string | undefined {
  using blank = new DatabaseSync(":memory:");
  for (const statements of migrations.slice(0, version)) blank.exec(statements);
  const [expected, found] = [listColumns(blank), listColumns(database)];
  const [missing] = [...expected].filter((column) => !found.has(column));
  if (missing !== undefined) return `it has no ${missing}, which a ${owner}'s of version ${version} has`;
  const [surplus] = [...found].filter((column) => !expected.has(column));
  return surplus === undefined
    ? undefined
    : `it has a ${surplus}, which a ${owner}'s of version ${version} has not`;
}

/**
 * Lists tables with their columns. A view or trigger is a difference, because it would change the behavior of
 * the tables.
 */
function listColumns(database: DatabaseSync): ReadonlySet<string> {
  const rows = database.prepare(
    `SELECT o.type, o.name, c.name AS "column" FROM sqlite_schema o LEFT JOIN pragma_table_info(o.name) c
      WHERE o.type <> 'index' AND o.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY o.type, o.name, c.cid`,
  ).all();
  return new Set(rows.flatMap(({ type, name, column }) => [
    `${String(type)} ${JSON.stringify(name)}`,
    ...(column === null
      ? []
      : [`column ${JSON.stringify(column)} in ${String(type)} ${JSON.stringify(name)}`]),
  ]));
}
