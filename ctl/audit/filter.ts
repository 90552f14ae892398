import { systemClock } from "@gateway/shared/clock";
import { quoteText } from "@gateway/shared/text";
import type { Given } from "../kit/command.ts";
import { invalid } from "../kit/output.ts";
import { parseDuration, parseSerial } from "../kit/values.ts";
import type { ShownRecord } from "./record.ts";

/** The options that select records. */
export const FILTERS = {
  "--host <text>": "part of the name or address of a host",
  "--user <text>": "part of the name of an end user, caller or account on a host",
  "--caller <text>": "part of the name of a caller",
  "--outcome <outcome>": "outcome of the records",
  "--serial <number>": "serial of a certificate or token",
  "--session <id>": "session ID, or its first digits",
  "--request <id>": "request ID of a response or log line, or its first digits",
  "--grep <text>": "part of any field, in upper or lower case",
  "--since <time>": "start: 2h (before now), 2026-01-31 (UTC) or RFC 3339",
  "--until <time>": "end, in the same forms; a day is included",
} as const;

/** @param hosts pairs of name and address, because an old record may contain only one of them */
export function createFilter(
  flags: Given<typeof FILTERS>,
  hosts: readonly (readonly [string, string])[] = [],
): (record: ShownRecord) => boolean {
  const now = systemClock.now();
  const { host = "", user = "", caller = "", outcome, session = "", request = "" } = flags;
  const serial = flags.serial === undefined ? undefined : parseSerial(flags.serial);
  const grep = flags.grep?.toLowerCase();
  const since = flags.since === undefined ? -Infinity : parseTime(flags.since, now).start;
  const until = flags.until === undefined ? Infinity : parseTime(flags.until, now).end;
  const aliases = new Set(hosts.filter((names) => names.some((name) => name.includes(host))).flat());
  const isOfHost = (name: string) => name.includes(host) || aliases.has(name);
  const contains = (value: unknown) => typeof value === "string" && value.toLowerCase().includes(grep ?? "");
  return (record) =>
    [record.host, record.host_name, record.addr].some(isOfHost) &&
    [record.who, record.caller, record.user].some((name) => name.includes(user)) &&
    record.caller.includes(caller) &&
    (outcome === undefined || record.outcome === outcome) &&
    (serial === undefined || record.serial === serial) &&
    record.session_id.startsWith(session) &&
    record.request_id.startsWith(request) &&
    // A record without a valid time is shown.
    !(Date.parse(record.time) < since || Date.parse(record.time) > until) &&
    (grep === undefined || Object.values(record).some(contains));
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/i;
const DAY_MS = 86_400_000;

/** The first and the last millisecond of a time or a day. */
function parseTime(text: string, now: number): { readonly start: number; readonly end: number } {
  const at = (start: number, length = 0) => ({ start, end: start + length });
  if (/^[\d.]+[a-zµ]/.test(text)) return at(now - parseDuration(text) * 1000);
  const isDay = DAY.test(text);
  const ms = isDay || TIME.test(text) ? Date.parse(text) : NaN;
  // Date.parse reads February 31 as March 3.
  const day = new Date(`${text.slice(0, 10)}T00:00:00Z`);
  const exists = !Number.isNaN(day.getTime()) && day.toISOString().slice(0, 10) === text.slice(0, 10);
  if (exists && !Number.isNaN(ms)) return at(ms, isDay ? DAY_MS - 1 : 0);
  throw invalid(
    `Cannot read time ${quoteText(text)}: expected 2d, 1h30m, 2026-01-31 or 2026-01-31T08:00:00Z`,
  );
}
