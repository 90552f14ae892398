import type { JSX } from "preact";
import { VisibleText } from "./visible_text.tsx";

/** A line of a chart. */
export interface ChartSeries {
  /** The name in the legend. */
  readonly label: string;
  /** Pairs of milliseconds since the epoch and a finite value, ascending. */
  readonly points: readonly (readonly [ms: number, value: number])[];
}

const HEIGHT = 180;
/** The plot is stretched to its place, and its lines are not. */
const SCALE = 1000;
const MAX_LABEL = 200;

/**
 * A chart of lines over time in UTC, at most eight, with the last, smallest and largest value of each. The text keeps
 * its size on every screen.
 */
export function Chart(
  { label, series }: {
    /** The name of the picture for screen readers. */
    readonly label: string;
    readonly series: readonly ChartSeries[];
  },
): JSX.Element | null {
  const points = series.flatMap((each) => each.points);
  if (points.length === 0) return null;
  const [from, to] = rangeOf(points.map(([ms]) => ms));
  const ticks = ticksOf(...rangeOf(points.map(([, value]) => value)));
  const [bottom = 0, top = 1] = [ticks[0], ticks.at(-1)];
  const x = (ms: number) => to === from ? SCALE / 2 : (ms - from) / (to - from) * SCALE;
  // Halves, because the difference of two huge numbers can be infinite.
  const y = (value: number) => (top / 2 - value / 2) / (top / 2 - bottom / 2) * SCALE;
  const middle = from / 2 + to / 2;
  return (
    <figure class="chart stack tight">
      <div class="plot">
        <svg class="ticks" height={HEIGHT} aria-hidden="true">
          {ticks.map((tick) => (
            <text
              key={tick}
              x="100%"
              y={`${y(tick) / SCALE * 100}%`}
              text-anchor="end"
              dominant-baseline="middle"
            >
              {formatValue(tick)}
            </text>
          ))}
        </svg>
        <svg
          viewBox={`0 0 ${SCALE} ${SCALE}`}
          preserveAspectRatio="none"
          height={HEIGHT}
          role="img"
          aria-label={label}
        >
          {ticks.map((tick) => <line key={tick} class="grid" x1={0} x2={SCALE} y1={y(tick)} y2={y(tick)} />)}
          {series.map((each, index) => (
            <path
              key={index}
              class={each.points.length === 1 ? "line dot" : "line"}
              stroke={colorOf(index)}
              d={each.points.map(([ms, value], at) =>
                `${at === 0 ? "M" : "L"}${x(ms).toFixed(1)} ${y(value).toFixed(1)}`
              ).join("") + (each.points.length === 1 ? "h.1" : "")}
            />
          ))}
        </svg>
        <div class="times">
          <time>{formatTime(from, from)}</time>
          {to !== from && <time>{formatTime(middle, from)}</time>}
          {to !== from && <time>{`${formatTime(to, from)} UTC`}</time>}
        </div>
      </div>
      <figcaption>
        <ul>
          {series.map((each, index) => {
            const [min, max] = rangeOf(each.points.map(([, value]) => value));
            const last = each.points.at(-1)?.[1] ?? max;
            return (
              <li key={index}>
                <svg viewBox="0 0 12 20" aria-hidden="true">
                  <rect y="8" width="12" height="4" rx="2" fill={colorOf(index)} />
                </svg>
                <VisibleText text={each.label} limit={MAX_LABEL} lines />
                <b class="count">{formatValue(last)}</b>
                {min !== max && (
                  <span class="muted count">{`${formatValue(min)} – ${formatValue(max)}`}</span>
                )}
              </li>
            );
          })}
        </ul>
      </figcaption>
    </figure>
  );
}

function colorOf(index: number): string {
  return index === 0 ? "var(--accent)" : `var(--chart-${index + 1})`;
}

function rangeOf(values: readonly number[]): readonly [min: number, max: number] {
  return values.reduce<readonly [number, number]>(
    ([min, max], value) => [Math.min(min, value), Math.max(max, value)],
    [Infinity, -Infinity],
  );
}

/** Three to six round values that include both ends. A flat line is in the middle. */
function ticksOf(low: number, high: number): readonly number[] {
  if (low === high) {
    const room = Math.abs(low) || 1;
    return [low - room, low, low + room].filter(Number.isFinite);
  }
  const rough = high / 4 - low / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) ?? rough;
  const first = Math.floor(low / step);
  const ticks = Array.from(
    { length: Math.ceil(high / step) - first + 1 },
    (_, index) => Number(((first + index) * step).toPrecision(12)),
  );
  // Steps can be smaller than the precision of the values, or larger than any number.
  return ticks.length > 8 || !ticks.every(Number.isFinite) ? [low, high] : [...new Set(ticks)];
}

function formatValue(value: number): string {
  const size = Math.abs(value);
  const isReadable = value === 0 || (size >= 0.001 && size < 1e15);
  return isReadable
    // The sum shows -0 as 0.
    ? new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 4 }).format(value + 0)
    : value.toExponential(1);
}

/** The date is shown at the start and when it has changed. */
function formatTime(ms: number, from: number): string {
  const isTime = Math.abs(ms) < 8e15;
  if (!isTime) return String(ms);
  const [start, text] = [new Date(Math.abs(from) < 8e15 ? from : 0), new Date(ms)].map((each) =>
    each.toISOString()
  );
  const isSameDay = ms !== from && start?.slice(0, 10) === text?.slice(0, 10);
  return text?.slice(isSameDay ? 11 : 5, 16).replace("T", " ") ?? "";
}
