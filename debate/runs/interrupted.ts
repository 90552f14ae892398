/**
 * Completes the record of a run whose server stopped.
 *
 * @module
 */
import { toldBy } from "./fold.ts";
import { readJournal } from "./journal.ts";
import { readEvents, type StoredEvent } from "./record.ts";

const NO_TOKENS = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };

/** The message of the error event at the end. */
export const INTERRUPTED = "The server stopped during the run";

/**
 * The record with the events of its journal, ended like every run. Everything else in it is unchanged and in
 * the same order.
 *
 * @throws {TypeError} when it is not an object
 */
export function interruptedRecord(record: unknown, journal: string): Readonly<Record<string, unknown>> {
  if (typeof record !== "object" || record === null) throw new TypeError("Not a record");
  const before = "events" in record && Array.isArray(record.events) ? readEvents(record.events) : [];
  const told = before.length > 0 ? before : readJournal(journal);
  const isEnded = told.some(({ type }) => type === "run_finished");
  const events = isEnded ? told : [...told, ...END];
  const language = "language" in record && typeof record.language === "string" ? record.language : "";
  return { ...record, status: "interrupted", ...toldBy(events, language) };
}

const END: readonly StoredEvent[] = [
  { type: "error", message: INTERRUPTED },
  {
    type: "run_finished",
    status: "interrupted",
    token_totals: { by_node: {}, total: NO_TOKENS },
    cost_estimate: null,
  },
];
