/** Series, labels and lists of metrics servers, as text for the model and as charts for the page. */
import { cutText } from "@gateway/shared/text";
import * as z from "@zod/zod";
import { type Chart, MAX_CHART_POINTS, MAX_CHART_SERIES } from "../engine/events.ts";
import { type Finding, thin } from "./define_tool.ts";
import { refuse } from "./run_program.ts";

export const labelsSchema = z.record(z.string(), z.string());

/** The name of a label, which becomes a part of a path. */
export const labelArgument = (meaning: string) =>
  z.string().regex(/^(?:[A-Za-z_]\w{0,199})?$/, "must be the name of a label").default("").describe(meaning);

type Labels = z.infer<typeof labelsSchema>;

/** A time in seconds since the epoch, and a value. */
export const sampleSchema = z.tuple([z.number(), z.string()]);

/** A list of names. Loki omits an empty list. */
export const namesSchema = z.object({ data: z.array(z.string()).default([]) }).transform(({ data }) => data);

export const matrixSchema = z.array(z.object({
  metric: labelsSchema,
  values: z.array(sampleSchema).optional(),
}));

type Matrix = z.infer<typeof matrixSchema>;

export const MAX_SERIES = 25;

/** The number of points that the text shows of all series together. */
const SHOWN_POINTS = 40;
const MAX_SHOWN_SERIES = 8;

export function formatLabels({ __name__: name = "", ...labels }: Labels): string {
  return `${name}{${
    Object.entries(labels).map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(", ")
  }}`;
}

/** The first lines, and the number of the others. */
export function limitSeries(lines: readonly string[]): readonly string[] {
  const rest = lines.length - MAX_SERIES;
  if (lines.length === 0) return ["(no series)"];
  return [
    ...lines.slice(0, MAX_SERIES),
    ...(rest > 0 ? [`(${rest} more, not shown: aggregate or filter)`] : []),
  ];
}

/** A line with minimum, maximum and last value for each series, with some points if there are few series. */
export function formatMatrix(matrix: Matrix): readonly string[] {
  const shown = matrix.length > MAX_SHOWN_SERIES ? 0 : Math.floor(SHOWN_POINTS / matrix.length);
  return matrix.map(({ metric, values = [] }) => {
    const points = values.map(([seconds, text]) => ({ at: formatTime(seconds), text, value: Number(text) }));
    const numbers = points.filter(({ value }) => Number.isFinite(value)).toSorted((a, b) =>
      a.value - b.value
    );
    const [min, max, first, last] = [numbers[0], numbers.at(-1), points[0], points.at(-1)];
    const name = `${formatLabels(metric)} =>`;
    if (first === undefined || last === undefined) return `${name} (histogram)`;
    if (points.every(({ text }) => text === first.text)) {
      return `${name} ${first.text} at ${first.at}${first === last ? "" : `, unchanged until ${last.at}`}`;
    }
    const facts = Object.entries({ min, max, last }).map(([fact, point]) =>
      point && `${fact} ${point.text} at ${point.at}`
    );
    const line = `${name} ${facts.filter((fact) => fact).join(", ")} (${points.length} points)`;
    return [line, ...thin(points, shown).map(({ at, text }) => `  ${at} ${text}`)].join("\n");
  });
}

/** A chart of the first series, with the labels that differ between them. */
export function chartOf(all: Matrix): Chart {
  const matrix = all.slice(0, MAX_CHART_SERIES);
  const isCommon = (name: string, value: string) => matrix.every(({ metric }) => metric[name] === value);
  return {
    series: matrix.map(({ metric, values = [] }) => ({
      label: formatLabels(
        matrix.length === 1
          ? metric
          : Object.fromEntries(Object.entries(metric).filter((label) => !isCommon(...label))),
      ),
      points: values.map(([seconds, value]) => [Math.round(seconds * 1000), Number(value)] as const),
    })),
  };
}

/** A time in seconds as ISO 8601 in UTC, or the number itself if it is no time. */
export function formatTime(seconds: number): string {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? String(seconds) : date.toISOString().replace(/\.000Z$/, "Z");
}

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

/** A duration such as `90s` or `2h`, or a number of seconds; `undefined` for other texts. */
function parseSeconds(text: string): number | undefined {
  const [, digits, unit = "s"] = /^(\d{1,9})([smhdw])?$/.exec(text) ?? [];
  return digits === undefined ? undefined : Number(digits) * (UNITS[unit] ?? 1);
}

/** A time as ISO 8601 (without a zone: UTC), `now`, or a duration before now such as `2h`. In seconds. */
function parseTime(name: string, text: string, now: number): number {
  const ago = text === "now"
    ? 0
    : /[smhdw]$/.test(text)
    ? parseSeconds(text.replace(/^now-/, ""))
    : undefined;
  if (ago !== undefined) return now - ago;
  const isLocal = /^[\d-]{10}T[\d:.]+$/.test(text);
  const ms = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(isLocal ? `${text}Z` : text) : NaN;
  return Number.isNaN(ms)
    ? refuse(`${name} ${JSON.stringify(text)} is not ISO 8601 or a duration such as 2h`)
    : ms / 1000;
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200];
const HOUR = 3600;

/** The parameters of a range. The default is the last hour. A step that gives too many points is enlarged. */
export function parseRange(
  { start, end, step }: { readonly start: string; readonly end: string; readonly step: string },
  now: number,
) {
  const to = parseTime("end", end || "now", now);
  const from = start === "" ? to - HOUR : parseTime("start", start, now);
  if (from >= to) refuse("start must be before end");
  const least = Math.ceil((to - from) / (MAX_CHART_POINTS - 1));
  const asked = step === "" ? STEPS.find((each) => each >= least) ?? least : parseSeconds(step);
  if (asked === undefined) return refuse(`step ${JSON.stringify(step)} is not a duration such as 30s`);
  return { start: formatTime(from), end: formatTime(to), step: `${Math.max(least, asked)}s` };
}

export const matchArgument = (meaning: string) => z.string().max(2000).default("").describe(meaning);
export const searchArgument = z.string().max(200).default("").describe("only lines that contain this text");

/** The maximum length of a list, so that it is not truncated in the middle. */
const MAX_LIST = 3000;
const MAX_LISTED = 400;

/** The lines that contain a text, as far as there is room. The rest is counted by the first word of its lines. */
export function formatList(what: string, lines: readonly string[], search: string): Finding {
  const found = lines.filter((line) => line.toLowerCase().includes(search.toLowerCase()))
    .map((line) => cutText(line.replace(/\s+/g, " "), MAX_LISTED));
  let length = 0;
  const shown = found.filter((line) => (length += line.length + 1) <= MAX_LIST);
  const rest = Map.groupBy(found.slice(shown.length), (line) => line.slice(0, line.search(/[_{: ]/) + 1));
  const groups = [...rest].map(([word, { length }]) => `${word}* ${length}`).slice(0, MAX_SERIES).join(", ");
  const tail = rest.size === 0
    ? []
    : [`(${found.length - shown.length} more, not shown: ${groups}. Use search or match)`];
  const title = `${what}${search === "" ? "" : ` with ${JSON.stringify(search)}`}: ${found.length}`;
  return { ok: true, title, body: [...shown, ...tail].join("\n") || "(nothing)" };
}
