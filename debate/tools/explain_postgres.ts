import * as z from "@zod/zod";
import postgres from "postgres";
import { defineTool, type Explain, needsSetting, timeoutArgument } from "./define_tool.ts";
import { refuse, ToolFailure } from "./run_program.ts";
import { checkSql } from "./sql_check.ts";

export const runDbExplain = defineTool({
  name: "run_db_explain",
  description: "Show the plan of a query on the configured PostgreSQL database (EXPLAIN without ANALYZE).",
  schema: z.strictObject({
    query: z.string().min(1).describe("one SELECT or WITH statement; it is planned, not executed"),
    timeout: timeoutArgument(20),
  }),
  missing: needsSetting("DATABASE_URL"),
  async run({ query }, { settings, ports, signal, seconds }) {
    const url = settings.DATABASE_URL;
    if (url === "") refuse("no database is configured: the operator has to set DATABASE_URL");
    const checked = checkSql(query);
    const lines = await ports.explain({ url, query: checked, seconds, signal });
    return { ok: true, title: `EXPLAIN ${checked}`, body: lines.join("\n") };
  },
});

/** Uses a new connection and a read-only transaction. */
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
      // With the last setting, the server reads strings in the same way as `checkSql`.
      await transaction`
        SELECT set_config('statement_timeout', ${timeout}, true), set_config('lock_timeout', ${timeout}, true),
          set_config('standard_conforming_strings', 'on', true)`;
      const [account] = await transaction.unsafe(ACCOUNT);
      if (account?.["is_powerful"] !== false) return refuse(`EXPLAIN gave no plan: ${POWERFUL_ACCOUNT}`);
      // The extended protocol accepts only one statement.
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

/**
 * Whether the account, or a role that it can assume, may read all tables, files or passwords. No plan needs
 * such rights.
 */
const ACCOUNT = `
  SELECT pg_catalog.has_table_privilege('pg_catalog.pg_authid', 'SELECT') OR EXISTS (
    SELECT FROM pg_catalog.pg_roles
    WHERE (rolsuper OR rolbypassrls OR rolcreaterole OR rolreplication OR
        (rolname LIKE 'pg\\_%' AND rolname <> 'pg_database_owner'))
      AND pg_catalog.pg_has_role(current_user, oid, 'MEMBER')
  ) AS is_powerful`;

const POWERFUL_ACCOUNT =
  "the account of DATABASE_URL has more rights than plans need: the operator has to create an " +
  "account without superuser rights and predefined roles that can only select from the tables in question";

/** Reasons by SQLSTATE, or by its first two characters. */
const REASONS: Readonly<Record<string, string>> = {
  "25006": "the query would write",
  "3D000": "the database rejects the configured account",
  "42501": "the configured account cannot select from all tables of the query",
  "42601": "the syntax is wrong",
  "42702": "a column name is ambiguous",
  "42703": "a column does not exist",
  "42803": "the grouping is wrong",
  "42804": "the types do not match",
  "42846": "a cast does not exist",
  "42883": "a function or operator does not exist for these types",
  "42P01": "a table does not exist",
  "42P02": "the query has a parameter",
  "57014": "planning took too long",
  "22": "a value does not have its type",
  "28": "the database rejects the configured account",
  "42": "the query is invalid",
  "53": "the database has no resources left",
  "55": "a lock was not available in time",
};

/**
 * Only the class of an error is reported. The message of the server can contain data that it read while planning,
 * and the message of a failed connection can contain hosts and accounts.
 */
function describe(error: unknown): string {
  const { name = "", code = "" } = error as { readonly name?: string; readonly code?: string };
  if (name !== "PostgresError") {
    return /^[A-Z0-9_]+$/.test(code) ? `no connection (${code})` : "no connection";
  }
  return `${
    REASONS[code] ?? REASONS[code.slice(0, 2)] ?? "the database rejects the query"
  } (SQLSTATE ${code})`;
}
