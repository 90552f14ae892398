import * as z from "@zod/zod";
import { BACKEND_ARGUMENTS, type Call, defineTool, needsSetting } from "./define_tool.ts";
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
    step: z.string().max(10).default("").describe(
      "resolution of a range, such as 30s; enlarged above 120 points",
    ),
    ...BACKEND_ARGUMENTS,
  }),
  missing: needsSetting("PROMETHEUS_URL"),
  async run({ query, start, end, step, base_url }, call) {
    const isRange = start !== "" || end !== "" || step !== "";
    const range = isRange
      ? series.parseRange({ start, end, step }, call.ports.clock.now() / 1000)
      : undefined;
    const { data, warnings = [] } = await askBackend("Prometheus", prometheusAnswer, {
      path: range === undefined ? "/api/v1/query" : "/api/v1/query_range",
      query: {
        query,
        timeout: `${Math.ceil(call.seconds)}s`,
        ...(range !== undefined && {
          start: String(range.start),
          end: String(range.end),
          step: String(range.step),
        }),
      },
      base_url,
    }, call);
    const lines = formatResult(data);
    const [from, to] = range === undefined ? [] : [range.start, range.end].map(series.formatTime);
    const when = range === undefined ? "" : `, ${from} to ${to}, step ${range.step} s`;
    return {
      ok: true,
      title: `PromQL ${query}${when}: ${data.resultType}, ${lines.length} ${
        lines.length === 1 ? "line" : "lines"
      }`,
      body: [...series.limitSeries(lines), ...warnings.map((warning) => `warning: ${warning}`)].join("\n"),
      ...(data.resultType === "matrix" && { chart: series.chartOf(data.result) }),
    };
  },
});

function formatResult(data: z.infer<typeof prometheusAnswer>["data"]): readonly string[] {
  switch (data.resultType) {
    case "vector":
      return data.result.map(({ metric, value }) =>
        `${series.formatLabels(metric)} => ${value?.[1] ?? "(histogram)"}`
      );
    case "matrix":
      return series.formatMatrix(data.result);
    case "scalar":
    case "string":
      return [data.result[1]];
    default:
      return data satisfies never;
  }
}

const names = z.object({ data: z.array(z.string()) });

const alerts = z.object({
  data: z.object({
    alerts: z.array(z.object({
      labels: series.labelsSchema,
      annotations: series.labelsSchema.default({}),
      state: z.string(),
      activeAt: z.string().default("an unknown time"),
    })),
  }),
});

const rules = z.object({
  data: z.object({
    groups: z.array(z.object({
      rules: z.array(z.object({
        type: z.string(),
        name: z.string(),
        query: z.string(),
        state: z.string().default(""),
        lastError: z.string().default(""),
      })),
    })),
  }),
});

export const listPrometheus = defineTool({
  name: "list_prometheus",
  description:
    "Find metrics, labels, the values of a label, active alerts, or alerting and recording rules of Prometheus.",
  schema: z.strictObject({
    what: z.enum(["metrics", "labels", "alerts", "rules"]),
    search: z.string().max(200).default("").describe("only lines that contain this text"),
    match: z.string().max(2000).default("").describe(
      'metrics and labels: only of these series, such as {job="api"}',
    ),
    label: series.labelArgument("labels: list the values of this label"),
    timeout: BACKEND_ARGUMENTS.timeout,
  }),
  missing: needsSetting("PROMETHEUS_URL"),
  async run({ what, search, match, label }, call) {
    const { count, body } = series.formatList(await listLines(what, match, label, call), search);
    const shown = what === "labels" && label !== "" ? `values of ${label}` : what;
    const of = [
      ...(match === "" ? [] : [` of ${match}`]),
      ...(search === "" ? [] : [` with ${JSON.stringify(search)}`]),
    ];
    return { ok: true, title: `Prometheus ${shown}${of.join("")}: ${count}`, body };
  },
});

async function listLines(
  what: "metrics" | "labels" | "alerts" | "rules",
  match: string,
  label: string,
  call: Call,
): Promise<readonly string[]> {
  const query = match === "" ? {} : { "match[]": match };
  switch (what) {
    case "metrics":
      return (await ask(names, "label/__name__/values", query, call)).data;
    case "labels":
      return (await ask(names, label === "" ? "labels" : `label/${label}/values`, query, call)).data;
    case "alerts": {
      const { data } = await ask(alerts, "alerts", {}, call);
      return data.alerts.map(({ labels, annotations, state, activeAt }) => {
        const { alertname = "", ...rest } = labels;
        const said = annotations["summary"] ?? annotations["description"] ?? "";
        return `${alertname}${series.formatLabels(rest)} ${state} since ${activeAt}${
          said === "" ? "" : `: ${said}`
        }`;
      });
    }
    case "rules": {
      const { data } = await ask(rules, "rules", { exclude_alerts: "true" }, call);
      return data.groups.flatMap((group) =>
        group.rules.map(({ type, name, query, state, lastError }) =>
          `${name} (${[type, state].filter((part) => part !== "").join(", ")}): ${query}` +
          (lastError === "" ? "" : ` (error: ${lastError})`)
        )
      );
    }
    default:
      return what satisfies never;
  }
}

function ask<T>(
  schema: z.ZodType<T>,
  path: string,
  query: Readonly<Record<string, string>>,
  call: Call,
): Promise<T> {
  return askBackend("Prometheus", schema, { path: `/api/v1/${path}`, query, base_url: "" }, call);
}
