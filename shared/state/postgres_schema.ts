/**
 * The schema of a service in PostgreSQL. One instance creates and migrates it while others wait.
 *
 * @module
 */
import { type AppError, configError } from "../errors.ts";
import type { PostgresSession } from "./postgres_session.ts";

/** The tables of a service. */
export interface PostgresSchema {
  /** The schema's name in the database, and the channel of its notifications. */
  readonly name: string;
  readonly owner: string;
  /**
   * The statements from one version to the next, with table names without the schema. Append new ones, and
   * never change existing ones.
   */
  readonly migrations: readonly string[];
  /**
   * The oldest version whose programs may use these tables during an upgrade of one instance after another. A
   * migration keeps this version only if older programs can ignore the addition without permitting more. Any
   * other migration sets it to its own version.
   */
  readonly oldest?: number;
}

/** The migration that adds {@linkcode PostgresSchema.oldest} to the database. */
export const ADD_OLDEST_COLUMN = "ALTER TABLE schema_version ADD COLUMN oldest int8 NOT NULL DEFAULT 0;";

/**
 * The time limit of the checks at the start. A busy machine may be slow then, and only other starting
 * instances wait.
 */
const LOOK_MS = 10_000;

const OTHERS = "name a separate database in state_db; this one was not changed";

/**
 * @throws {AppError} `invalid_config` with cause and fix if the tables belong to another program, were
 * altered, or are newer. In this case nothing was changed
 */
export async function migrate(session: PostgresSession, schema: PostgresSchema): Promise<void> {
  const { name, owner, migrations } = schema;
  await session.query(`BEGIN; SET LOCAL idle_in_transaction_session_timeout = ${LOOK_MS}`);
  await session.query("SELECT pg_advisory_xact_lock(hashtext($1), 1)", [`gateway ${name}`]);
  const found = await readVersion(session, name);
  if (found === "foreign") {
    throw configError(`Cannot use state_db: its schema ${name} is another program's; ${OTHERS}`);
  }
  const { version } = found;
  if (found.oldest > migrations.length) throw newerSchema(owner, version, migrations.length);
  if (version > 0 && version <= migrations.length) await compare(session, schema, version);
  await session.query([...upgrade(schema, version), "COMMIT"].join(";\n"));
}

/** The migration and its end are sent together, so that other instances do not wait for this program. */
function* upgrade({ name, migrations, oldest }: PostgresSchema, version: number): Generator<string> {
  if (version >= migrations.length) return;
  if (version === 0) {
    yield `CREATE SCHEMA IF NOT EXISTS ${name}`;
    yield `CREATE TABLE ${name}.schema_version (version int8 NOT NULL)`;
    yield `INSERT INTO ${name}.schema_version VALUES (0)`;
  }
  yield* migrations.slice(version);
  yield `UPDATE ${name}.schema_version SET version = ${migrations.length}`;
  if (oldest !== undefined) yield `UPDATE ${name}.schema_version SET oldest = ${oldest}`;
}

function newerSchema(owner: string, version: number, known: number): AppError {
  return configError(
    `Cannot use state_db: the schema of the ${owner} has version ${version} and this program knows ${known}; ` +
      "start the program version that wrote it, or a later one; the database was not changed",
  );
}

/**
 * Reads the version of the tables; 0 if there are none. Tables without `oldest` are only for programs of
 * their own version.
 */
async function readVersion(
  session: PostgresSession,
  name: string,
): Promise<{ readonly version: number; readonly oldest: number } | "foreign"> {
  const [found] = await session.query(
    `SELECT (to_regclass($1) IS NOT NULL)::int::int8 AS is_ours,
      (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $2) AS others`,
    [`${name}.schema_version`, name],
  );
  if (found?.["is_ours"] !== 1n) return found?.["others"] === 0n ? { version: 0, oldest: 0 } : "foreign";
  const rows = await session.query(
    `SELECT version::int8 AS version, coalesce((to_jsonb(v) ->> 'oldest')::int8, version::int8) AS oldest
      FROM ${name}.schema_version v`,
  );
  const [version, oldest] = rows.length === 1
    ? [Number(rows[0]?.["version"]), Number(rows[0]?.["oldest"])]
    : [];
  const isOurs = [version, oldest].every((each) => Number.isSafeInteger(each) && Number(each) >= 1);
  return isOurs && version !== undefined && oldest !== undefined ? { version, oldest } : "foreign";
}

/** Creates the tables of this version next to the existing ones, and compares them. */
async function compare(session: PostgresSession, schema: PostgresSchema, version: number): Promise<void> {
  const { name, owner, migrations } = schema;
  const twin = `${name}_as_it_should_be`;
  await session.query("SAVEPOINT before_twin");
  await session.query(`CREATE SCHEMA ${twin}`);
  await session.query(`SET LOCAL search_path = ${twin}`);
  await session.query("CREATE TABLE schema_version (version int8 NOT NULL)");
  for (const statements of migrations.slice(0, version)) await session.query(statements);
  const [expected, found] = [await listColumns(session, twin), await listColumns(session, name)];
  await session.query("ROLLBACK TO SAVEPOINT before_twin");
  const [missing] = [...expected].filter((column) => !found.has(column));
  const [surplus] = [...found].filter((column) => !expected.has(column));
  if (missing === undefined && surplus === undefined) return;
  const difference = missing === undefined ? `it also has ${surplus}` : `it lacks ${missing}`;
  throw configError(
    `Cannot use state_db: its schema ${name} was altered: ${difference}, for a ${owner} of version ${version}; ` +
      "stop all instances and restore a backup, or name an empty database in state_db",
  );
}

/**
 * Lists tables with their columns, keys and triggers, because a trigger or another key would change the
 * behavior of the tables.
 */
async function listColumns(session: PostgresSession, schema: string): Promise<ReadonlySet<string>> {
  const rows = await session.query(
    `SELECT format('%s.%s %s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attnotnull THEN ' not null' ELSE '' END) AS item
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
      WHERE n.nspname = $1 AND c.relkind IN ('r', 'v', 'm', 'p', 'f') AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL SELECT format('%s %s', c.relname, pg_get_constraintdef(o.oid))
      FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND o.contype <> 'n'
    UNION ALL SELECT format('trigger %s on %s', t.tgname, c.relname)
      FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND NOT t.tgisinternal
    UNION ALL SELECT format('rule %s on %s', r.rulename, r.tablename) FROM pg_rules r WHERE r.schemaname = $1`,
    [schema],
  );
  return new Set(rows.map(({ item }) => String(item)));
}
