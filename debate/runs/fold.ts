import { skippedText } from "../engine/graph/flow.ts";
import { logged, NO_TEXTS, TEXT_KEYS } from "../engine/graph/state.ts";
import { fieldsOf, textOf } from "../engine/graph/json_objects.ts";
import {
  conclusionOf,
  lastHypotheses,
  readHypotheses,
  RUN_STATUSES,
  type RunRecord,
  type StoredEvent,
} from "./record.ts";

/**
 * The record after these events.
 *
 * @param begun the record of the same run at any time; only what was known at its start is taken from it
 */
export function recordOf(begun: RunRecord, events: readonly StoredEvent[]): RunRecord {
  const {
    finished_at: _finished,
    duration_seconds: _duration,
    token_totals: _tokens,
    cost_estimate: _cost,
    conclusion: _conclusion,
    status: _status,
    schema_version,
    context,
    context_redactions,
    context_notes,
    final_result: _final,
    decision: _decision,
    hypotheses: _hypotheses,
    round_log: _rounds,
    tool_calls_log: _calls,
    events: _events,
    ...header
  } = begun;
  const told = toldBy(events, header.language);
  const finished = events.findLast(({ type }) => type === "run_finished");
  const end = endOf(header.timestamp, finished);
  const conclusion = end === undefined ? undefined : conclusionOf(told.decision, told.hypotheses);
  return {
    ...header,
    ...end,
    status: RUN_STATUSES.find((status) => status === finished?.status) ?? "running",
    ...(conclusion !== undefined && { conclusion }),
    schema_version,
    context,
    context_redactions,
    context_notes,
    ...told,
  };
}

/** The part of a record behind its context, in the order of its keys. */
export function toldBy(
  events: readonly StoredEvent[],
  language: string,
): Pick<
  RunRecord,
  "final_result" | "decision" | "hypotheses" | "round_log" | "tool_calls_log" | "events"
> {
  return {
    final_result: textOf(events.findLast(({ type }) => type === "final_result")?.content) || null,
    decision: lastDecision(events),
    hypotheses: readHypotheses(lastHypotheses(events)),
    round_log: roundsOf(events, language),
    tool_calls_log: callsOf(events),
    events,
  };
}

export function lastDecision(events: readonly StoredEvent[]): RunRecord["decision"] {
  const decision = events.findLast(({ type }) => type === "moderator_decision")?.decision;
  return decision === undefined || decision === null ? null : fieldsOf(decision);
}

/** What is known of the end. A run that was interrupted has none: nobody knows when it stopped. */
function endOf(startedAt: string, finished: StoredEvent | undefined): Partial<RunRecord> | undefined {
  const finishedAt = textOf(finished?.timestamp);
  if (finished === undefined || finishedAt === "") return undefined;
  const ms = Date.parse(finishedAt) - Date.parse(startedAt);
  const { cost_estimate: cost } = finished;
  return {
    finished_at: finishedAt,
    duration_seconds: Math.max(0, Math.round(ms / 100) / 10),
    token_totals: fieldsOf(finished.token_totals),
    cost_estimate: cost === null || cost === undefined ? null : fieldsOf(cost),
  };
}

function keyOf(node: string) {
  return Object.entries(TEXT_KEYS).find(([each]) => each === node)?.[1];
}

function roundsOf(events: readonly StoredEvent[], language: string): RunRecord["round_log"] {
  const rounds: Readonly<Record<string, unknown>>[] = [];
  let texts = { ...NO_TEXTS };
  let isAgreed = false;
  for (const event of events) {
    const key = keyOf(textOf(event.node));
    switch (event.type) {
      // It follows the diagnoses that it compares, and stands in their place.
      case "samples_compared":
        texts.diagnostic = logged(textOf(event.content));
        isAgreed = event.agreed === true;
        break;
      case "agent_completed":
        if (key === undefined) break;
        texts[key] = logged(textOf(event.content));
        break;
      case "agent_skipped": {
        if (key !== "skeptic" && key !== "rebuttal") break;
        const node = key === "skeptic" ? "skeptic_agent" : "diagnostic_rebuttal_agent";
        const said = skippedText(node, textOf(event.rationale), language, isAgreed && rounds.length === 0);
        texts[key] = logged(said);
        break;
      }
      case "moderator_decision":
        rounds.push({ round: rounds.length + 1, ...texts, moderator: fieldsOf(event.decision) });
        texts = { ...NO_TEXTS };
        break;
    }
  }
  return rounds;
}

function callsOf(events: readonly StoredEvent[]): RunRecord["tool_calls_log"] {
  return events.filter(({ type }) => type === "tool_call").map(
    ({ call_id, agent_node: agent, tool_name, args, result, error, approval }) => (
      { call_id, agent, tool_name, args, result, error, approval }
    ),
  );
}
