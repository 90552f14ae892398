import { checkEvidence } from "./evidence.ts";
import type { FoundHypothesis } from "./extract_hypotheses.ts";
import { hypothesisKey } from "./hypothesis_id.ts";
import type { CalledTool, Evidence, Hypothesis, HypothesisState, NodeName } from "./state.ts";

export const MAX_HYPOTHESES = 60;
const MAX_EVIDENCE = 20;
const MAX_TRANSITIONS = 40;

interface FindingOrigin {
  readonly round: number;
  readonly agent: NodeName;
  readonly calls: readonly CalledTool[];
  readonly newCalls: ReadonlySet<string>;
}

/** The table with the hypotheses found; known ones keep their place, id, round and proposer. */
export function mergeHypotheses(
  known: readonly Hypothesis[],
  found: readonly FoundHypothesis[],
  origin: FindingOrigin,
): readonly Hypothesis[] {
  const table = new Map(known.map((hypothesis) => [hypothesisKey(hypothesis.id), hypothesis]));
  for (const finding of found) {
    const key = hypothesisKey(finding.id);
    const before = table.get(key);
    if (before !== undefined) table.set(key, update(before, finding, origin));
    else if (finding.text !== "" && table.size < MAX_HYPOTHESES) table.set(key, create(finding, origin));
  }
  return [...table.values()];
}

export const OPERATOR = "user_input_gate" satisfies NodeName;

/** Whether the operator has dropped it: its last change is theirs. */
export function isDropped({ state, transitions }: Hypothesis): boolean {
  return state === "rejected" && transitions.at(-1)?.agent === OPERATOR;
}

/** A hypothesis in another state, with the change recorded in its history. */
export function moveTo(
  hypothesis: Hypothesis,
  to: HypothesisState,
  by: { readonly round: number; readonly agent: NodeName; readonly note: string },
): Hypothesis {
  const transition = { round: by.round, from: hypothesis.state, to, agent: by.agent, note: by.note };
  return {
    ...hypothesis,
    state: to,
    rejected_reason: to === "rejected" ? by.note : null,
    transitions: [...hypothesis.transitions, transition].slice(-MAX_TRANSITIONS),
  };
}

function create(finding: FoundHypothesis, { round, agent, calls }: FindingOrigin): Hypothesis {
  return {
    id: finding.id,
    text: finding.text,
    state: "active",
    proposer: agent,
    round,
    supporting_evidence: finding.evidence,
    evidence: finding.evidence.map((line) => checkEvidence(line, round, calls)),
    reviews: [],
    rejected_reason: null,
    probability: finding.probability,
    transitions: [{ round, from: null, to: "active", agent, note: "proposed" }],
  };
}

function update(before: Hypothesis, finding: FoundHypothesis, origin: FindingOrigin): Hypothesis {
  const fresh = finding.evidence.filter((line) => !before.supporting_evidence.includes(line));
  const stated = finding.evidence.map((line) => checkEvidence(line, origin.round, origin.calls));
  const proof = stated.find(({ text, status, call_ids }) =>
    fresh.includes(text) && status === "grounded" && call_ids.some((id) => origin.newCalls.has(id))
  );
  const isReopened = before.state === "rejected" && !isDropped(before) && proof !== undefined;
  const merged: Hypothesis = {
    ...before,
    probability: finding.probability ?? before.probability,
    supporting_evidence: [...before.supporting_evidence, ...fresh].slice(0, MAX_EVIDENCE),
    evidence: mergeEvidence(before.evidence, stated),
    // A new wording would carry a verdict over to a claim that was never judged.
    text: finding.text !== "" && (before.state === "active" || isReopened) ? finding.text : before.text,
  };
  if (!isReopened) return merged;
  const { round, agent } = origin;
  return moveTo(merged, "active", { round, agent, note: `reopened with new evidence: ${proof.text}` });
}

/** A repeated line is judged anew unless it counted already: its call may be of the run that this one resumes. */
function mergeEvidence(before: readonly Evidence[], stated: readonly Evidence[]): readonly Evidence[] {
  const merged = new Map(before.map((each) => [each.text, each]));
  for (const each of stated) {
    const known = merged.get(each.text);
    merged.set(each.text, known?.status === "grounded" ? { ...known, round: each.round } : each);
  }
  return [...merged.values()].slice(-MAX_EVIDENCE);
}
