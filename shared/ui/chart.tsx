import type { JSX } from "preact";

/** A line of a chart. */
export interface ChartSeries {
  /** The name in the legend. */
  readonly label: string;
  /** Pairs of milliseconds since the epoch and a finite value, ascending. */
  readonly points: readonly (readonly [ms: number, value: number])[];
}

const WIDTH = 640;
const HEIGHT = 200;
const LEFT = 56;
const BOTTOM = 22;
const TOP = 10;

/** A chart of lines over time, at most eight, with the minimum and maximum of each value in the legend. */
export function Chart(
  { label, unit = "", series }: {
    /** The name of the picture for screen readers. */
    readonly label: string;
    readonly unit?: string | undefined;
    readonly series: readonly ChartSeries[];
  },
): JSX.Element | null {
  const points = series.flatMap((each) => each.points);
  if (points.length === 0) return null;
  const [from, to] = rangeOf(points.map(([ms]) => ms));
  const [low, high] = rangeOf(points.map(([, value]) => value));
  const ticks = ticksOf(low, high);
  const [bottom = low, top = high] = [ticks[0], ticks.at(-1)];
  const x = (ms: number) => LEFT + (to === from ? 0.5 : (ms - from) / (to - from)) * (WIDTH - LEFT - 8);
  const y = (value: number) =>
    TOP + (top === bottom ? 0.5 : (top - value) / (top - bottom)) * (HEIGHT - TOP - BOTTOM);
  const lineOf = (each: ChartSeries) =>
    each.points.map(([ms, value]) => `${x(ms).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
        {ticks.map((tick) => (
          <g key={tick}>
            <line class="grid" x1={LEFT} x2={WIDTH} y1={y(tick)} y2={y(tick)} />
            <text x={LEFT - 6} y={y(tick) + 4} text-anchor="end">{formatValue(tick)}</text>
          </g>
        ))}
        <text x={LEFT} y={HEIGHT - 4}>{formatTime(from)}</text>
        <text x={WIDTH} y={HEIGHT - 4} text-anchor="end">{`${formatTime(to)} UTC`}</text>
        {series.map((each, index) => (
          <polyline key={each.label} class={`line line-${index + 1}`} points={lineOf(each)} />
        ))}
      </svg>
      <figcaption>
        <ul>
          {series.map((each, index) => {
            const [min, max] = rangeOf(each.points.map(([, value]) => value));
            return (
              <li key={each.label}>
                <i class={`key line-${index + 1}`} />
                {each.label}
                <span class="muted">{` ${formatValue(min)} to ${formatValue(max)} ${unit}`.trimEnd()}</span>
              </li>
            );
          })}
        </ul>
      </figcaption>
    </figure>
  );
}

function rangeOf(values: readonly number[]): readonly [min: number, max: number] {
  return values.reduce<readonly [number, number]>(
    ([min, max], value) => [Math.min(min, value), Math.max(max, value)],
    [Infinity, -Infinity],
  );
}

/** At most six round values that include both ends. */
function ticksOf(low: number, high: number): readonly number[] {
  if (low === high) return [low];
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) ?? rough;
  const first = Math.floor(low / step);
  const count = Math.ceil(high / step) - first;
  return Array.from({ length: count + 1 }, (_, index) => (first + index) * step);
}

function formatValue(value: number): string {
  return new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 }).format(value);
}

function formatTime(ms: number): string {
  return new Date(ms).toISOString().slice(5, 16).replace("T", " ");
}
