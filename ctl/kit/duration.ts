import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";

const SECOND = 1_000_000_000n;

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

// Other programs keep a duration in a 64-bit count of nanoseconds.
const LONGEST = 2n ** 63n - 1n;

/** Reads a duration of whole seconds such as `2d`, `90s`, `1h30m` or `1.5h`. */
export function parseDuration(text: string): number {
  const parts = DURATION.test(text) ? [...text.matchAll(PART)] : [];
  const nanoseconds = parts.reduce((sum, [, whole = "", fraction = "", unit = ""]) => {
    const size = UNITS.get(unit) ?? 0n;
    return sum + BigInt(whole) * size + BigInt(fraction) * size / 10n ** BigInt(fraction.length);
  }, 0n);
  if (parts.length === 0 || nanoseconds > LONGEST) {
    throw refusal(text, "expected days, hours, minutes and seconds, such as 2d or 1h30m");
  }
  if (nanoseconds === 0n || nanoseconds % SECOND !== 0n) {
    throw refusal(text, "expected whole seconds, at least 1");
  }
  return Number(nanoseconds / SECOND);
}

function refusal(text: string, expected: string): AppError {
  return new AppError("invalid_request", `Cannot read duration ${quoteText(text)}: ${expected}`);
}
