/** Series, labels and lists of metrics servers, as text for the model and as charts for the page. */
import { cutText } from "@gateway/shared/text";
import * as z from "@zod/zod";
import { type Chart, MAX_CHART_POINTS } from "../engine/events.ts";
import { thin } from "./define_tool.ts";
import { refuse } from "./run_program.ts";

export const labelsSchema = z.record(z.string(), z.string());

/** The name of a label, which becomes a part of a path. */
export const labelArgument = (meaning: string) =>
  z.string().regex(/^(?:[A-Za-z_]\w{0,199})?$/, "must be the name of a label").default("").describe(meaning);

type Labels = z.infer<typeof labelsSchema>;

/** A time in seconds since the epoch, and a value. */
export const sampleSchema = z.tuple([z.number(), z.string()]);

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
    if (first === undefined || last === undefined) return `${formatLabels(metric)} => (histogram)`;
    const name = `${formatLabels(metric)} => `;
    if (points.every(({ text }) => text === first.text)) {
      return `${name}${first.text} at ${first.at}${first === last ? "" : `, unchanged until ${last.at}`}`;
    }
    const facts = Object.entries({ min, max, last }).flatMap(([fact, point]) =>
      point === undefined ? [] : [`${fact} ${point.text} at ${point.at}`]
    );
    const line = `${name}${facts.join(", ")} (${points.length} points)`;
    if (shown === 0) return line;
    return `${line}\n  ${thin(points, shown).map(({ at, text }) => `${at} ${text}`).join("\n  ")}`;
  });
}

/** A chart with the labels that differ between the series. */
export function chartOf(matrix: Matrix): Chart {
  const names = [...new Set(matrix.flatMap(({ metric }) => Object.keys(metric)))]
    .filter((name) =>
      matrix.length === 1 || matrix.some(({ metric }) => metric[name] !== matrix[0]?.metric[name])
    );
  return {
    series: matrix.map(({ metric, values = [] }) => ({
      label: formatLabels(Object.fromEntries(names.flatMap((name) => {
        const value = metric[name];
        return value === undefined ? [] : [[name, value]];
      }))),
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
  const ago = /[smhdw]$/.test(text) ? parseSeconds(text.replace(/^now-/, "")) : undefined;
  if (ago !== undefined) return now - ago;
  if (text === "now") return now;
  if (/^\d{9,10}$/.test(text)) return Number(text);
  const hasZone = !/^[\d-]{10}T[\d:.]+$/.test(text);
  const ms = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(hasZone ? text : `${text}Z`) : NaN;
  if (!Number.isNaN(ms)) return ms / 1000;
  return refuse(
    `${name} ${JSON.stringify(text)} is not a time: use ISO 8601, or a duration before now such as 2h`,
  );
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200];
const HOUR = 3600;

/** A range in seconds. The default is the last hour. A step that gives too many points is enlarged. */
export function parseRange(
  { start, end, step }: { readonly start: string; readonly end: string; readonly step: string },
  now: number,
): { readonly start: number; readonly end: number; readonly step: number } {
  const to = parseTime("end", end === "" ? "now" : end, now);
  const from = start === "" ? to - HOUR : parseTime("start", start, now);
  if (from >= to) refuse("start must be before end");
  const least = (to - from) / (MAX_CHART_POINTS - 1);
  const asked = step === ""
    ? STEPS.find((each) => each >= least)
    : parseSeconds(step) ?? refuse(`step ${JSON.stringify(step)} is not a duration such as 30s`);
  return { start: from, end: to, step: Math.max(1, Math.ceil(least), asked ?? 0) };
}

/** The maximum length of a list, so that it is not truncated in the middle. */
const MAX_LIST = 3000;
const MAX_LISTED = 400;

/** The lines that contain a text, as far as there is room. The rest is counted by the first word of its lines. */
export function formatList(lines: readonly string[], search: string): { count: number; body: string } {
  const found = lines.filter((line) => line.toLowerCase().includes(search.toLowerCase()))
    .map((line) => cutText(line.replace(/\s+/g, " "), MAX_LISTED));
  let length = 0;
  const shown = found.filter((line) => (length += line.length + 1) <= MAX_LIST);
  const rest = found.slice(shown.length);
  const counts = new Map<string, number>();
  for (const line of rest) {
    const word = line.slice(0, line.search(/[_{: ]/) + 1);
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const groups = [...counts].toSorted(([, a], [, b]) => b - a).slice(0, 20).map(([word, n]) =>
    `${word}* ${n}`
  );
  const tail = `(${rest.length} more, not shown: ${groups.join(", ")}. Narrow with search or match)`;
  return {
    count: found.length,
    body: found.length === 0 ? "(nothing)" : [...shown, ...(rest.length > 0 ? [tail] : [])].join("\n"),
  };
}
