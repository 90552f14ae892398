import * as z from "@zod/zod";
import { type Call, countArgument, defineTool, needsSetting, timeoutArgument } from "./define_tool.ts";
import { askBackend } from "./http_fetch.ts";
import * as series from "./series.ts";

const MAX_LINES = 500;
const MAX_MINUTES = 7 * 24 * 60;

const lokiAnswer = z.object({
  data: z.discriminatedUnion("resultType", [
    z.object({
      resultType: z.literal("streams"),
      result: z.array(z.object({
        stream: series.labelsSchema.default({}),
        // [nanoseconds, line]; newer servers add a third member.
        values: z.array(z.tuple([z.union([z.string(), z.number()]), z.string()], z.unknown())),
      })),
    }),
    z.object({ resultType: z.literal("matrix"), result: series.matrixSchema }),
  ]),
});

export const queryLoki = defineTool({
  name: "query_loki",
  description: "Run a LogQL query over the last minutes. Returns the newest log lines of each label set.",
  schema: z.strictObject({
    query: z.string().min(1).max(8192).describe("LogQL query"),
    minutes: z.int().min(1).max(MAX_MINUTES).default(15).describe("time range in minutes, up to now"),
    limit: countArgument(50, MAX_LINES, "number of newest lines"),
    timeout: timeoutArgument(15),
  }),
  missing: needsSetting("LOKI_URL"),
  async run({ query, minutes, limit }, call) {
    const { data } = await askBackend("Loki", lokiAnswer, {
      path: "/loki/api/v1/query_range",
      query: { query, ...lastMinutes(minutes, call), limit: String(limit), direction: "backward" },
    }, call);
    const isMetric = data.resultType === "matrix";
    const count = data.result.reduce((sum, { values = [] }) => sum + values.length, 0);
    const lines = isMetric ? series.limitSeries(series.formatMatrix(data.result)) : data.result.flatMap((
      { stream, values },
    ) => [series.formatLabels(stream), ...values.map(([time, line]) => `  ${formatTime(time)} ${line}`)]);
    return {
      ok: true,
      title: `LogQL ${query}, last ${minutes} min: ${count} ${isMetric ? "samples" : "lines"}`,
      body: count === 0 ? "(nothing)" : lines.join("\n"),
      ...(isMetric && { chart: series.chartOf(data.result) }),
    };
  },
});

function lastMinutes(minutes: number, { ports }: Call) {
  const end = BigInt(ports.clock.now()) * 1_000_000n;
  return { start: String(end - BigInt(minutes) * 60_000_000_000n), end: String(end) };
}

function formatTime(time: string | number): string {
  const text = String(time);
  if (!/^\d{16,19}$/.test(text)) return text;
  return new Date(Number(BigInt(text) / 1_000_000n)).toISOString();
}

const streams = z.object({ data: z.array(series.labelsSchema).default([]) })
  .transform(({ data }) => data.map(series.formatLabels));

export const listLoki = defineTool({
  name: "list_loki",
  description: "Find the labels of Loki, the values of a label, or the log streams that match a selector.",
  schema: z.strictObject({
    label: series.labelArgument("list the values of this label"),
    match: series.matchArgument('list the log streams of this selector, such as {app="web"}'),
    search: series.searchArgument,
    minutes: z.int().min(1).max(MAX_MINUTES).default(60).describe("time range in minutes, up to now"),
    timeout: timeoutArgument(15),
  }),
  missing: needsSetting("LOKI_URL"),
  async run({ label, match, search, minutes }, call) {
    const isStreams = match !== "" && label === "";
    const path = isStreams ? "series" : label === "" ? "labels" : `label/${label}/values`;
    const chosen = match === "" ? {} : { [isStreams ? "match[]" : "query"]: match };
    const lines = await askBackend<readonly string[]>("Loki", isStreams ? streams : series.namesSchema, {
      path: `/loki/api/v1/${path}`,
      query: { ...lastMinutes(minutes, call), ...chosen },
    }, call);
    const what = isStreams ? "streams" : `labels ${label}`;
    return series.formatList(`Loki ${what} ${match}, last ${minutes} min`, lines, search);
  },
});
