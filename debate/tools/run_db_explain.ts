/**
 * `run_db_explain`: how the database would run a query. PostgreSQL only.
 *
 * @module
 */
import * as z from "@zod/zod";
import { defineTool, timeoutArgument, ToolFailure, type ToolServices } from "./define_tool.ts";
import type { Explain } from "./explain_postgres.ts";
import { checkSql } from "./sql_check.ts";
import type { Tool } from "../engine/tool.ts";

const schema = z.strictObject({
  query: z.string().min(1).describe("one SELECT or WITH statement; it is planned, not run"),
  database_url: z.string().max(4096).default("").describe("leave out: only the configured database is asked"),
  timeout: timeoutArgument(20),
});

/** The tool; with an empty `databaseUrl` it is not configured. */
export function createRunDbExplain(databaseUrl: string, explain: Explain, services: ToolServices): Tool {
  return defineTool({
    name: "run_db_explain",
    description:
      "Shows the plan of a query (EXPLAIN, without ANALYZE) from the configured PostgreSQL database.",
    schema,
    async run({ query, database_url: requested }, { signal, seconds }) {
      if (databaseUrl === "") {
        throw new ToolFailure("No database is configured: the operator has to set DATABASE_URL");
      }
      if (requested !== "" && requested !== databaseUrl) {
        throw new ToolFailure("Only the configured database can be asked: leave database_url out");
      }
      const checked = checkSql(query);
      if (checked.kind === "refused") throw new ToolFailure(checked.reason);
      const result = await explain({ url: databaseUrl, query: checked.query, seconds, signal });
      if (result.kind === "failed") throw new ToolFailure(`EXPLAIN gave no plan: ${result.reason}`);
      return { ok: true, title: `EXPLAIN ${checked.query}`, body: result.lines.join("\n") };
    },
  }, services);
}
