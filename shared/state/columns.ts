/**
 * Columns, rows and statements of a state database. Texts are read as bytes, because a database would
 * truncate a text at a NUL: the scope of one caller would become the scope of another caller, or of all
 * callers.
 *
 * @module
 */
import { AppError } from "../errors.ts";
import { parseStandardJson } from "../json.ts";
import { quoteText } from "../text.ts";

/** A row as the database gives it: by column, integers as bigint, texts as bytes. */
export type Row = Readonly<Record<string, unknown>>;

/** The named parameters of a statement. */
export type Parameters = Record<string, string | number>;

/** The text of a column. @throws {TypeError} if it is not text, not UTF-8, or contains a NUL */
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

/** The integer of a column. @throws {TypeError} if it is not an integer in the safe range */
export function readInteger(row: Row, column: string): number {
  const value = row[column];
  const number = typeof value === "bigint" ? Number(value) : NaN;
  if (!Number.isSafeInteger(number)) throw new TypeError(`column ${column} is not an integer in range`);
  return number;
}

/** A column that is 0 or 1. @throws {TypeError} if it is neither */
export function readFlag(row: Row, column: string): boolean {
  const value = readInteger(row, column);
  if (value !== 0 && value !== 1) throw new TypeError(`column ${column}: ${value} is neither 0 nor 1`);
  return value === 1;
}

/** A time in milliseconds from a column in units of `unitMs`. @throws {TypeError} if it is not a time in range */
export function readTime(row: Row, column: string, unitMs: number): number {
  const ms = readInteger(row, column) * unitMs;
  // The range of Date, in milliseconds.
  if (Math.abs(ms) > 8.64e15) throw new TypeError(`column ${column} is not a time in range`);
  return ms;
}

/** A list of texts from JSON; `null` is an empty list. @throws {TypeError} if it is not such a list */
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
 * Rejects text that a database could truncate, which would change the scope of a row. @throws {AppError}
 * `internal`
 */
export function checkStorable(texts: readonly string[]): void {
  if (texts.every((text) => text.isWellFormed() && !text.includes("\0"))) return;
  throw new AppError("internal", "The change could not be stored: a text in it is not storable");
}

/** A text column for a warning, even if the column is malformed. */
export function showText(row: Row, column: string): string {
  const bytes = row[column];
  return bytes instanceof Uint8Array ? new TextDecoder().decode(bytes) : "";
}

/** Reads rows, of which unreadable ones may be skipped. */
export interface RowReader<T> {
  readonly decode: (row: Row) => T;
  /** The column that names a row in a warning. */
  readonly key: string;
  readonly warning: string;
}

/** Called for data that cannot be read and is skipped. */
export type StateWarner = (message: string, fields: Readonly<Record<string, unknown>>) => void;

/** Decodes rows. An unreadable row is skipped with a warning. */
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

/** Decodes rows. An unreadable row is an error, because a deny must never be skipped. */
export function readAll<T>(
  rows: readonly Row[],
  decode: (row: Row) => T,
  unreadable: (error: unknown) => AppError,
): readonly T[] {
  try {
    return rows.map(decode);
  } catch (error) {
    throw unreadable(error);
  }
}

/** A column, and the encoding of its value. */
export interface Column<V> {
  readonly name: string;
  readonly isText: boolean;
  readonly encode: (value: V) => string | number;
  /** Throws `TypeError` if the column cannot be read. */
  readonly decode: (row: Row) => V;
}

type ColumnOf<V> = (name: string) => Column<V>;

function columnOf<V>(
  isText: boolean,
  encode: Column<V>["encode"],
  read: (row: Row, name: string) => V,
): ColumnOf<V> {
  return (name) => ({ name, isText, encode, decode: (row) => read(row, name) });
}

/** A text. */
export const textColumn: ColumnOf<string> = columnOf(true, String, readText);
/** A list of texts, kept as JSON. */
export const listColumn: ColumnOf<readonly string[]> = columnOf(
  true,
  (list) => JSON.stringify(list),
  readStrings,
);
/** An integer. */
export const integerColumn: ColumnOf<number> = columnOf(false, Number, readInteger);
/** A boolean, kept as 0 or 1. */
export const flagColumn: ColumnOf<boolean> = columnOf(false, Number, readFlag);

/** A time in milliseconds, kept in units of `unitMs` and rounded down. */
export function timeColumn(name: string, unitMs: number): Column<number> {
  return columnOf<number>(false, (ms) => Math.floor(ms / unitMs), (row) => readTime(row, name, unitMs))(name);
}

/** A text that is one of a fixed set of words. */
export function wordColumn<W extends string>(name: string, words: readonly W[]): Column<W> {
  return columnOf<W>(true, String, (row) => {
    const text = readText(row, name);
    const word = words.find((known) => known === text);
    if (word === undefined) throw new TypeError(`unknown ${name} ${quoteText(text)}`);
    return word;
  })(name);
}

/** Columns of one kind by property name: the property `endUser` is stored in the column `end_user`. */
export function columnsOf<V, Name extends string>(
  column: ColumnOf<V>,
  ...names: Name[]
): Record<Name, Column<V>> {
  const snakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(names.map((name) => [name, column(snakeCase(name))])) as Record<Name, Column<V>>;
}

/** A table whose rows are values of one type: each column is declared once. */
export class Table<T extends object> {
  readonly name: string;
  readonly texts: readonly string[];
  readonly integers: readonly string[];
  readonly #columns: readonly (readonly [keyof T, Column<T[keyof T]>])[];

  /** @param columns by the property that each one keeps */
  constructor(name: string, columns: { readonly [K in keyof T]: Column<T[K]> }) {
    this.name = name;
    this.#columns = Object.entries(columns) as [keyof T, Column<T[keyof T]>][];
    const names = (isText: boolean) =>
      this.#columns.filter(([, column]) => column.isText === isText).map(([, column]) => column.name);
    this.texts = names(true);
    this.integers = names(false);
  }

  /** The columns of a value. @throws {AppError} `internal` if a text cannot be stored */
  encode(value: T): Parameters {
    const row = Object.fromEntries(
      this.#columns.map(([key, { name, encode }]) => [name, encode(value[key])]),
    );
    checkStorable(Object.values(row).filter((each) => typeof each === "string"));
    return row;
  }

  /** The value of a row. @throws {TypeError} naming the column that cannot be read */
  decode(row: Row): T {
    return Object.fromEntries(this.#columns.map(([key, { decode }]) => [key, decode(row)])) as T;
  }
}

/** A statement with its parameters in order: the first one is `$1`. */
export interface Statement {
  readonly text: string;
  readonly parameters?: readonly (string | number)[];
}

/** A transaction. It yields statements, which are sent together, and receives the rows of each. */
export type Steps<T> = Generator<readonly Statement[], T, readonly (readonly Row[])[]>;

/** The SQL that differs between the two databases. */
export interface Dialect {
  /** The columns of a `SELECT`, in the form for {@linkcode readText} and {@linkcode readInteger}. */
  readonly select: (texts: readonly string[], integers: readonly string[]) => string;
  /** A `SELECT` of rows from the JSON list in `$1`. */
  readonly rowsOf: (table: string, names: readonly string[]) => string;
}

/** SQLite. */
export const SQLITE: Dialect = {
  select: selectColumns,
  // Without WHERE, SQLite would parse the ON of ON CONFLICT as the condition of a join.
  rowsOf: (_table, names) =>
    `SELECT ${names.map((name) => `value ->> '${name}'`).join(", ")} FROM json_each($1) WHERE TRUE`,
};

/** PostgreSQL. */
export const POSTGRES: Dialect = {
  select: selectAsBytes,
  rowsOf: (table, names) =>
    `SELECT ${names.join(", ")} FROM json_populate_recordset(NULL::${table}, $1::text::json)`,
};

/** {@linkcode Dialect.select} of SQLite. */
export function selectColumns(texts: readonly string[], integers: readonly string[]): string {
  return [...texts.map((name) => `CAST(${name} AS BLOB) AS ${name}`), ...integers].join(", ");
}

/** {@linkcode Dialect.select} of PostgreSQL. */
export function selectAsBytes(texts: readonly string[], integers: readonly string[]): string {
  return [...texts.map((name) => `convert_to(${name}, 'UTF8') AS ${name}`), ...integers].join(", ");
}

/** An `INSERT` of one row. */
export function insertRow(table: string, row: Parameters): Required<Statement> {
  const names = Object.keys(row);
  const places = names.map((_, index) => `$${index + 1}`);
  return {
    text: `INSERT INTO ${table} (${names.join(", ")}) VALUES (${places.join(", ")})`,
    parameters: Object.values(row),
  };
}

/** An `INSERT` of rows that have the same columns; no statement for no rows. */
export function insertRows(
  { rowsOf }: Dialect,
  table: string,
  rows: readonly Parameters[],
  conflict = "",
): readonly Statement[] {
  const [first] = rows;
  if (first === undefined) return [];
  const names = Object.keys(first);
  const text = `INSERT INTO ${table} (${names.join(", ")}) ${rowsOf(table, names)} ${conflict}`;
  return [{ text, parameters: [JSON.stringify(rows)] }];
}

/** A `DELETE` of the rows that have these values; it returns one row for each. */
export function deleteFrom(table: string, values: Parameters): Statement {
  const condition = Object.keys(values).map((name, index) => `${name} = $${index + 1}`).join(" AND ");
  return { text: `DELETE FROM ${table} WHERE ${condition} RETURNING 1`, parameters: Object.values(values) };
}

/** An `INSERT` of these columns for SQLite, each from the parameter of its name. */
export function insertInto(table: string, names: readonly string[]): string {
  return `INSERT INTO ${table} (${names.join(", ")}) VALUES (${names.map((name) => `:${name}`).join(", ")})`;
}
