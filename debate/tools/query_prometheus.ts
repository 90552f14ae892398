import * as z from "@zod/zod";
import { askBackend } from "./backend.ts";
import { defineTool, refuse, timeoutArgument, type ToolServices } from "./define_tool.ts";
import type { HttpPorts } from "./http_fetch.ts";
import type { Tool } from "../engine/ports.ts";

const MAX_SERIES = 25;

const schema = z.strictObject({
  query: z.string().min(1).max(8192).describe("PromQL expression"),
  base_url: z.string().max(2048).default("").describe("leave out: only the configured server is asked"),
  timeout: timeoutArgument(15),
});

const sample = z.tuple([z.number(), z.string()]);
const labels = z.record(z.string(), z.string());
const answerShape = z.object({
  data: z.discriminatedUnion("resultType", [
    z.object({
      resultType: z.literal("vector"),
      result: z.array(z.object({ metric: labels, value: sample.optional() })),
    }),
    z.object({
      resultType: z.literal("matrix"),
      result: z.array(z.object({ metric: labels, values: z.array(sample).optional() })),
    }),
    z.object({ resultType: z.literal("scalar"), result: sample }),
    z.object({ resultType: z.literal("string"), result: sample }),
  ]),
  warnings: z.array(z.string()).optional(),
});

export function createQueryPrometheus(baseUrl: string, ports: HttpPorts, services: ToolServices): Tool {
  const backend = { what: "Prometheus", setting: "PROMETHEUS_URL", baseUrl };
  return defineTool({
    name: "query_prometheus",
    description: `Evaluates a PromQL expression now and shows up to ${MAX_SERIES} series as labels => value.`,
    schema,
    async run({ query, base_url: requestedUrl }, { signal, seconds }) {
      const json = await askBackend(backend, {
        path: "/api/v1/query",
        query: { query, timeout: `${Math.ceil(seconds)}s` },
        requestedUrl,
        signal,
      }, ports);
      const answer = answerShape.safeParse(json);
      if (!answer.success) return refuse("Prometheus answered in an unknown form");
      const { data, warnings = [] } = answer.data;
      const lines = formatResult(data);
      const rest = lines.length - MAX_SERIES;
      return {
        ok: true,
        title: `PromQL ${query}: ${data.resultType}, ${lines.length} ${
          lines.length === 1 ? "line" : "lines"
        }`,
        body: [
          ...(lines.length === 0 ? ["(no series)"] : lines.slice(0, MAX_SERIES)),
          ...(rest > 0 ? [`(${rest} more, not shown)`] : []),
          ...warnings.map((warning) => `warning: ${warning}`),
        ].join("\n"),
      };
    },
  }, services);
}

function formatResult(data: z.infer<typeof answerShape>["data"]): readonly string[] {
  switch (data.resultType) {
    case "vector":
      return data.result.map(({ metric, value }) =>
        `${formatLabels(metric)} => ${value?.[1] ?? "(histogram)"}`
      );
    case "matrix":
      return data.result.map(({ metric, values = [] }) =>
        `${formatLabels(metric)} => ${values.map(([time, value]) => `${value} @${time}`).join(", ")}`
      );
    case "scalar":
    case "string":
      return [data.result[1]];
    default:
      return data satisfies never;
  }
}

export function formatLabels({ __name__: name = "", ...labels }: Readonly<Record<string, string>>): string {
  return `${name}{${
    Object.entries(labels).map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(", ")
  }}`;
}
