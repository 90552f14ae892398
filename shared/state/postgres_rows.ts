/**
 * Many rows in one statement: a mass revocation is one exchange with the server, not one for each row.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { insertRows } from "@gateway/shared/state/postgres_rows";
 *
 * const statements: string[] = [];
 * await insertRows((text) => (statements.push(text), Promise.resolve([])), "seen", [{ host: "a" }, { host: "b" }]);
 * assert.deepEqual(statements, ["INSERT INTO seen (host) SELECT host FROM json_populate_recordset(NULL::seen, $1::text::json)"]);
 * ```
 *
 * @module
 */
import type { Parameters } from "./columns.ts";
import type { Query } from "./postgres_access.ts";

/**
 * Inserts rows that have the same columns; none is fine.
 *
 * @param conflict an `ON CONFLICT` clause
 */
export async function insertRows(
  query: Query,
  table: string,
  rows: readonly Parameters[],
  conflict = "",
): Promise<void> {
  const [first] = rows;
  if (first === undefined) return;
  const names = Object.keys(first).join(", ");
  const text = `INSERT INTO ${table} (${names}) SELECT ${names} FROM ` +
    `json_populate_recordset(NULL::${table}, $1::text::json) ${conflict}`;
  await query(text.trimEnd(), [JSON.stringify(rows)]);
}
