import * as z from "@zod/zod";
import { defineTool, refuse, timeoutArgument, type ToolServices } from "./define_tool.ts";
import type { Explain } from "./explain_postgres.ts";
import { checkSql } from "./sql_check.ts";
import type { Tool } from "../engine/ports.ts";

const schema = z.strictObject({
  query: z.string().min(1).describe("one SELECT or WITH statement; it is planned, not run"),
  database_url: z.string().max(4096).default("").describe("leave out: only the configured database is asked"),
  timeout: timeoutArgument(20),
});

export function createRunDbExplain(databaseUrl: string, explain: Explain, services: ToolServices): Tool {
  return defineTool({
    name: "run_db_explain",
    description:
      "Shows the plan of a query (EXPLAIN, without ANALYZE) from the configured PostgreSQL database.",
    schema,
    async run({ query, database_url: requested }, { signal, seconds }) {
      if (databaseUrl === "") refuse("No database is configured: the operator has to set DATABASE_URL");
      if (requested !== "" && requested !== databaseUrl) {
        refuse("Only the configured database can be asked: leave database_url out");
      }
      const checked = checkSql(query);
      const result = await explain({ url: databaseUrl, query: checked, seconds, signal });
      if (result.kind === "failed") refuse(`EXPLAIN gave no plan: ${result.reason}`);
      return { ok: true, title: `EXPLAIN ${checked}`, body: result.lines.join("\n") };
    },
  }, services);
}
