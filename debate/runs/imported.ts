/**
 * The record of a run that comes from elsewhere: what it says is kept, and nothing of it is trusted.
 *
 * @module
 */
import type { ReadRecord } from "./record.ts";

/** A record as it is stored; `undefined` when there is nothing of a run in it. */
export function importedRecord(record: ReadRecord, now: number): object | undefined {
  const { run_id, topic, events, context, hypotheses, ...header } = record;
  if (topic === null || events.length === 0) return undefined;
  const decision = events.findLast(({ type }) => type === "moderator_decision")?.decision ?? null;
  const final = events.findLast(({ type }) => type === "final_result")?.content ?? null;
  return {
    run_id,
    topic,
    ...header,
    timestamp: Number.isNaN(Date.parse(header.timestamp ?? ""))
      ? new Date(now).toISOString()
      : header.timestamp,
    // Nobody continues it here, and its parent is not here either.
    status: header.status === "running" || header.status === null ? "interrupted" : header.status,
    parent_run_id: null,
    imported: true,
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
  };
}
