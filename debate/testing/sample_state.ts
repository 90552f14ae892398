import { toCalledTool } from "../engine/graph/evidence.ts";
import type {
  CalledTool,
  DebateState,
  DebateTask,
  Decision,
  Evidence,
  Hypothesis,
} from "../engine/graph/state.ts";
import { startState } from "../engine/graph/flow.ts";

export const SAMPLE_TASK: DebateTask = {
  topic: "checkout answers slowly",
  context: "",
  maxRounds: 4,
  confidenceThreshold: 0.8,
  earlyOut: { enabled: true, threshold: 0.9 },
  compressHistory: true,
  language: "en",
};

export function sampleState(changes: Partial<DebateState> = {}): DebateState {
  return { ...startState(SAMPLE_TASK, undefined), ...changes };
}

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
    evidence: [],
    reviews: [],
    rejected_reason: null,
    probability: 0.6,
    transitions: [{ round: 1, from: null, to: "active", agent: "diagnostic_agent", note: "proposed" }],
    ...changes,
  };
}

/** A successful call of `http_get` with its result. */
export function sampleCall(number: number, found: string, changes: Partial<CalledTool> = {}): CalledTool {
  const call = { number, call_id: `c${number}`, tool_name: "http_get", succeeded: true };
  const url = `http://pool/${number}`;
  return { ...toCalledTool(call, { url }, `GET ${url}: 200 OK [3 ms]\n${found}`), ...changes };
}

/** Evidence that counts, from the result of a call. */
export function sampleEvidence(call_id = "c1", changes: Partial<Evidence> = {}): Evidence {
  return {
    text: `[tool:http_get] of ${call_id}`,
    round: 1,
    status: "grounded",
    call_ids: [call_id],
    ...changes,
  };
}

/** Evidence that counts, from two results. */
export const FULL_EVIDENCE: readonly Evidence[] = [sampleEvidence("c1"), sampleEvidence("c2")];
