import { fieldsOf } from "../engine/graph/json_objects.ts";
import { lastDecision } from "./fold.ts";
import { withoutForeignClaims } from "./foreign.ts";
import { conclusionOf, type ReadRecord } from "./record.ts";

/** More than any run has; a page has to draw them. */
const MAX_EVENTS = 20_000;
const MAX_TABLE = 200;
const MAX_DEPTH = 64;
const MAX_VALUES = 300_000;

/** Whether a JSON value is small enough in every way to be looked at. */
export function isPresentable(value: unknown): boolean {
  return isShallow(value, MAX_DEPTH) && isSmall(value) && !hasLongTable(fieldsOf(value));
}

function hasLongTable({ events, hypotheses }: Readonly<Record<string, unknown>>): boolean {
  if (isLonger(events, MAX_EVENTS) || isLonger(hypotheses, MAX_TABLE)) return true;
  return Array.isArray(events) && events.some((event) => isLonger(fieldsOf(event).hypotheses, MAX_TABLE));
}

function isLonger(value: unknown, most: number): boolean {
  return Array.isArray(value) && value.length > most;
}

function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return depth > 0 && Object.values(value).every((member) => isShallow(member, depth - 1));
}

function isSmall(value: unknown): boolean {
  const waiting = [value];
  for (let seen = 1; waiting.length > 0; seen++) {
    if (seen > MAX_VALUES) return false;
    const next = waiting.pop();
    if (typeof next === "object" && next !== null) {
      for (const each of Object.values(next)) waiting.push(each);
    }
  }
  return true;
}

/** A record as it is stored; `undefined` when there is nothing of a run in it. */
export function importedRecord(record: ReadRecord, now: number): object | undefined {
  const { run_id, topic, events, context, hypotheses, conclusion: _told, ...header } = record;
  if (topic === null || events.length === 0) return undefined;
  const decision = lastDecision(events);
  const final = events.findLast(({ type }) => type === "final_result")?.content ?? null;
  const conclusion = conclusionOf(decision, hypotheses);
  return withoutForeignClaims({
    run_id,
    topic,
    ...header,
    timestamp: Number.isNaN(Date.parse(header.timestamp ?? ""))
      ? new Date(now).toISOString()
      : header.timestamp,
    // Nobody continues it here, and its parent is not here either.
    status: header.status === "running" || header.status === null ? "interrupted" : header.status,
    parent_run_id: null,
    ...(conclusion !== undefined && { conclusion }),
    imported: true,
    imported_at: new Date(now).toISOString(),
    schema_version: 1,
    context,
    context_redactions: {},
    context_notes: [],
    final_result: typeof final === "string" ? final : null,
    decision,
    hypotheses,
    round_log: [],
    tool_calls_log: [],
    events,
  });
}
