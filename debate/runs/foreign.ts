/**
 * Removes claims that only this server can check from an imported record: which evidence counts, and which
 * hypothesis is confirmed.
 */
import { fieldsOf, isObject, numberOf, textOf } from "../engine/graph/json_objects.ts";
import { vocabulary } from "../engine/graph/labels.ts";

type Fields = Readonly<Record<string, unknown>>;

const wordsFor = vocabulary({
  reason: [
    "the run was imported: nothing in it was checked here",
    "la ejecución fue importada: aquí no se ha comprobado nada",
  ],
});

/** The record as it is shown; one of this server's own is unchanged. */
export function withoutForeignClaims<T extends Fields>(record: T): T {
  if (record.imported !== true) return record;
  const { reason } = wordsFor(textOf(record.language));
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
  const lines = (value: unknown) =>
    Array.isArray(value) ? value.map((line) => isObject(line) ? { ...line, status: "unchecked" } : line) : [];
  return {
    ...hypothesis,
    ...(state === "confirmed" && { state: "active" }),
    ...(Array.isArray(evidence) && { evidence: lines(evidence) }),
    ...(Array.isArray(reviews) && {
      reviews: reviews.map((review) =>
        isObject(review) ? { ...review, new_evidence: false, evidence: lines(review.evidence) } : review
      ),
    }),
  };
}

function withReason(text: string, reason: string): string {
  return text.startsWith(`(${reason})`) ? text : `(${reason})\n\n${text}`;
}

function share(value: unknown): number {
  return Math.min(1, Math.max(0, numberOf(value) ?? 0));
}
