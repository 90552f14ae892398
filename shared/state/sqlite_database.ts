/**
 * The file of the state database: taken for this process alone, checked, and brought to the known schema.
 *
 * SQLite keeps a `-wal` file beside the database, and holds the file's lock from the first to the last moment,
 * so it needs no shared memory and no second process can read or write it meanwhile.
 *
 * @module
 */
import { DatabaseSync } from "node:sqlite";
import { AppError, errorText } from "../errors.ts";
import { quoteText } from "../quote.ts";
import { APPLICATION_IDS, findDifference, ownerOf, type StateSchema } from "./schema.ts";

/** What to open. */
export interface DatabaseOptions {
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
export function openDatabase({ path, schema, lockWaitMs }: DatabaseOptions): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    createFile(path);
    database = new DatabaseSync(path, { timeout: lockWaitMs, enableForeignKeyConstraints: true });
    prepare(database, schema);
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
export function readPragma(database: DatabaseSync, pragma: string): unknown {
  const row = database.prepare(`PRAGMA ${pragma}`).get();
  return row === undefined ? undefined : Object.values(row)[0];
}

/** What to do about a file that can't be read as it should. */
export function damageRemedy({ loss }: StateSchema): string {
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

function prepare(database: DatabaseSync, schema: StateSchema): void {
  // Before the first access, so that no other process ever gets in.
  readPragma(database, "locking_mode = EXCLUSIVE");
  const version = identify(database, schema);
  // A damaged page or index could hide a freeze.
  const check = String(readPragma(database, "integrity_check(1)")).replaceAll(/\s+/g, " ");
  if (check !== "ok") throw new Refusal(`it is damaged: ${check}`, damageRemedy(schema));
  const mode = readPragma(database, "journal_mode = WAL");
  if (mode !== "wal") throw new Error(`its journal mode stays ${String(mode)}`);
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
