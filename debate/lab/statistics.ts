/** Runs of one incident are not independent, so statistics count incidents. */

/** A share with its 95 % interval. */
export interface Share {
  readonly value: number;
  readonly low: number;
  readonly high: number;
  readonly incidents: number;
}

const Z = 1.959964;

/** Wilson's interval for the mean of shares, one for each incident; `undefined` without any. */
export function shareOf(perIncident: readonly number[]): Share | undefined {
  const n = perIncident.length;
  if (n === 0) return undefined;
  const p = mean(perIncident);
  const denominator = 1 + Z ** 2 / n;
  const centre = (p + Z ** 2 / (2 * n)) / denominator;
  const half = Z * Math.sqrt(p * (1 - p) / n + Z ** 2 / (4 * n ** 2)) / denominator;
  return {
    value: round(p),
    low: round(Math.max(0, centre - half)),
    high: round(Math.min(1, centre + half)),
    incidents: n,
  };
}

/** A difference with its 95 % interval. */
export interface Difference {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

const RESAMPLES = 4000;

/** The mean difference of pairs, one pair for each incident; the interval by resampling incidents, always the same way. */
export function differenceOf(pairs: readonly (readonly [number, number])[]): Difference | undefined {
  if (pairs.length === 0) return undefined;
  const differences = pairs.map(([ours, theirs]) => ours - theirs);
  const random = sequence(0x9e3779b9);
  const means = Array.from({ length: RESAMPLES }, () => {
    let sum = 0;
    for (let index = 0; index < differences.length; index++) {
      sum += differences[Math.floor(random() * differences.length)] ?? 0;
    }
    return sum / differences.length;
  }).sort((a, b) => a - b);
  return {
    value: round(mean(differences)),
    low: round(means[Math.floor(RESAMPLES * 0.025)] ?? 0),
    high: round(means[Math.ceil(RESAMPLES * 0.975) - 1] ?? 0),
  };
}

/** Numbers from 0 to 1 that only look random (mulberry32). */
function sequence(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Forecast {
  readonly confidence: number;
  readonly right: boolean;
}

/** The mean squared error of forecasts: 0 is perfect, 0.25 is what saying 0.5 always gives. */
export function brierOf(forecasts: readonly Forecast[]): number | null {
  if (forecasts.length === 0) return null;
  return round(mean(forecasts.map(({ confidence, right }) => (confidence - Number(right)) ** 2)));
}

export function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

export function round(value: number): number {
  return Math.round(value * 1e6) / 1e6;
}
