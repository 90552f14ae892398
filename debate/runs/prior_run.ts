import type { PriorRun } from "../engine/ports.ts";
import { OPERATOR } from "../engine/graph/merge_hypotheses.ts";
import type { HistoryRole, Hypothesis, PriorEntry } from "../engine/graph/state.ts";
import type { ReadRecord, StoredEvent } from "./record.ts";

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
