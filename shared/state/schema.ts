/**
 * What a state database has to look like, and whose it is. `application_id` in the file's header tells (at
 * sqlite.org/fileformat2.html); a file without one, of an earlier version or of another implementation, is known
 * by its tables.
 *
 * @module
 */
import { DatabaseSync } from "node:sqlite";

/** The number in the header of each service's database: four letters, which `file` shows as a number. */
export const APPLICATION_IDS = {
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
export function ownerOf(applicationId: number): StateOwner | undefined {
  const owners = Object.keys(APPLICATION_IDS) as StateOwner[];
  return owners.find((owner) => APPLICATION_IDS[owner] === applicationId);
}

/** How the tables of a file differ from those of a version of the schema; `undefined` when they don't. */
export function findDifference(
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
