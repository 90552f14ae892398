/**
 * The schema of one service in a PostgreSQL database: made, checked and brought up to date by one instance while
 * others wait.
 *
 * @module
 */
import { AppError } from "../errors.ts";
import type { PostgresSession } from "./postgres_session.ts";

/** The tables of one service. */
export interface PostgresSchema {
  /** The schema's name in the database, and the channel of its notifications. */
  readonly name: string;
  readonly owner: string;
  /**
   * The statements that lead from one version to the next; names of tables without the schema. To change it, append
   * one, and never edit one that was released.
   */
  readonly migrations: readonly string[];
  /**
   * The oldest version whose programs may go on with these tables while instances are upgraded one after another. A
   * migration that leaves it as it is adds only what such a program need not know: it writes rows without the new
   * columns, does not read the new tables, and must not decide wider for that. Any other migration sets it to its own.
   * `undefined` before there is {@linkcode SAY_OLDEST}: no older one may.
   */
  readonly oldest?: number;
}

/** Says which programs may use the tables, for a migration that sets {@linkcode PostgresSchema.oldest} to its own. */
export const SAY_OLDEST = "ALTER TABLE schema_version ADD COLUMN oldest int8 NOT NULL DEFAULT 0;";

/**
 * For how long this program may think about what it reads: who starts on a busy machine is slow, and only others that
 * start wait for it.
 */
const LOOK_MS = 10_000;

const OTHERS = "name a database of its own in state_db; this one is left as it is";

/**
 * Makes what is missing.
 *
 * @throws {AppError} `invalid_config` with cause and remedy when the tables are another program's, altered, or of a
 * newer version; nothing has changed then
 */
export async function migrate(session: PostgresSession, schema: PostgresSchema): Promise<void> {
  const { name, owner, migrations } = schema;
  await session.query(`BEGIN; SET LOCAL idle_in_transaction_session_timeout = ${LOOK_MS}`);
  // All at once: the others find it done.
  await session.query("SELECT pg_advisory_xact_lock(hashtext($1), 1)", [`gateway ${name}`]);
  const found = await readVersion(session, name);
  if (found === "foreign") {
    throw new AppError(
      "invalid_config",
      `Cannot use state_db: its schema ${name} is another program's; ${OTHERS}`,
    );
  }
  const { version } = found;
  if (found.oldest > migrations.length) throw newerSchema(owner, version, migrations.length);
  if (version > 0 && version <= migrations.length) await compare(session, schema, version);
  await session.query([...upgrade(schema, version), "COMMIT"].join(";\n"));
}

/** What leads from a version to this program's; sent at once with its end, so that nobody waits for this program's pace. */
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

/** What an instance says that is too old for the schema. */
function newerSchema(owner: string, version: number, known: number): AppError {
  return new AppError(
    "invalid_config",
    `Cannot use state_db: the schema of the ${owner} has version ${version} and this program knows ${known}; ` +
      "start the program that wrote it, or a later one; the database is left as it is",
  );
}

/** Version 0: there is nothing yet. Tables that do not say who may use them are for programs of their version alone. */
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

/** Makes the tables of a version beside those that are there, and looks for a difference. */
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
  const difference = missing === undefined ? `it has ${surplus} too much` : `it lacks ${missing}`;
  throw new AppError(
    "invalid_config",
    `Cannot use state_db: its schema ${name} was altered: ${difference}, for a ${owner} of version ${version}; ` +
      "stop all instances and put a backup in its place, or name an empty database in state_db",
  );
}

/** Tables with their columns, keys and triggers: a trigger or another key would change what ours mean. */
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
