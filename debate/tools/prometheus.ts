import * as z from "@zod/zod";
import { count } from "../engine/graph/text.ts";
import { defineTool, needsSetting, timeoutArgument } from "./define_tool.ts";
import { askBackend } from "./http_fetch.ts";
import * as series from "./series.ts";

const prometheusAnswer = z.object({
  data: z.discriminatedUnion("resultType", [
    z.object({
      resultType: z.literal("vector"),
      result: z.array(z.object({ metric: series.labelsSchema, value: series.sampleSchema.optional() })),
    }),
    z.object({ resultType: z.literal("matrix"), result: series.matrixSchema }),
    z.object({ resultType: z.enum(["scalar", "string"]), result: series.sampleSchema }),
  ]),
  warnings: z.array(z.string()).optional(),
});

const TIME = "ISO 8601, or a duration before now such as 2h";

export const queryPrometheus = defineTool({
  name: "query_prometheus",
  description: "Evaluate a PromQL expression now, or with start, end or step over a range. Returns up to " +
    `${series.MAX_SERIES} series, each of a range with its minimum, maximum and last value. ` +
    "list_prometheus finds metrics, labels, alerts and rules.",
  schema: z.strictObject({
    query: z.string().min(1).max(8192).describe("PromQL expression"),
    start: z.string().max(40).default("").describe(`start of a range: ${TIME}; default: 1 hour before end`),
    end: z.string().max(40).default("").describe("end of a range, like start; default: now"),
    step: z.string().max(10).default("").describe("resolution, such as 30s; enlarged above 120 points"),
    timeout: timeoutArgument(15),
  }),
  missing: needsSetting("PROMETHEUS_URL"),
  async run({ query, start, end, step }, call) {
    const range = start + end + step === ""
      ? undefined
      : series.parseRange({ start, end, step }, Math.floor(call.ports.clock.now() / 1000));
    const { data, warnings = [] } = await askBackend("Prometheus", prometheusAnswer, {
      path: range === undefined ? "/api/v1/query" : "/api/v1/query_range",
      query: { query, timeout: `${Math.ceil(call.seconds)}s`, ...range },
    }, call);
    const lines = formatResult(data);
    const when = range === undefined ? "" : `, ${range.start} to ${range.end}, step ${range.step}`;
    return {
      ok: true,
      title: `PromQL ${query}${when}: ${data.resultType}, ${count(lines.length, "line")}`,
      body: [...series.limitSeries(lines), ...warnings.map((warning) => `warning: ${warning}`)].join("\n"),
      ...(data.resultType === "matrix" && { chart: series.chartOf(data.result) }),
    };
  },
});

function formatResult({ resultType, result }: z.infer<typeof prometheusAnswer>["data"]): readonly string[] {
  if (resultType === "matrix") return series.formatMatrix(result);
  if (resultType !== "vector") return [result[1]];
  return result.map(({ metric, value }) =>
    `${series.formatLabels(metric)} => ${value?.[1] ?? "(histogram)"}`
  );
}

const alerts = z.object({
  data: z.object({
    alerts: z.array(z.object({
      labels: series.labelsSchema,
      annotations: series.labelsSchema.default({}),
      state: z.string(),
      activeAt: z.string().default("an unknown time"),
    })),
  }),
}).transform(({ data }) =>
  data.alerts.map(({ labels: { alertname: __name__ = "", ...rest }, annotations, state, activeAt }) => {
    const { summary, description = "no summary" } = annotations;
    return `${series.formatLabels({ __name__, ...rest })} ${state} since ${activeAt}: ${
      summary ?? description
    }`;
  })
);

const rule = z.object({
  type: z.string(),
  name: z.string(),
  query: z.string(),
  state: z.string().default(""),
  lastError: z.string().default(""),
}).transform(({ type, name, query, state, lastError }) =>
  `${name} (${state || type}): ${query}${lastError === "" ? "" : ` (error: ${lastError})`}`
);
const rules = z.object({ data: z.object({ groups: z.array(z.object({ rules: z.array(rule) })) }) })
  .transform(({ data }) => data.groups.flatMap((group) => group.rules));

/** The path and the lines of each list. */
const LISTS = {
  metrics: { path: "label/__name__/values", schema: series.namesSchema },
  labels: { path: "labels", schema: series.namesSchema },
  alerts: { path: "alerts", schema: alerts },
  rules: { path: "rules", schema: rules },
} as const;

export const listPrometheus = defineTool({
  name: "list_prometheus",
  description:
    "Find metrics, labels, the values of a label, active alerts, or alerting and recording rules of Prometheus.",
  schema: z.strictObject({
    what: z.enum(["metrics", "labels", "alerts", "rules"]),
    label: series.labelArgument("labels: list the values of this label"),
    match: series.matchArgument('metrics, labels: only of these series, such as {job="api"}'),
    search: series.searchArgument,
    timeout: timeoutArgument(15),
  }),
  missing: needsSetting("PROMETHEUS_URL"),
  async run({ what, label, match, search }, call) {
    const { path, schema } = LISTS[what];
    const lines = await askBackend<readonly string[]>("Prometheus", schema, {
      path: `/api/v1/${what === "labels" && label !== "" ? `label/${label}/values` : path}`,
      query: match === "" ? {} : { "match[]": match },
    }, call);
    const shown = [what, label, match].filter((part) => part !== "").join(" ");
    return series.formatList(`Prometheus ${shown}`, lines, search);
  },
});
