/**
 * Removes claims that only this server can check from an imported record: which evidence counts, and which
 * hypothesis is confirmed.
 */
import { isShallow } from "../engine/agents/run_tool.ts";
import { labelLanguage } from "../engine/graph/labels.ts";
import { fieldsOf, isObject, numberOf, textOf } from "../engine/graph/json_objects.ts";
import { lastDecision } from "./fold.ts";
import { conclusionOf, type ReadRecord, type StoredEvent } from "./record.ts";
import type { PriorRun } from "../engine/ports.ts";
import { OPERATOR } from "../engine/graph/hypotheses.ts";
import type { HistoryRole, Hypothesis, PriorEntry } from "../engine/graph/state.ts";

type Fields = Readonly<Record<string, unknown>>;

const NOT_CHECKED = {
  en: "the run was imported: nothing in it was checked here",
  es: "la ejecución fue importada: aquí no se ha comprobado nada",
} as const;

/** The record as it is shown; one of this server's own is unchanged. */
export function withoutForeignClaims<T extends Fields>(record: T): T {
  if (record.imported !== true) return record;
  const reason = NOT_CHECKED[labelLanguage(textOf(record.language))];
  const { conclusion, decision, hypotheses, events, final_result: final } = record;
  return {
    ...record,
    ...(isObject(conclusion) && { conclusion: withoutOutcome(conclusion) }),
    ...(typeof final === "string" && { final_result: withReason(final, reason) }),
    ...(isObject(decision) && { decision: undecided(decision, reason) }),
    ...(Array.isArray(hypotheses) && { hypotheses: hypotheses.map(unchecked) }),
    ...(Array.isArray(events) && { events: events.map((event) => unclaimed(event, reason)) }),
  };
}

export function withoutOutcome<T extends Fields>(conclusion: T): T & { outcome: null; confidence: number } {
  return { ...conclusion, outcome: null, confidence: share(conclusion.confidence) };
}

function unclaimed(event: unknown, reason: string): unknown {
  if (!isObject(event)) return event;
  if (event.type === "moderator_decision") {
    return { ...event, decision: undecided(fieldsOf(event.decision), reason) };
  }
  if (event.type === "final_result" && typeof event.content === "string") {
    return { ...event, content: withReason(event.content, reason) };
  }
  if (event.type === "hypothesis_update" && Array.isArray(event.hypotheses)) {
    return { ...event, hypotheses: event.hypotheses.map(unchecked) };
  }
  return event;
}

function undecided(decision: Fields, reason: string): Fields {
  const confidence = share(decision.confidence);
  const { hypothesis_id } = fieldsOf(decision.grounding);
  const grounding = {
    hypothesis_id: textOf(hypothesis_id) || null,
    level: "none",
    stated_confidence: confidence,
    cap: null,
    reason,
    outcome: null,
  };
  return { ...decision, confidence, grounding };
}

function unchecked(hypothesis: unknown): unknown {
  if (!isObject(hypothesis)) return hypothesis;
  const { state, evidence, reviews } = hypothesis;
  return {
    ...hypothesis,
    ...(state === "confirmed" && { state: "active" }),
    ...(Array.isArray(evidence) && { evidence: evidence.map(uncheckedLine) }),
    ...(Array.isArray(reviews) && { reviews: reviews.map(uncheckedReview) }),
  };
}

function uncheckedReview(review: unknown): unknown {
  if (!isObject(review)) return review;
  const { evidence } = review;
  const lines = Array.isArray(evidence) ? evidence.map(uncheckedLine) : [];
  return { ...review, new_evidence: false, evidence: lines };
}

function uncheckedLine(line: unknown): unknown {
  return isObject(line) ? { ...line, status: "unchecked" } : line;
}

function withReason(text: string, reason: string): string {
  return text.startsWith(`(${reason})`) ? text : `(${reason})\n\n${text}`;
}

function share(value: unknown): number {
  return Math.min(1, Math.max(0, numberOf(value) ?? 0));
}

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

const ROLE_OF_NODE: Readonly<Record<string, HistoryRole>> = {
  diagnostic_agent: "diagnostic_agent",
  skeptic_agent: "skeptic_agent",
  diagnostic_rebuttal_agent: "diagnostic_rebuttal",
};

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

function toEntry(event: StoredEvent): PriorEntry | undefined {
  const { type, node, content, decision, sample } = event;
  // Each diagnosis has ids of its own; what came of them has those of the run.
  if (type === "samples_compared" && typeof content === "string") {
    return { role: "diagnostic_agent", content };
  }
  if (type === "agent_completed" && sample === undefined && typeof content === "string") {
    const role = ROLE_OF_NODE[String(node)];
    return role === undefined ? undefined : { role, content };
  }
  if (type === "moderator_decision" && typeof decision === "object" && decision !== null) {
    return { role: "moderator", content: JSON.stringify(decision, null, 2) };
  }
  if (type === "user_comment" && typeof content === "string" && content !== "") {
    return { role: "user", content };
  }
  return undefined;
}
