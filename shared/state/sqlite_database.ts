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

/** What to open. */
export interface DatabaseOptions {
  readonly path: string;
  /** The statements that lead from one version to the next; the first from an empty file to version 1. */
  readonly migrations: readonly string[];
  /** How long to wait for another process that holds the database, in milliseconds. */
  readonly lockWaitMs: number;
}

/**
 * Opens the database, and creates it when there is none, readable by its owner alone.
 *
 * @throws {AppError} `invalid_config` when it can't be opened, is in use by another process, is damaged, or
 * was written by a newer version
 */
export function openDatabase({ path, migrations, lockWaitMs }: DatabaseOptions): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    createFile(path);
    database = new DatabaseSync(path, { timeout: lockWaitMs, enableForeignKeyConstraints: true });
    prepare(database, migrations);
    return database;
  } catch (error) {
    database?.close();
    throw new AppError("invalid_config", `Cannot open state_db ${quoteText(path)}: ${explain(error)}`, {
      cause: error,
    });
  }
}

/** One value of a row with one column. */
export function readPragma(database: DatabaseSync, pragma: string): unknown {
  const row = database.prepare(`PRAGMA ${pragma}`).get();
  return row === undefined ? undefined : Object.values(row)[0];
}

function createFile(path: string): void {
  try {
    Deno.openSync(path, { write: true, createNew: true, mode: 0o600 }).close();
  } catch (error) {
    // Left alone: to open and close a file in a process drops every lock that SQLite holds on it there (fcntl(2)).
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
}

function prepare(database: DatabaseSync, migrations: readonly string[]): void {
  // Before the first access, so that no other process ever gets in.
  readPragma(database, "locking_mode = EXCLUSIVE");
  const version = Number(readPragma(database, "user_version"));
  if (version > migrations.length) {
    throw new Error(`its version is ${version} and this program knows ${migrations.length}`);
  }
  const mode = readPragma(database, "journal_mode = WAL");
  if (mode !== "wal") throw new Error(`its journal mode stays ${String(mode)}`);
  // NORMAL would be enough for a grant. A revocation is a deny: after a loss of power the grant must not be
  // back, so every commit waits for the disk.
  database.exec("PRAGMA synchronous = FULL");
  // A damaged page or index could hide a freeze.
  const check = String(readPragma(database, "integrity_check(1)"));
  if (check !== "ok") throw new Error(`it is damaged: ${check}`);
  migrate(database, migrations, version);
}

function migrate(database: DatabaseSync, migrations: readonly string[], version: number): void {
  for (const [index, statements] of migrations.entries()) {
    if (index < version) continue;
    database.exec("BEGIN EXCLUSIVE");
    try {
      database.exec(`${statements}\nPRAGMA user_version = ${index + 1}`);
      database.exec("COMMIT");
    } catch (error) {
      if (database.isTransaction) database.exec("ROLLBACK");
      throw error;
    }
  }
}

// Primary result codes of SQLite (sqlite.org/rescode.html).
const BUSY = 5;
const LOCKED = 6;

function explain(error: unknown): string {
  if (error instanceof Deno.errors.NotFound) return "its folder does not exist";
  if (error instanceof Deno.errors.NotCapable) return "outside this process's permissions";
  const code = error instanceof Error && "errcode" in error && typeof error.errcode === "number"
    ? error.errcode & 0xff
    : 0;
  return code === BUSY || code === LOCKED ? "it is in use by another process" : errorText(error);
}
