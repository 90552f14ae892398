/**
 * Reading and changing a state database. Needs read and write permission on its file and no other: SQLite
 * itself makes the `-wal` file beside it, so the operating system's user needs the folder.
 *
 * ```ts ignore
 * import { SqliteAccess } from "@gateway/shared/state";
 *
 * const access = SqliteAccess.open(schema, { path: "/var/lib/gateway/seen.db", warn: console.warn });
 * await access.change(() => access.run("INSERT INTO seen VALUES (:name)", { name: "web01" }));
 * ```
 *
 * @module
 */
import { DatabaseSync } from "node:sqlite";
import { AppError, errorText } from "../errors.ts";
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

/** Where a database is, and who hears of it. */
export interface StateFile {
  /** The file, which is created in an existing directory; empty: memory, which ends with the process. */
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

  /**
   * The rows of a query as values, for an action.
   *
   * @throws {AppError} `invalid_config` if one cannot be read
   */
  readAll<T>(rows: readonly Row[], what: string, decode: (row: Row) => T): readonly T[] {
    return readAll(rows, decode, (cause) => {
      const place = `Cannot use state_db ${quoteText(this.#file.path)}`;
      const problem = `${what} can't be read: ${errorText(cause)}`;
      return new AppError("invalid_config", `${place}: ${problem}; ${damageRemedy(this.#schema)}`, { cause });
    });
  }

  /** Runs a transaction's statements, for an action. */
  perform<T>(steps: Steps<T>): T {
    let step = steps.next();
    while (step.done !== true) {
      step = steps.next(
        step.value.map(({ text, parameters = [] }) =>
          this.rows(
            text,
            Object.fromEntries(
              parameters.entries().map(
                ([index, value]) => [`${index + 1}`, value],
              ),
            ),
          )
        ),
      );
    }
    return step.value;
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

interface DatabaseOptions {
  readonly path: string;
  readonly schema: StateSchema;
  /** How long to wait for another process that holds the database, in milliseconds. */
  readonly lockWaitMs: number;
}

/**
 * Opens the database, and creates it when there is none, readable by its owner alone. One that is refused is left
 * as it is.
 *
 * @throws {AppError} `invalid_config` with cause and remedy when it can't be opened, is in use by another process,
 * is damaged, is another program's, or was written by a newer version
 */
function openDatabase({ path, schema, lockWaitMs }: DatabaseOptions): DatabaseSync {
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
    const { message, remedy } = error instanceof Refusal ? error : explain(error, schema);
    throw new AppError("invalid_config", `Cannot open state_db ${quoteText(path)}: ${message}; ${remedy}`, {
      cause: error,
    });
  }
}

/** One value of a row with one column. */
function readPragma(database: DatabaseSync, pragma: string): unknown {
  const row = database.prepare(`PRAGMA ${pragma}`).get();
  return row === undefined ? undefined : Object.values(row)[0];
}

/** What to do about a file that can't be read as it should. */
function damageRemedy({ loss }: StateSchema): string {
  return `stop the service, keep this file, and put a backup in its place; without one move it away, and ${loss}`;
}

const FOREIGN = "name a file of its own, or a new one, in state_db; this one is left as it is";
const NEWER = "start the program that wrote it, or a later one; the file is left as it is";
const IN_USE = "stop that one first, or name another file in state_db: only one process can use it";
const OUT_OF_REACH = "let the service's user read and write the file, and write its folder";

/** Why a file is not opened, and what to do. */
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
    // Left alone: to open and close a file in a process drops every lock that SQLite holds on it there (fcntl(2)).
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
}

function prepare(database: DatabaseSync, schema: StateSchema, journal: "wal" | "memory"): void {
  // Before the first access, so that no other process ever gets in.
  readPragma(database, "locking_mode = EXCLUSIVE");
  const version = identify(database, schema);
  // A damaged page or index could hide a freeze.
  const check = String(readPragma(database, "integrity_check(1)")).replaceAll(/\s+/g, " ");
  if (check !== "ok") throw new Refusal(`it is damaged: ${check}`, damageRemedy(schema));
  const mode = readPragma(database, "journal_mode = WAL");
  if (mode !== journal) throw new Error(`its journal mode stays ${String(mode)}`);
  // NORMAL would be enough for a grant. A revocation is a deny: after a loss of power the grant must not be
  // back, so every commit waits for the disk.
  database.exec("PRAGMA synchronous = FULL");
  migrate(database, schema, version);
}

/** Gives the version of a database that is this service's. */
function identify(database: DatabaseSync, schema: StateSchema): number {
  const { owner, migrations, foreign } = schema;
  const id = Number(readPragma(database, "application_id"));
  const version = Number(readPragma(database, "user_version"));
  const isOurs = id === APPLICATION_IDS[owner];
  if (!isOurs && id !== 0) {
    const other = ownerOf(id);
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

/** False also where there is no such table or column. */
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
  // Of an earlier version of this program, or of another implementation with the same tables.
  if (Number(readPragma(database, "application_id")) === 0) database.exec(mark);
}

// Primary result codes of SQLite (sqlite.org/rescode.html).
const SQL_ERROR = 1;
const BUSY = 5;
const LOCKED = 6;
const CORRUPT = 11;
const FULL = 13;
const NOT_A_DATABASE = 26;

function explain(
  error: unknown,
  schema: StateSchema,
): { readonly message: string; readonly remedy: string } {
  const message = errorText(error);
  if (error instanceof Deno.errors.NotFound) {
    return { message: "its folder does not exist", remedy: "make it, for the service's user alone" };
  }
  if (error instanceof Deno.errors.NotCapable) {
    const remedy = "start it with the flags that broker-ctl permissions shows for its config";
    return { message: "outside this process's permissions", remedy };
  }
  switch (resultCode(error)) {
    case BUSY:
    case LOCKED:
      return { message: "it is in use by another process", remedy: IN_USE };
    case CORRUPT:
      return { message: `it is damaged: ${message}`, remedy: damageRemedy(schema) };
    case NOT_A_DATABASE:
      return { message, remedy: `${FOREIGN}. If it was ours it is damaged: ${damageRemedy(schema)}` };
    case FULL:
      return { message, remedy: "make room on its disk" };
    default:
      return { message, remedy: OUT_OF_REACH };
  }
}

/** The primary result code of SQLite; 0 for an error that is not of SQLite. */
function resultCode(error: unknown): number {
  return error instanceof Error && "errcode" in error && typeof error.errcode === "number"
    ? error.errcode & 0xff
    : 0;
}

/** The number in the header of each service's database: four letters, which `file` shows as a number. */
const APPLICATION_IDS = {
  signer: 0x67536967,
  "control plane": 0x6743706c,
  "approval bridge": 0x67427267,
} as const;

/** A service that keeps a state database. */
type StateOwner = keyof typeof APPLICATION_IDS;

/** What another implementation's file is known by. */
interface ForeignMark {
  /** Finds a row in such a file, and none in ours. */
  readonly query: string;
  /** What is wrong with it; continues a sentence. */
  readonly cause: string;
}

/** The database of one service. */
export interface StateSchema {
  readonly owner: StateOwner;
  /** The statements that lead from one version to the next; the first from an empty file to version 1. */
  readonly migrations: readonly string[];
  /** What is gone without the file, and what an operator then has to do; continues a sentence. */
  readonly loss: string;
  /** Tells another implementation's file that has tables of the same names. */
  readonly foreign?: ForeignMark;
}

/** Whose database has this number; `undefined` for nobody's of ours. */
function ownerOf(applicationId: number): StateOwner | undefined {
  const owners = Object.keys(APPLICATION_IDS) as StateOwner[];
  return owners.find((owner) => APPLICATION_IDS[owner] === applicationId);
}

/** How the tables of a file differ from those of a version of the schema; `undefined` when they don't. */
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

/** Tables with their columns; a view or trigger would change what ours mean. */
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
