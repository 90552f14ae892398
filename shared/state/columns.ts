/**
 * Columns of a state database: how they are named in a statement, and read from a row.
 *
 * Texts are read as bytes: read as text, one with a NUL in it would come back cut off, and a scope of one
 * caller as that of another or of all.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { readText } from "@gateway/shared/state";
 *
 * assert.equal(readText({ host: new TextEncoder().encode("web01") }, "host"), "web01");
 * assert.throws(() => readText({ host: new Uint8Array(1) }, "host"), /column host holds a NUL/);
 * ```
 *
 * @module
 */
import { AppError } from "../errors.ts";
import { parseStandardJson } from "../json.ts";

/** A row as the database gives it: by column, integers as bigint, texts as bytes. */
export type Row = Readonly<Record<string, unknown>>;

/** What a statement is given for a named parameter. */
export type Parameters = Record<string, string | number>;

/** The columns of a `SELECT`, such that {@linkcode readText} and {@linkcode readInteger} can read them. */
export function selectColumns(texts: readonly string[], integers: readonly string[]): string {
  return [...texts.map((name) => `CAST(${name} AS BLOB) AS ${name}`), ...integers].join(", ");
}

/** Likewise for PostgreSQL. */
export function selectAsBytes(texts: readonly string[], integers: readonly string[]): string {
  return [...texts.map((name) => `convert_to(${name}, 'UTF8') AS ${name}`), ...integers].join(", ");
}

/** A statement with its parameters in order. */
interface Statement {
  /** With `$1` for the first parameter. */
  readonly text: string;
  /** What stands for `$1` and so on. */
  readonly parameters: readonly (string | number)[];
}

/** An `INSERT` of a row for PostgreSQL. */
export function insertRow(table: string, row: Parameters): Statement {
  const names = Object.keys(row);
  const places = names.map((_, index) => `$${index + 1}`);
  return {
    text: `INSERT INTO ${table} (${names.join(", ")}) VALUES (${places.join(", ")})`,
    parameters: Object.values(row),
  };
}

/** An `INSERT` of these columns, each from the parameter of its name. */
export function insertInto(table: string, names: readonly string[]): string {
  return `INSERT INTO ${table} (${names.join(", ")}) VALUES (${names.map((name) => `:${name}`).join(", ")})`;
}

/**
 * The text of a column.
 *
 * @throws {TypeError} when it is not text, not UTF-8, or holds a NUL
 */
export function readText(row: Row, column: string): string {
  const bytes = row[column];
  if (!(bytes instanceof Uint8Array)) throw new TypeError(`column ${column} is not text`);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new TypeError(`column ${column} is not UTF-8`);
  }
  if (text.includes("\0")) throw new TypeError(`column ${column} holds a NUL`);
  return text;
}

/**
 * The integer of a column.
 *
 * @throws {TypeError} when it is not an integer, or beyond the safe range
 */
export function readInteger(row: Row, column: string): number {
  const value = row[column];
  const number = typeof value === "bigint" ? Number(value) : NaN;
  if (!Number.isSafeInteger(number)) throw new TypeError(`column ${column} is not an integer in range`);
  return number;
}

/**
 * A column that is 0 or 1.
 *
 * @throws {TypeError} when it is neither
 */
export function readFlag(row: Row, column: string): boolean {
  const value = readInteger(row, column);
  if (value !== 0 && value !== 1) throw new TypeError(`column ${column}: ${value} is neither 0 nor 1`);
  return value === 1;
}

/**
 * A time in milliseconds from a column in units of so many.
 *
 * @throws {TypeError} when it is not a time, or could not be shown, nor compared
 */
export function readTime(row: Row, column: string, unitMs: number): number {
  const ms = readInteger(row, column) * unitMs;
  // The range of Date.
  if (Math.abs(ms) > 8.64e15) throw new TypeError(`column ${column} is not a time in range`);
  return ms;
}

/**
 * A list of texts from JSON; it may have been written as `null` when it was empty.
 *
 * @throws {TypeError} when it is not such a list
 */
export function readStrings(row: Row, column: string): readonly string[] {
  let value: unknown;
  try {
    value = parseStandardJson(readText(row, column));
  } catch (error) {
    if (error instanceof TypeError) throw error;
    throw new TypeError(`column ${column} is not JSON`);
  }
  if (value === null) return [];
  if (!Array.isArray(value)) throw new TypeError(`column ${column} is not a list`);
  return value.map((item: unknown) => {
    if (typeof item === "string") return item;
    throw new TypeError(`column ${column} is not a list of texts`);
  });
}

/**
 * Refuses text that a database could give back shorter than it took it: a scope cut off at a NUL would be
 * another's, or everyone's.
 *
 * @throws {AppError} `internal`
 */
export function checkStorable(texts: readonly string[]): void {
  if (texts.every((text) => text.isWellFormed() && !text.includes("\0"))) return;
  throw new AppError("internal", "The change could not be stored: a text in it is not storable");
}

/** A text column for a warning, whatever is in it. */
export function showText(row: Row, column: string): string {
  const bytes = row[column];
  return bytes instanceof Uint8Array ? new TextDecoder().decode(bytes) : "";
}

/** How rows become values. */
export interface RowReader<T> {
  /** Throws when the row can't be read. */
  readonly decode: (row: Row) => T;
  /** The column that names a row in a warning. */
  readonly key: string;
  /** Of a row that can't be read. */
  readonly warning: string;
}

/** Told of what can't be read and is left out. */
export type StateWarner = (message: string, fields: Readonly<Record<string, unknown>>) => void;

/** Rows as values; one that can't be read is left out with a warning. */
export function readRows<T>(
  rows: readonly Row[],
  { decode, key, warning }: RowReader<T>,
  warn: StateWarner,
): readonly T[] {
  return rows.flatMap((row) => {
    try {
      return [decode(row)];
    } catch (error) {
      warn(warning, { [key]: showText(row, key), error });
      return [];
    }
  });
}
