import { checkEvidence, groundingOf } from "./evidence.ts";
import { type FoundHypothesis, parseReview, type ReviewMark } from "./review_marks.ts";
import { findAllNamed, findLeading, hypothesisKey } from "./hypothesis_id.ts";
import type {
  CalledTool,
  Decision,
  Evidence,
  Hypothesis,
  HypothesisState,
  NodeName,
  Review,
  Verdict,
} from "./state.ts";
import { cut, oneLine } from "./text.ts";
import type { Labels } from "./labels.ts";

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

const MAX_NOTE = 500;
const MAX_REVIEWS = 30;
/** The note of a change for which the reviewer gives no reason. */
const UNSTATED = {
  rejected: "noReason",
  confirmed: "accepted",
  active: "needsEvidence",
} as const satisfies Record<HypothesisState, keyof Labels>;

/** When a review was written, and the words of its debate. */
interface ReviewOrigin {
  readonly round: number;
  readonly labels: Labels;
  readonly calls: readonly CalledTool[];
}

/**
 * The skeptic may reject and confirm hypotheses and change their probability. The last verdict on each one
 * counts; one that asks for evidence takes a confirmation back. Nobody's word confirms what
 * is not fully grounded.
 */
export function applySkeptic(
  hypotheses: readonly Hypothesis[],
  text: string,
  origin: ReviewOrigin,
): readonly Hypothesis[] {
  const marks = parseReview(text);
  const { round, labels } = origin;
  const agent = "skeptic_agent";
  return hypotheses.map((hypothesis) => {
    const { verdict, probability } = lastWord(marks, hypothesis);
    const weighed = probability === undefined || probability === hypothesis.probability
      ? hypothesis
      : { ...hypothesis, probability };
    if (verdict === undefined) return weighed;
    const review = toReview(hypothesis, verdict, agent, origin);
    const reviewed = withReview(weighed, { ...review, probability: probability ?? null });
    const to = judge(review.verdict, reviewed);
    if (to === hypothesis.state) return reviewed;
    const reason = review.reason || labels[UNSTATED[to]];
    const note = to === "confirmed" && !review.new_evidence ? `${reason} (${labels.noNewEvidence})` : reason;
    return moveTo(reviewed, to, { round, agent, note });
  });
}

function toReview(
  hypothesis: Hypothesis,
  { verdict, probability, reason, evidence }: ReviewMark & { readonly verdict: Verdict },
  agent: NodeName,
  { round, calls }: ReviewOrigin,
): Review {
  const checked = evidence.map((line) => checkEvidence(line, round, calls));
  const cited = new Set(hypothesis.evidence.flatMap(({ call_ids }) => call_ids));
  const isNew = checked.some(({ status, call_ids }) =>
    status === "grounded" && call_ids.some((id) => !cited.has(id))
  );
  return {
    round,
    agent,
    verdict,
    probability: probability ?? null,
    reason,
    evidence: checked,
    new_evidence: isNew,
  };
}

function withReview(hypothesis: Hypothesis, review: Review): Hypothesis {
  return { ...hypothesis, reviews: [...hypothesis.reviews, review].slice(-MAX_REVIEWS) };
}

function judge(verdict: Verdict, hypothesis: Hypothesis): HypothesisState {
  const { state: before } = hypothesis;
  if (isDropped(hypothesis)) return before;
  switch (verdict) {
    case "accepted":
      return groundingOf(hypothesis).level === "full" ? "confirmed" : before;
    case "rejected":
      return "rejected";
    case "needs_evidence":
      return before === "confirmed" ? "active" : before;
  }
}

/** The rebuttal may give up a hypothesis; defending one changes nothing. */
export function applyRebuttal(
  hypotheses: readonly Hypothesis[],
  text: string,
  origin: ReviewOrigin,
): readonly Hypothesis[] {
  const marks = parseReview(text);
  const { round, labels } = origin;
  const agent = "diagnostic_rebuttal_agent";
  return hypotheses.map((hypothesis) => {
    const { verdict } = lastWord(marks, hypothesis);
    if (verdict?.verdict !== "rejected" || hypothesis.state === "rejected") return hypothesis;
    const reviewed = withReview(hypothesis, toReview(hypothesis, verdict, agent, origin));
    return moveTo(reviewed, "rejected", { round, agent, note: verdict.reason || labels.noReason });
  });
}

/**
 * Rejects what the moderator lists, and confirms its leading hypothesis if it closes with enough confidence and is
 * fully grounded.
 */
export function applyDecision(
  hypotheses: readonly Hypothesis[],
  decision: Decision,
  { round, labels, confidenceThreshold }: Omit<ReviewOrigin, "calls"> & {
    readonly confidenceThreshold: number;
  },
): readonly Hypothesis[] {
  const lead = findLeading(hypotheses, decision.leading_hypothesis);
  const rejected = new Map(
    decision.rejected_hypotheses.flatMap((text) =>
      findAllNamed(hypotheses, text)
        .filter((hypothesis) => hypothesis !== lead)
        .map((hypothesis) => [hypothesis, cut(oneLine(text), MAX_NOTE)] as const)
    ),
  );
  const closes = decision.status === "final_diagnosis" || decision.status === "propose_fix";
  const confirms = closes && decision.confidence >= confidenceThreshold && lead !== undefined &&
    groundingOf(lead).level === "full";
  const by = { round, agent: "moderator_agent" } as const;
  return hypotheses.map((hypothesis) => {
    const note = rejected.get(hypothesis);
    if (note !== undefined && hypothesis.state !== "rejected") {
      return moveTo(hypothesis, "rejected", { ...by, note });
    }
    if (confirms && hypothesis === lead && hypothesis.state === "active") {
      return moveTo(hypothesis, "confirmed", { ...by, note: labels.leadConfirmed });
    }
    return hypothesis;
  });
}

function lastWord(marks: readonly ReviewMark[], { id }: Hypothesis) {
  const key = hypothesisKey(id);
  const own = marks.filter((mark) => mark.key === key);
  return {
    verdict: own.findLast(hasVerdict),
    probability: own.findLast((mark) => mark.probability !== undefined)?.probability,
  };
}

function hasVerdict(mark: ReviewMark): mark is ReviewMark & { readonly verdict: Verdict } {
  return mark.verdict !== undefined;
}

export type OperatorChange =
  /** It is examined further, also if it was rejected. Reviewers may reject it again. */
  | { readonly kind: "pin"; readonly id: string }
  | { readonly kind: "drop"; readonly id: string }
  | { readonly kind: "add"; readonly text: string };

/** What an operator says between two rounds. */
export interface OperatorWord {
  readonly comment: string;
  readonly changes: readonly OperatorChange[];
}

export const NO_WORD: OperatorWord = { comment: "", changes: [] };

const MAX_TEXT = 2000;

/** The table after the operator's changes, and what the agents are told of them. Changes of unknown ids do nothing. */
export function applyOperator(
  before: readonly Hypothesis[],
  changes: readonly OperatorChange[],
  { round, labels }: { readonly round: number; readonly labels: Labels },
): { readonly hypotheses: readonly Hypothesis[]; readonly said: readonly string[] } {
  let hypotheses = before;
  const said: string[] = [];
  const move = (id: string, to: "active" | "rejected", note: string) => {
    const key = hypothesisKey(id);
    const found = hypotheses.find((each) => hypothesisKey(each.id) === key);
    if (found === undefined) return;
    // A confirmation is for reviewers to give and to take back.
    const next = to === "active" && found.state === "confirmed" ? "confirmed" : to;
    const moved = moveTo(found, next, { round, agent: OPERATOR, note });
    hypotheses = hypotheses.map((each) => each === found ? moved : each);
    said.push(`${note}: ${found.id}`);
  };
  for (const change of changes) {
    switch (change.kind) {
      case "pin":
        move(change.id, "active", labels.operatorPinned);
        break;
      case "drop":
        move(change.id, "rejected", labels.operatorDropped);
        break;
      case "add": {
        const text = cut(oneLine(change.text.toWellFormed()), MAX_TEXT);
        if (text === "" || hypotheses.length >= MAX_HYPOTHESES) break;
        const id = nextId(hypotheses);
        hypotheses = [...hypotheses, propose(id, text, round, labels.operatorAdded)];
        said.push(`${labels.operatorAdded}: ${id}: ${text}`);
        break;
      }
      default:
        change satisfies never;
    }
  }
  return { hypotheses, said };
}

function nextId(hypotheses: readonly Hypothesis[]): string {
  const numbers = hypotheses.map(({ id }) => hypothesisKey(id)).filter((key) => /^\d{1,6}$/.test(key)).map(
    Number,
  );
  return `H-${Math.max(0, ...numbers) + 1}`;
}

function propose(id: string, text: string, round: number, note: string): Hypothesis {
  return {
    id,
    text,
    state: "active",
    proposer: OPERATOR,
    round,
    supporting_evidence: [],
    evidence: [],
    reviews: [],
    rejected_reason: null,
    probability: null,
    transitions: [{ round, from: null, to: "active", agent: OPERATOR, note }],
  };
}
