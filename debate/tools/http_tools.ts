import * as z from "@zod/zod";
import { dropPartialWord } from "../engine/graph/text.ts";
import { countArgument, defineTool, timeoutArgument } from "./define_tool.ts";
import { refuse } from "./run_program.ts";
import { askBackend, fetchGuarded, parseHttpUrl } from "./http_fetch.ts";
import { isApprovable } from "./net_guard.ts";
import { checkIndex, checkSearchBody, MAX_HITS } from "./search_body.ts";

const MAX_BODY_BYTES = 256 * 1024;

const TEXT_TYPE =
  /^(?:text\/|application\/(?:[\w.-]+\+)?(?:json|xml|yaml)\b|application\/(?:x-ndjson|javascript|openmetrics-text|problem\+json|x-yaml))/i;

export const httpGet = defineTool({
  name: "http_get",
  description:
    "Send one HTTP GET request, for example to a health endpoint. Returns status, content type and text. " +
    "The operator must have allowed the host. A call of another public host may wait for approval.",
  schema: z.strictObject({
    url: z.string().max(4096).describe("http: or https: URL, without credentials"),
    timeout: timeoutArgument(10),
  }),
  needOf({ url: asked }, { allowed }) {
    const { hostname, port, protocol } = parseHttpUrl(asked);
    if (!isApprovable(hostname, allowed)) return undefined;
    return `${hostname}:${port || (protocol === "https:" ? "443" : "80")} is not in HTTP_ALLOWED_HOSTS`;
  },
  async run({ url: asked }, call) {
    const start = parseHttpUrl(asked);
    const answer = await fetchGuarded(start, { method: "GET", maxBytes: MAX_BODY_BYTES }, call);
    const { url, status, statusText, headers, body, isCut } = answer;
    const type = headers["content-type"] ?? "";
    const encoding = headers["content-encoding"] ?? "identity";
    if (encoding !== "identity") {
      // Do not decompress a response, because a small one can expand to gigabytes.
      refuse(`${start.host} responded ${status} with a compressed body (${encoding}), which is not shown`);
    }
    const isText = (type === "" || TEXT_TYPE.test(type)) && !body.subarray(0, 8192).includes(0);
    const text = new TextDecoder().decode(body);
    const lines = [
      ...(url.href === start.href ? [] : [`final URL: ${url.href}`]),
      `content-type: ${type === "" ? "none" : type}`,
      ...(isCut ? [`truncated after ${MAX_BODY_BYTES} bytes`] : []),
      "",
      !isText ? `(${body.length} bytes of binary data, not shown)` : isCut ? dropPartialWord(text) : text,
    ];
    // A status of 500 is a valid result, because it shows the state of the service.
    return { ok: true, title: `GET ${start.href}: ${status} ${statusText}`, body: lines.join("\n") };
  },
});

/** Common arguments of the tools for configured servers. */
const BACKEND_ARGUMENTS = {
  base_url: z.string().max(2048).default("").describe("omit: only the configured server is allowed"),
  timeout: timeoutArgument(15),
};

const MAX_SERIES = 25;

const sample = z.tuple([z.number(), z.string()]);
const labels = z.record(z.string(), z.string());
const prometheusAnswer = z.object({
  data: z.discriminatedUnion("resultType", [
    z.object({
      resultType: z.literal("vector"),
      result: z.array(z.object({ metric: labels, value: sample.optional() })),
    }),
    z.object({
      resultType: z.literal("matrix"),
      result: z.array(z.object({ metric: labels, values: z.array(sample).optional() })),
    }),
    z.object({ resultType: z.enum(["scalar", "string"]), result: sample }),
  ]),
  warnings: z.array(z.string()).optional(),
});

export const queryPrometheus = defineTool({
  name: "query_prometheus",
  description: `Evaluate a PromQL expression at the current time. Returns up to ${MAX_SERIES} series.`,
  schema: z.strictObject({
    query: z.string().min(1).max(8192).describe("PromQL expression"),
    ...BACKEND_ARGUMENTS,
  }),
  async run({ query, base_url }, call) {
    const { data, warnings = [] } = await askBackend("Prometheus", prometheusAnswer, {
      path: "/api/v1/query",
      query: { query, timeout: `${Math.ceil(call.seconds)}s` },
      base_url,
    }, call);
    const lines = formatResult(data);
    const rest = lines.length - MAX_SERIES;
    return {
      ok: true,
      title: `PromQL ${query}: ${data.resultType}, ${lines.length} ${lines.length === 1 ? "line" : "lines"}`,
      body: [
        ...(lines.length === 0 ? ["(no series)"] : lines.slice(0, MAX_SERIES)),
        ...(rest > 0 ? [`(${rest} more, not shown)`] : []),
        ...warnings.map((warning) => `warning: ${warning}`),
      ].join("\n"),
    };
  },
});

function formatResult(data: z.infer<typeof prometheusAnswer>["data"]): readonly string[] {
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

function formatLabels({ __name__: name = "", ...labels }: Readonly<Record<string, string>>): string {
  return `${name}{${
    Object.entries(labels).map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(", ")
  }}`;
}

const MAX_LINES = 500;
const MAX_MINUTES = 7 * 24 * 60;

const lokiAnswer = z.object({
  data: z.object({
    resultType: z.string(),
    result: z.array(z.object({
      stream: labels.optional(),
      metric: labels.optional(),
      // [nanoseconds, line] for streams, [seconds, value] for metrics; newer servers add a third member.
      values: z.array(z.tuple([z.union([z.string(), z.number()]), z.string()], z.unknown())),
    })),
  }),
});

export const queryLoki = defineTool({
  name: "query_loki",
  description: "Run a LogQL query over the last minutes. Returns the newest log lines of each label set.",
  schema: z.strictObject({
    query: z.string().min(1).max(8192).describe("LogQL query"),
    base_url: BACKEND_ARGUMENTS.base_url,
    minutes: z.int().min(1).max(MAX_MINUTES).default(15).describe("time range in minutes, up to now"),
    limit: countArgument(50, MAX_LINES, "number of newest lines"),
    timeout: BACKEND_ARGUMENTS.timeout,
  }),
  async run({ query, base_url, minutes, limit }, call) {
    const end = BigInt(call.ports.clock.now()) * 1_000_000n;
    const { data: { resultType, result } } = await askBackend("Loki", lokiAnswer, {
      path: "/loki/api/v1/query_range",
      query: {
        query,
        start: String(end - BigInt(minutes) * 60_000_000_000n),
        end: String(end),
        limit: String(limit),
        direction: "backward",
      },
      base_url,
    }, call);
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
});

function formatTime(time: string | number): string {
  const text = String(time);
  if (!/^\d{16,19}$/.test(text)) return text;
  return new Date(Number(BigInt(text) / 1_000_000n)).toISOString();
}

const elasticsearchAnswer = z.object({
  timed_out: z.boolean().optional(),
  hits: z.object({
    total: z.union([z.number(), z.object({ value: z.number(), relation: z.string() })]).optional(),
    hits: z.array(z.object({
      _index: z.string().optional(),
      _source: z.unknown().optional(),
      fields: z.unknown().optional(),
    })),
  }),
  aggregations: z.unknown().optional(),
});

export const queryElasticsearch = defineTool({
  name: "query_elasticsearch",
  description:
    "Search an Elasticsearch index. Usual queries and aggregations are allowed, scripts are not. Returns the source " +
    "of each hit and the aggregations.",
  schema: z.strictObject({
    index: z.string().min(1).max(1024).describe("index names separated by commas; * is a wildcard"),
    query_json: z.string().describe("JSON body of the _search request: query, sort, aggs, _source, ..."),
    base_url: BACKEND_ARGUMENTS.base_url,
    size: z.int().min(0).default(20).describe(`number of hits, at most ${MAX_HITS}`),
    timeout: BACKEND_ARGUMENTS.timeout,
  }),
  async run({ index, query_json: text, base_url, size }, call) {
    checkIndex(index);
    const answer = await askBackend("Elasticsearch", elasticsearchAnswer, {
      path: `/${index.split(",").map(encodeURIComponent).join(",")}/_search`,
      body: { ...checkSearchBody(text, size), timeout: `${Math.ceil(call.seconds)}s` },
      base_url,
    }, call);
    const { timed_out, hits: { total, hits }, aggregations } = answer;
    return {
      ok: true,
      title: `search ${index}: ${formatTotal(total)}, ${hits.length} shown`,
      body: [
        ...(timed_out ? ["(timed out: partial result)"] : []),
        ...hits.map(({ _index, _source, fields }) =>
          `${_index ?? ""} ${JSON.stringify(_source ?? fields ?? null)}`
        ),
        ...(hits.length === 0 ? ["(no hits)"] : []),
        ...(aggregations === undefined ? [] : [`aggregations: ${JSON.stringify(aggregations, null, 1)}`]),
      ].join("\n"),
    };
  },
});

function formatTotal(total: z.infer<typeof elasticsearchAnswer>["hits"]["total"]): string {
  if (total === undefined) return "hits not counted";
  if (typeof total === "number") return `${total} hits`;
  return `${total.relation === "gte" ? "at least " : ""}${total.value} hits`;
}
