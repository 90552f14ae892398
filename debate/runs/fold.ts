import { cutText } from "@gateway/shared/text";
import type { CollectedContext } from "../context/collect.ts";
import { skippedText } from "../engine/graph/flow.ts";
import { fieldsOf, textOf } from "../engine/graph/text.ts";
import { logged, NO_TEXTS, TEXT_KEYS } from "../engine/graph/state.ts";
import * as records from "./record.ts";

type Events = readonly records.StoredEvent[];

/** Builds the record of a run from its first header and its events. The keys are in the order of the file. */
export function recordOf(
  { run_id, status: _, schema_version, ...start }: records.RunHeader,
  { text: context, redactions: context_redactions, notes: context_notes }: CollectedContext,
  events: Events,
): records.RunRecord {
  const facts = factsOf(events, start.language);
  const finished = events.findLast(({ type }) => type === "run_finished");
  const end = endOf(start.timestamp, finished);
  const conclusion = end && records.conclusionOf(facts.decision, facts.hypotheses);
  const failure = finished?.status === "error" ? events.findLast(({ type }) => type === "error") : undefined;
  return {
    run_id,
    status: records.RUN_STATUSES.find((status) => status === finished?.status) ?? "running",
    ...(conclusion !== undefined && { conclusion }),
    ...(failure !== undefined && { problem: cutText(textOf(failure.message), records.MAX_CAUSE) }),
    ...start,
    ...end,
    schema_version,
    context,
    context_redactions,
    context_notes,
    ...facts,
  };
}

/** The fields of a record after its context, in the order of the file. */
export function factsOf(events: Events, language: string) {
  return {
    final_result: textOf(events.findLast(({ type }) => type === "final_result")?.content) || null,
    decision: records.lastDecision(events),
    hypotheses: records.readHypotheses(records.lastHypotheses(events)),
    round_log: roundsOf(events, language),
    tool_calls_log: events.filter(({ type }) => type === "tool_call").map(
      ({ call_id, agent_node: agent, tool_name, args, result, error, approval }) => (
        { call_id, agent, tool_name, args, result, error, approval }
      ),
    ),
    events,
  };
}

/** The facts about the end. An interrupted run has none, because the time of its end is unknown. */
function endOf(startedAt: string, finished: records.StoredEvent | undefined) {
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

function roundsOf(events: Events, language: string) {
  const rounds: Readonly<Record<string, unknown>>[] = [];
  let texts = { ...NO_TEXTS };
  let isAgreed = false;
  for (const event of events) {
    const key = Object.entries(TEXT_KEYS).find(([node]) => node === event.node)?.[1];
    switch (event.type) {
      // The comparison follows the diagnoses and replaces them.
      case "samples_compared":
        texts.diagnostic = logged(textOf(event.content));
        isAgreed = event.agreed === true;
        break;
      case "agent_completed":
        if (key !== undefined) texts[key] = logged(textOf(event.content));
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
