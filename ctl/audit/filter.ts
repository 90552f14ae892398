import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { parseSerial } from "../kit/freeze_subject.ts";
import type { ShownRecord } from "./record.ts";

/** The flags that choose records; all that are given have to hold. */
export interface FilterFlags {
  readonly host?: string;
  readonly caller?: string;
  readonly outcome?: string;
  readonly serial?: string;
  readonly request?: string;
  /** A time, or a day in UTC; included. */
  readonly since?: string;
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/i;

/**
 * A test of records.
 *
 * @throws {AppError} `invalid_request` for an invalid serial or time
 */
export function createFilter(flags: FilterFlags): (record: ShownRecord) => boolean {
  const { host = "", caller = "", outcome, request } = flags;
  const serial = flags.serial === undefined ? undefined : parseSerial(flags.serial);
  const since = flags.since === undefined ? undefined : parseTime(flags.since);
  return (record) =>
    record.host.includes(host) &&
    record.caller.includes(caller) &&
    (outcome === undefined || record.outcome === outcome) &&
    (serial === undefined || record.serial === serial) &&
    (request === undefined || record.request_id === request) &&
    (since === undefined || Date.parse(record.time) >= since);
}

/** Milliseconds since the epoch. */
function parseTime(text: string): number {
  const ms = DAY.test(text) || TIME.test(text) ? Date.parse(text) : NaN;
  // Date.parse takes the 31st of February for the 3rd of March.
  const isDay = new Date(`${text.slice(0, 10)}T00:00:00Z`);
  if (
    Number.isNaN(ms) || Number.isNaN(isDay.getTime()) ||
    isDay.toISOString().slice(0, 10) !== text.slice(0, 10)
  ) {
    throw new AppError(
      "invalid_request",
      `Cannot read time ${quoteText(text)}: expected 2026-01-31 or 2026-01-31T08:00:00Z`,
    );
  }
  return ms;
}
