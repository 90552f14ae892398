import * as z from "@zod/zod";
import postgres from "postgres";
import { defineTool, type Explain, timeoutArgument } from "./define_tool.ts";
import { refuse, ToolFailure } from "./run_program.ts";
import { checkSql } from "./sql_check.ts";

export const runDbExplain = defineTool({
  name: "run_db_explain",
  description:
    "Shows the plan of a query (EXPLAIN, without ANALYZE) from the configured PostgreSQL database.",
  schema: z.strictObject({
    query: z.string().min(1).describe("one SELECT or WITH statement; it is planned, not run"),
    database_url: z.string().max(4096).default("").describe(
      "leave out: only the configured database is asked",
    ),
    timeout: timeoutArgument(20),
  }),
  async run({ query, database_url: requested }, { settings, ports, signal, seconds }) {
    const url = settings.DATABASE_URL;
    if (url === "") refuse("No database is configured: the operator has to set DATABASE_URL");
    if (requested !== "" && requested !== url) {
      refuse("Only the configured database can be asked: leave database_url out");
    }
    const checked = checkSql(query);
    const lines = await ports.explain({ url, query: checked, seconds, signal });
    return { ok: true, title: `EXPLAIN ${checked}`, body: lines.join("\n") };
  },
});

/** Explains over a connection of its own, in a read-only transaction. */
export const explainPostgres: Explain = async ({ url, query, seconds, signal }) => {
  signal.throwIfAborted();
  let sql: postgres.Sql | undefined;
  const close = () => void sql?.end({ timeout: 0 });
  try {
    sql = postgres(url, {
      max: 1,
      connect_timeout: Math.ceil(seconds),
      prepare: false,
      fetch_types: false,
      onnotice: () => {},
      connection: { application_name: "diagnosis-debate" },
    });
    signal.addEventListener("abort", close, { once: true });
    const timeout = String(Math.ceil(seconds * 1000));
    const rows = await sql.begin("READ ONLY", async (transaction) => {
      // The last setting makes the server read strings in the same way as `checkSql`.
      await transaction`
        SELECT set_config('statement_timeout', ${timeout}, true), set_config('lock_timeout', ${timeout}, true),
          set_config('standard_conforming_strings', 'on', true)`;
      const [account] = await transaction.unsafe(ACCOUNT);
      if (account?.["is_powerful"] !== false) return refuse(`EXPLAIN gave no plan: ${POWERFUL_ACCOUNT}`);
      // The extended protocol accepts only one statement, whatever the text contains.
      const extended: postgres.UnsafeQueryOptions & { readonly simple: false } = { simple: false };
      return await transaction.unsafe(`EXPLAIN ${query}`, [], extended);
    });
    return rows.map((row) => String(row["QUERY PLAN"]));
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    return refuse(error instanceof ToolFailure ? error.message : `EXPLAIN gave no plan: ${describe(error)}`);
  } finally {
    signal.removeEventListener("abort", close);
    await sql?.end({ timeout: 0 });
  }
};

/** Whether the account, or one that it could become, may read what no plan needs: all tables, files, passwords. */
const ACCOUNT = `
  SELECT pg_catalog.has_table_privilege('pg_catalog.pg_authid', 'SELECT') OR EXISTS (
    SELECT FROM pg_catalog.pg_roles
    WHERE (rolsuper OR rolbypassrls OR rolcreaterole OR rolreplication OR
        (rolname LIKE 'pg\\_%' AND rolname <> 'pg_database_owner'))
      AND pg_catalog.pg_has_role(current_user, oid, 'MEMBER')
  ) AS is_powerful`;

const POWERFUL_ACCOUNT =
  "the account of DATABASE_URL may read more than plans need: the operator has to make " +
  "one that is not a superuser, has no predefined role, and may only select from the tables in question";

/** By SQLSTATE, or by its first two characters. */
const REASONS: Readonly<Record<string, string>> = {
  "25006": "it would write",
  "3D000": "the database refuses the configured account",
  "42501": "the configured account may not select from all of its tables",
  "42601": "its syntax is wrong",
  "42702": "a name in it could mean several columns",
  "42703": "a column in it does not exist",
  "42803": "its grouping is wrong",
  "42804": "the types in it do not fit together",
  "42846": "a cast in it does not exist",
  "42883": "a function or operator in it does not exist for these types",
  "42P01": "a table in it does not exist",
  "42P02": "it has a parameter",
  "57014": "it took too long",
  "22": "a value in it is not of its type",
  "28": "the database refuses the configured account",
  "42": "it is invalid",
  "53": "the database has no resources left",
  "55": "a lock was not available in time",
};

/**
 * The class of an error. The server's own message may contain what it has read while planning, and one about the
 * connection may name hosts and accounts.
 */
function describe(error: unknown): string {
  const { name = "", code = "" } = error as { readonly name?: string; readonly code?: string };
  if (name !== "PostgresError") {
    return /^[A-Z0-9_]+$/.test(code) ? `no connection (${code})` : "no connection";
  }
  return `${REASONS[code] ?? REASONS[code.slice(0, 2)] ?? "the database refuses it"} (SQLSTATE ${code})`;
}
