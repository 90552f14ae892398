import type { DebateState, DebateTask, Decision, Hypothesis } from "../graph/state.ts";
import { startState } from "../graph/flow.ts";

/** A task of four rounds. */
export const SAMPLE_TASK: DebateTask = {
  topic: "checkout answers slowly",
  context: "",
  maxRounds: 4,
  confidenceThreshold: 0.8,
  earlyOut: { enabled: true, threshold: 0.9 },
  compressHistory: true,
  language: "en",
};

/** A debate at its start. */
export function sampleState(changes: Partial<DebateState> = {}): DebateState {
  return { ...startState(SAMPLE_TASK, undefined), ...changes };
}

/** A decision to continue. */
export function sampleDecision(changes: Partial<Decision> = {}): Decision {
  return {
    status: "continue",
    confidence: 0.5,
    leading_hypothesis: "1: the pool is exhausted",
    evidence: [],
    missing_evidence: [],
    rejected_hypotheses: [],
    next_step: "measure",
    recommended_fix: null,
    validation: [],
    stop_reason: null,
    risk_level: "medium",
    flow_directive: null,
    ...changes,
  };
}

/** An active hypothesis `1`. */
export function sampleHypothesis(changes: Partial<Hypothesis> = {}): Hypothesis {
  return {
    id: "1",
    text: "The connection pool is exhausted",
    state: "active",
    proposer: "diagnostic_agent",
    round: 1,
    supporting_evidence: [],
    rejected_reason: null,
    probability: 0.6,
    transitions: [{ round: 1, from: null, to: "active", agent: "diagnostic_agent", note: "proposed" }],
    ...changes,
  };
}
