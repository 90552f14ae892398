import type { AppError } from "@gateway/shared/errors";
import { parseJson } from "@gateway/shared/json";
import { quoteText } from "@gateway/shared/text";
import type * as z from "@zod/zod";
import { parseListenAddress } from "@gateway/shared/http";
import { invalid } from "./output.ts";

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
  return invalid(`Cannot read duration ${quoteText(text)}: ${expected}`);
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;

/** A plain name is safe in a shell, a file name and a principal. */
export function isPlainName(text: string): boolean {
  return NAME.test(text);
}

/** The address at which processes on the same machine reach a listener. */
export function reachable(listen: string): string {
  const { hostname, port } = parseListenAddress(listen);
  const wildcards: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };
  return formatAddress(wildcards[hostname] ?? hostname, port);
}

export function formatAddress(hostname: string, port: number): string {
  return hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
}

/** A certificate's serial. */
export function parseSerial(text: string): bigint {
  const serial = /^\d{1,20}$/.test(text) ? BigInt(text) : 0n;
  if (serial === 0n || serial >= 2n ** 64n) {
    throw invalid(`Cannot use serial ${quoteText(text)}: expected a number from 1 to ${2n ** 64n - 1n}`);
  }
  return serial;
}

/** Decodes a JSON text; undefined for a text that is not JSON, or of another form. */
export function readJson<T>(schema: z.ZodType<T>, text: string): T | undefined {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch {
    return undefined;
  }
  return schema.safeParse(value).data;
}
