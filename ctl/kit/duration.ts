import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";

const SECOND = 1_000_000_000n;

/** Nanoseconds of each unit. */
const UNITS: ReadonlyMap<string, bigint> = new Map([
  ["d", 86_400n * SECOND],
  ["h", 3600n * SECOND],
  ["m", 60n * SECOND],
  ["s", SECOND],
  ["ms", 1_000_000n],
  ["us", 1_000n],
  ["µs", 1_000n],
  ["ns", 1n],
]);

const DURATION = /^(?:(?:\d+(?:\.\d*)?|\.\d+)(?:d|h|ms|m|s|us|µs|ns))+$/u;
const PART = /(\d*)(?:\.(\d*))?(d|h|ms|m|s|us|µs|ns)/guy;

// What a 64-bit count of nanoseconds holds: durations of other programs are kept in one.
const LONGEST = 2n ** 63n - 1n;

/**
 * Reads a duration such as `2d`, `2h`, `90s`, `1h30m` or `1.5h`; a day has 24 hours. It has to come to whole seconds, at least one.
 *
 * @returns seconds
 * @throws {AppError} `invalid_request` for anything else
 */
export function parseDuration(text: string): number {
  const nanoseconds = DURATION.test(text) ? addUp(text) : undefined;
  if (nanoseconds === undefined || nanoseconds > LONGEST) {
    throw refusal(text, "expected days, hours, minutes and seconds, such as 2d or 1h30m");
  }
  if (nanoseconds === 0n || nanoseconds % SECOND !== 0n) {
    throw refusal(text, "expected whole seconds, at least 1");
  }
  return Number(nanoseconds / SECOND);
}

function addUp(text: string): bigint {
  let sum = 0n;
  for (const [, whole = "", fraction = "", unit = ""] of text.matchAll(PART)) {
    const nanoseconds = UNITS.get(unit) ?? 0n;
    sum += BigInt(whole) * nanoseconds + BigInt(fraction) * nanoseconds / 10n ** BigInt(fraction.length);
  }
  return sum;
}

function refusal(text: string, expected: string): AppError {
  return new AppError("invalid_request", `Cannot read duration ${quoteText(text)}: ${expected}`);
}
