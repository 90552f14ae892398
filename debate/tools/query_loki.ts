import * as z from "@zod/zod";
import { askBackend } from "./backend.ts";
import { countArgument, defineTool, refuse, timeoutArgument, type ToolServices } from "./define_tool.ts";
import type { HttpPorts } from "./http_fetch.ts";
import { formatLabels } from "./query_prometheus.ts";
import type { Tool } from "../engine/ports.ts";

const MAX_LIMIT = 500;
const MAX_MINUTES = 7 * 24 * 60;

const schema = z.strictObject({
  query: z.string().min(1).max(8192).describe("LogQL query"),
  base_url: z.string().max(2048).default("").describe("leave out: only the configured server is asked"),
  minutes: z.int().min(1).max(MAX_MINUTES).default(15).describe("how far back to look"),
  limit: countArgument(50, MAX_LIMIT, "how many of the newest lines"),
  timeout: timeoutArgument(15),
});

// [nanoseconds, line] for streams, [seconds, value] for metrics; newer servers add a third member.
const entry = z.tuple([z.union([z.string(), z.number()]), z.string()], z.unknown());
const stream = z.object({
  stream: z.record(z.string(), z.string()).optional(),
  metric: z.record(z.string(), z.string()).optional(),
  values: z.array(entry),
});
const answerShape = z.object({ data: z.object({ resultType: z.string(), result: z.array(stream) }) });

export function createQueryLoki(baseUrl: string, ports: HttpPorts, services: ToolServices): Tool {
  const backend = { what: "Loki", setting: "LOKI_URL", baseUrl };
  return defineTool({
    name: "query_loki",
    description: "Runs a LogQL query over the last minutes and shows the newest log lines by label set.",
    schema,
    async run({ query, base_url: requestedUrl, minutes, limit }, { signal }) {
      const end = BigInt(services.clock.now()) * 1_000_000n;
      const json = await askBackend(backend, {
        path: "/loki/api/v1/query_range",
        query: {
          query,
          start: String(end - BigInt(minutes) * 60_000_000_000n),
          end: String(end),
          limit: String(limit),
          direction: "backward",
        },
        requestedUrl,
        signal,
      }, ports);
      const answer = answerShape.safeParse(json);
      if (!answer.success) return refuse("Loki answered in an unknown form");
      const { resultType, result } = answer.data.data;
      const count = result.reduce((sum, { values }) => sum + values.length, 0);
      const isMetric = resultType === "matrix";
      return {
        ok: true,
        title: `LogQL ${query}, last ${minutes} min: ${count} ${isMetric ? "samples" : "lines"}`,
        body: count === 0 ? "(nothing)" : result.flatMap(({ stream, metric, values }) => [
          formatLabels(stream ?? metric ?? {}),
          ...values.map(([time, line]) => isMetric ? `  ${line} @${time}` : `  ${formatTime(time)} ${line}`),
        ]).join("\n"),
      };
    },
  }, services);
}

function formatTime(time: string | number): string {
  const text = String(time);
  if (!/^\d{16,19}$/.test(text)) return text;
  return new Date(Number(BigInt(text) / 1_000_000n)).toISOString();
}
