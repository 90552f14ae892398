import { isShallow } from "../engine/agents/run_tool.ts";
import { HISTORY_ROLES } from "../engine/graph/flow.ts";
import { OPERATOR } from "../engine/graph/hypotheses.ts";
import { fieldsOf } from "../engine/graph/text.ts";
import type { Hypothesis } from "../engine/graph/state.ts";
import type { PriorRun } from "../engine/ports.ts";
import type { ReadRecord, StoredEvent } from "./record.ts";
import { conclusionOf, lastDecision, withoutForeignClaims } from "./record.ts";

/**
 * The maximum number of events, which exceeds that of any run. The web page must be able to draw all of them.
 */
const MAX_EVENTS = 20_000;
const MAX_TABLE = 200;
const MAX_DEPTH = 64;
const MAX_VALUES = 300_000;

/** Checks the depth and the size of a foreign record, because the web page must be able to draw it. */
export function isPresentable(value: unknown): boolean {
  const { events, hypotheses } = fieldsOf(value);
  const isLonger = (list: unknown, most: number) => Array.isArray(list) && list.length > most;
  if (!isShallow(value, MAX_DEPTH) || isLonger(events, MAX_EVENTS)) return false;
  const tables = Array.isArray(events) ? events.map((event) => fieldsOf(event).hypotheses) : [];
  if ([hypotheses, ...tables].some((table) => isLonger(table, MAX_TABLE))) return false;
  // A chart has its own limits, which readRecord() checks.
  const counted = Array.isArray(events)
    ? events.map((event) => ({ ...fieldsOf(event), chart: null }))
    : events;
  const waiting: unknown[] = [{ ...fieldsOf(value), events: counted }];
  for (let seen = 1; waiting.length > 0; seen++) {
    if (seen > MAX_VALUES) return false;
    const next = waiting.pop();
    if (typeof next === "object" && next !== null) {
      for (const each of Object.values(next)) waiting.push(each);
    }
  }
  return true;
}

/** The stored form of an imported record; `undefined` if it contains no run. */
export function importedRecord(record: ReadRecord, now: number): object | undefined {
  const { run_id, topic, events, context, hypotheses, conclusion: _told, status, ...header } = record;
  if (topic === null || events.length === 0) return undefined;
  const decision = lastDecision(events);
  const final = events.findLast(({ type }) => type === "final_result")?.content ?? null;
  const conclusion = conclusionOf(decision, hypotheses);
  return withoutForeignClaims({
    run_id,
    // This server does not continue the run and does not have its parent.
    status: status === "running" || status === null ? "interrupted" : status,
    ...(conclusion !== undefined && { conclusion }),
    topic,
    ...header,
    timestamp: Number.isNaN(Date.parse(header.timestamp ?? ""))
      ? new Date(now).toISOString()
      : header.timestamp,
    parent_run_id: null,
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

/** Whether a run can be resumed only with new evidence. A run that failed did not use the evidence that it had. */
export function needsEvidence({ status }: ReadRecord): boolean {
  return status !== "error" && status !== "interrupted";
}

/**
 * Rebuilds history and hypotheses from a record, without the runs that it resumed. For an imported run, neither its
 * evidence nor its operator's comments count.
 */
export function priorRun({ events, hypotheses, imported }: ReadRecord): PriorRun {
  const known = imported ? events.filter(({ type }) => type !== "user_comment") : events;
  return {
    history: known.flatMap((event) => toEntry(event) ?? []),
    hypotheses: imported ? hypotheses.map(withoutForeignEvidence) : hypotheses,
  };
}

function withoutForeignEvidence(hypothesis: Hypothesis): Hypothesis {
  const { proposer, transitions } = hypothesis;
  return {
    ...hypothesis,
    proposer: proposer === OPERATOR ? "diagnostic_agent" : proposer,
    transitions: transitions.filter(({ agent }) => agent !== OPERATOR),
    evidence: [],
    reviews: [],
  };
}

function toEntry(
  { type, node, content, decision, sample }: StoredEvent,
): PriorRun["history"][number] | undefined {
  if (type === "moderator_decision" && typeof decision === "object" && decision !== null) {
    return { role: "moderator", content: JSON.stringify(decision, null, 2) };
  }
  if (typeof content !== "string") return undefined;
  // Independent diagnoses use separate hypothesis IDs. Only their comparison uses the IDs of the run.
  if (type === "samples_compared") return { role: "diagnostic_agent", content };
  if (type === "user_comment" && content !== "") return { role: "user", content };
  if (type !== "agent_completed" || sample !== undefined) return undefined;
  const role = Object.entries(HISTORY_ROLES).find(([each]) => each === node)?.[1];
  return role && { role, content };
}
