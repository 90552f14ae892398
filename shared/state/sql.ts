/**
 * Statements that SQLite and PostgreSQL understand alike, and the few words in which they differ.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { deleteFrom, insertRow } from "@gateway/shared/state";
 *
 * assert.equal(insertRow("seen", { host: "web01" }).text, "INSERT INTO seen (host) VALUES ($1)");
 * assert.equal(deleteFrom("seen", { host: "web01" }).text, "DELETE FROM seen WHERE host = $1 RETURNING 1");
 * ```
 *
 * @module
 */
import type { Parameters, Row } from "./columns.ts";

/** A statement with its parameters in order: the first one is `$1`. */
export interface Statement {
  readonly text: string;
  readonly parameters?: readonly (string | number)[];
}

/** A transaction. It yields statements, which are sent together, and receives the rows of each. */
export type Steps<T> = Generator<readonly Statement[], T, readonly (readonly Row[])[]>;

/** What the two databases write differently. */
export interface Dialect {
  /** The columns of a `SELECT` that `readText()` and `readInteger()` can read. */
  readonly select: (texts: readonly string[], integers: readonly string[]) => string;
  /** A `SELECT` of rows from the JSON list in `$1`. */
  readonly rowsOf: (table: string, names: readonly string[]) => string;
}

/** SQLite. */
export const SQLITE: Dialect = { select: selectColumns, rowsOf: selectFromJson };

/** PostgreSQL. */
export const POSTGRES: Dialect = {
  select: selectAsBytes,
  rowsOf: (table, names) =>
    `SELECT ${names.join(", ")} FROM json_populate_recordset(NULL::${table}, $1::text::json)`,
};

/** The columns of a `SELECT` for SQLite, for `readText()` and `readInteger()`. */
export function selectColumns(texts: readonly string[], integers: readonly string[]): string {
  return [...texts.map((name) => `CAST(${name} AS BLOB) AS ${name}`), ...integers].join(", ");
}

/** The columns of a `SELECT` for PostgreSQL, for `readText()` and `readInteger()`. */
export function selectAsBytes(texts: readonly string[], integers: readonly string[]): string {
  return [...texts.map((name) => `convert_to(${name}, 'UTF8') AS ${name}`), ...integers].join(", ");
}

function selectFromJson(_table: string, names: readonly string[]): string {
  // Without a WHERE, SQLite would read the ON of ON CONFLICT as the condition of a join.
  return `SELECT ${names.map((name) => `value ->> '${name}'`).join(", ")} FROM json_each($1) WHERE TRUE`;
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
