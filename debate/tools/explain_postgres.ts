/**
 * Plans from PostgreSQL.
 *
 * @module
 */
import { errorText } from "@gateway/shared/errors";
import postgres from "postgres";

/** A query to explain; it has passed `checkSql`. */
export interface ExplainRequest {
  /** With its credentials; never in a result. */
  readonly url: string;
  readonly query: string;
  readonly seconds: number;
  /** Ends the connection. */
  readonly signal: AbortSignal;
}

/** The lines of a plan, or why there is none, without anything of the URL. */
export type ExplainResult =
  | { readonly kind: "plan"; readonly lines: readonly string[] }
  | { readonly kind: "failed"; readonly reason: string };

/** Asks the database for a plan; the query itself is not run. */
export type Explain = (request: ExplainRequest) => Promise<ExplainResult>;

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
      await transaction`
        SELECT set_config('statement_timeout', ${timeout}, true), set_config('lock_timeout', ${timeout}, true)`;
      // The extended protocol takes one statement only, whatever the text holds.
      const extended: postgres.UnsafeQueryOptions & { readonly simple: false } = { simple: false };
      return await transaction.unsafe(`EXPLAIN ${query}`, [], extended);
    });
    return { kind: "plan", lines: rows.map((row) => String(row["QUERY PLAN"])) };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    return { kind: "failed", reason: describe(error) };
  } finally {
    signal.removeEventListener("abort", close);
    await sql?.end({ timeout: 0 });
  }
};

/** What the database says about the query may be told; what is about the connection names hosts and accounts. */
function describe(error: unknown): string {
  const { name = "", code = "" } = error as { readonly name?: string; readonly code?: string };
  if (name !== "PostgresError") {
    return /^[A-Z0-9_]+$/.test(code) ? `no connection (${code})` : "no connection";
  }
  if (code.startsWith("28") || code === "3D000") return "the database refuses the configured account";
  return `${errorText(error)} (SQLSTATE ${code})`;
}
