import { isShallow } from "../engine/agents/run_tool.ts";
import { HISTORY_ROLES } from "../engine/graph/flow.ts";
import { OPERATOR } from "../engine/graph/hypotheses.ts";
import { fieldsOf } from "../engine/graph/text.ts";
import type { Hypothesis } from "../engine/graph/state.ts";
import type { PriorRun } from "../engine/ports.ts";
import type { ReadRecord, StoredEvent } from "./record.ts";
import { conclusionOf, lastDecision, withoutForeignClaims } from "./record.ts";

/** More than any run has; a page has to draw them. */
const MAX_EVENTS = 20_000;
const MAX_TABLE = 200;
const MAX_DEPTH = 64;
const MAX_VALUES = 300_000;

/** Limits depth and size of a foreign record, because a page has to draw it. */
export function isPresentable(value: unknown): boolean {
  const { events, hypotheses } = fieldsOf(value);
  const isLonger = (list: unknown, most: number) => Array.isArray(list) && list.length > most;
  if (!isShallow(value, MAX_DEPTH) || isLonger(events, MAX_EVENTS)) return false;
  const tables = Array.isArray(events) ? events.map((event) => fieldsOf(event).hypotheses) : [];
  if ([hypotheses, ...tables].some((table) => isLonger(table, MAX_TABLE))) return false;
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

/**
 * Rebuilds history and hypotheses from a record. Runs before that one are not included. Of a run from elsewhere, neither
 * its evidence counts nor the word of its operator.
 */
export function priorRun({ events, hypotheses, imported }: ReadRecord): PriorRun {
  const known = imported ? events.filter(({ type }) => type !== "user_comment") : events;
  return {
    history: known.flatMap((event) => toEntry(event) ?? []),
    hypotheses: imported ? hypotheses.map(fromElsewhere) : hypotheses,
  };
}

function fromElsewhere(hypothesis: Hypothesis): Hypothesis {
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
  // Each diagnosis has ids of its own; their comparison has those of the run.
  if (type === "samples_compared") return { role: "diagnostic_agent", content };
  if (type === "user_comment" && content !== "") return { role: "user", content };
  if (type !== "agent_completed" || sample !== undefined) return undefined;
  const role = Object.entries(HISTORY_ROLES).find(([each]) => each === node)?.[1];
  return role && { role, content };
}
