import { cutText } from "@gateway/shared/text";
import { checkEvidence, citesTool, groundingOf } from "./evidence.ts";
import { findAllNamed, findById, findLeading, hypothesisKey } from "./hypothesis_id.ts";
import type { Labels } from "./labels.ts";
import { type FoundHypothesis, parseReview, type ReviewMark } from "./review_marks.ts";
import type { CalledTool, Decision, Evidence, Hypothesis, NodeName, Review, Verdict } from "./state.ts";
import { oneLine } from "./text.ts";

const MAX_HYPOTHESES = 60;
const MAX_EVIDENCE = 20;
const MAX_TRANSITIONS = 40;
const MAX_NOTE = 500;
const MAX_REVIEWS = 30;
const MAX_TEXT = 2000;

export const OPERATOR = "user_input_gate" satisfies NodeName;

type Hypotheses = readonly Hypothesis[];

interface FindingOrigin {
  readonly round: number;
  readonly agent: NodeName;
  readonly calls: readonly CalledTool[];
  readonly newCalls: ReadonlySet<string>;
}

/** Merges found hypotheses into the table. Known ones keep their position, ID, round and proposer. */
export function mergeHypotheses(
  known: Hypotheses,
  found: readonly FoundHypothesis[],
  origin: FindingOrigin,
): Hypotheses {
  const table = new Map(known.map((hypothesis) => [hypothesisKey(hypothesis.id), hypothesis]));
  for (const finding of found) {
    const key = hypothesisKey(finding.id);
    const before = table.get(key);
    if (before !== undefined) table.set(key, update(before, finding, origin));
    else if (finding.text !== "" && table.size < MAX_HYPOTHESES) table.set(key, create(finding, origin));
  }
  return [...table.values()];
}

/** Whether the last change of a hypothesis is that the operator dropped it. */
function isDropped({ state, transitions }: Hypothesis): boolean {
  return state === "rejected" && transitions.at(-1)?.agent === OPERATOR;
}

/** Changes the state of a hypothesis and records the transition. */
export function moveTo(
  hypothesis: Hypothesis,
  to: Hypothesis["state"],
  { round, agent, note }: { readonly round: number; readonly agent: NodeName; readonly note: string },
): Hypothesis {
  const transition = { round, from: hypothesis.state, to, agent, note };
  return {
    ...hypothesis,
    state: to,
    rejected_reason: to === "rejected" ? note : null,
    transitions: [...hypothesis.transitions, transition].slice(-MAX_TRANSITIONS),
  };
}

function create(
  { id, text, evidence, probability }: FoundHypothesis,
  { round, agent, calls }: Omit<FindingOrigin, "newCalls">,
  note = "proposed",
): Hypothesis {
  return {
    id,
    text,
    state: "active",
    proposer: agent,
    round,
    supporting_evidence: evidence,
    evidence: evidence.map((line) => checkEvidence(line, round, calls)),
    reviews: [],
    rejected_reason: null,
    probability,
    transitions: [{ round, from: null, to: "active", agent, note }],
  };
}

function update(before: Hypothesis, finding: FoundHypothesis, origin: FindingOrigin): Hypothesis {
  const { round, agent, calls, newCalls } = origin;
  const fresh = finding.evidence.filter((line) => !before.supporting_evidence.includes(line));
  const stated = finding.evidence.map((line) => checkEvidence(line, round, calls));
  // A rejection in words stands only while no evidence counts.
  const isRefuted = groundingOf(before).level !== "none" ||
    before.reviews.some(({ verdict, evidence }) => verdict === "rejected" && hasQuote(evidence));
  const proof = stated.find(({ text, status, call_ids }) =>
    fresh.includes(text) && status === "grounded" && (!isRefuted || call_ids.some((id) => newCalls.has(id)))
  );
  const isReopened = before.state === "rejected" && !isDropped(before) && proof !== undefined;
  const merged: Hypothesis = {
    ...before,
    probability: finding.probability ?? before.probability,
    supporting_evidence: [...before.supporting_evidence, ...fresh].slice(0, MAX_EVIDENCE),
    evidence: mergeEvidence(before.evidence, stated),
    // Otherwise a new wording would inherit a verdict on another claim.
    text: finding.text !== "" && (before.state === "active" || isReopened) ? finding.text : before.text,
  };
  if (!isReopened) return merged;
  return moveTo(merged, "active", { round, agent, note: `reopened with new evidence: ${proof.text}` });
}

/** Checks a repeated line again unless it counts already: its call may belong to the run that this one resumes. */
function mergeEvidence(before: readonly Evidence[], stated: readonly Evidence[]): readonly Evidence[] {
  const merged = new Map(before.map((each) => [each.text, each]));
  for (const each of stated) {
    const known = merged.get(each.text);
    merged.set(each.text, known?.status === "grounded" ? { ...known, round: each.round } : each);
  }
  return [...merged.values()].slice(-MAX_EVIDENCE);
}

interface ReviewOrigin {
  readonly round: number;
  readonly labels: Labels;
  readonly calls: readonly CalledTool[];
}

type Judged = ReviewMark & { readonly verdict: Verdict };

/** Applies a review to each hypothesis. The last verdict on a hypothesis counts. */
function withMarks(
  hypotheses: Hypotheses,
  text: string,
  judge: (hypothesis: Hypothesis, last: Judged | undefined, marks: readonly ReviewMark[]) => Hypothesis,
): Hypotheses {
  const marks = parseReview(text);
  return hypotheses.map((hypothesis) => {
    const key = hypothesisKey(hypothesis.id);
    const own = marks.filter((mark) => mark.key === key);
    return judge(hypothesis, own.findLast((mark): mark is Judged => mark.verdict !== undefined), own);
  });
}

/**
 * The skeptic can reject and confirm hypotheses and change their probability. The verdict `needs_evidence` withdraws a
 * confirmation, and so does a rejection that does not count. A hypothesis that is not fully grounded is never confirmed.
 */
export function applySkeptic(hypotheses: Hypotheses, text: string, origin: ReviewOrigin): Hypotheses {
  const { round, labels } = origin;
  const agent = "skeptic_agent";
  const unstated = { rejected: labels.noReason, confirmed: labels.accepted, active: labels.needsEvidence };
  return withMarks(hypotheses, text, (hypothesis, last, marks) => {
    const stated = marks.findLast((mark) => mark.probability !== undefined)?.probability;
    const weighed = { ...hypothesis, probability: stated ?? hypothesis.probability };
    if (last === undefined) return weighed;
    const said = { ...last, probability: stated };
    const { review, reviewed, isOpinion } = withReview(hypothesis, said, agent, origin);
    const after = isOpinion ? reviewed : { ...reviewed, probability: weighed.probability };
    const to = stateAfter(isOpinion ? "needs_evidence" : review.verdict, after);
    if (to === hypothesis.state) return after;
    const reason = review.reason || unstated[to];
    const note = to === "confirmed" && !review.new_evidence ? `${reason} (${labels.noNewEvidence})` : reason;
    return moveTo(after, to, { round, agent, note });
  });
}

/** The rebuttal can withdraw hypotheses. A defense changes nothing. */
export function applyRebuttal(hypotheses: Hypotheses, text: string, origin: ReviewOrigin): Hypotheses {
  const agent = "diagnostic_rebuttal_agent";
  return withMarks(hypotheses, text, (hypothesis, last) => {
    if (last?.verdict !== "rejected" || hypothesis.state === "rejected") return hypothesis;
    const { reviewed, isOpinion } = withReview(hypothesis, last, agent, origin);
    if (isOpinion) return reviewed;
    const note = last.reason || origin.labels.noReason;
    return moveTo(reviewed, "rejected", { round: origin.round, agent, note });
  });
}

function withReview(
  hypothesis: Hypothesis,
  { verdict, probability, reason, evidence: lines }: Omit<Judged, "key" | "probability"> & Partial<Judged>,
  agent: NodeName,
  { round, calls }: ReviewOrigin,
) {
  const evidence = lines.map((line) => checkEvidence(line, round, calls));
  const cited = new Set(hypothesis.evidence.flatMap(({ call_ids }) => call_ids));
  const new_evidence = evidence.some(({ status, call_ids }) =>
    status === "grounded" && call_ids.some((id) => !cited.has(id))
  );
  const said = { verdict, probability: probability ?? null, reason };
  const review: Review = { round, agent, ...said, evidence, new_evidence };
  return {
    review,
    isOpinion: verdict === "rejected" && !mayReject(hypothesis, review),
    reviewed: { ...hypothesis, reviews: [...hypothesis.reviews, review].slice(-MAX_REVIEWS) },
  };
}

/**
 * Whether a rejection counts. If evidence of the hypothesis counts, the rejection must quote a tool result, or rely on
 * the skeptic's last objection that does. The agent that proposed a hypothesis can withdraw it.
 */
function mayReject(hypothesis: Hypothesis, review: Review): boolean {
  const { level, contrary } = groundingOf(hypothesis);
  return level === "none" || contrary > 0 || isWithdrawal(hypothesis, review) || hasQuote(review.evidence);
}

/** Whether a rejection is from the agent that proposed the hypothesis. */
export function isWithdrawal({ proposer }: Hypothesis, { agent }: Review): boolean {
  return agent === "diagnostic_rebuttal_agent" && proposer === "diagnostic_agent";
}

function hasQuote(evidence: readonly Evidence[]): boolean {
  return evidence.some(({ status }) => status === "grounded");
}

function stateAfter(verdict: Verdict, hypothesis: Hypothesis): Hypothesis["state"] {
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

/**
 * Rejects the hypotheses that the moderator lists, if the rejections count, and confirms its leading hypothesis if the
 * decision closes the debate with enough confidence and the hypothesis is fully grounded.
 */
export function applyDecision(
  hypotheses: Hypotheses,
  { leading_hypothesis, rejected_hypotheses, status, confidence }: Decision,
  { confidenceThreshold, ...origin }: ReviewOrigin & { readonly confidenceThreshold: number },
): Hypotheses {
  const lead = findLeading(hypotheses, leading_hypothesis);
  const rejected = new Map(
    rejected_hypotheses.flatMap((text) =>
      findAllNamed(hypotheses, text).map((hypothesis) => [hypothesis, text] as const)
    ),
  );
  const closes = status === "final_diagnosis" || status === "propose_fix";
  const confirms = closes && confidence >= confidenceThreshold && lead !== undefined &&
    groundingOf(lead).level === "full";
  const by = { round: origin.round, agent: "moderator_agent" } as const;
  return hypotheses.map((hypothesis) => {
    const text = hypothesis === lead ? undefined : rejected.get(hypothesis);
    if (text !== undefined && hypothesis.state !== "rejected") {
      const note = cutText(oneLine(text), MAX_NOTE);
      const said = { verdict: "rejected", reason: note, evidence: citesTool(text) ? [text] : [] } as const;
      const { reviewed, isOpinion } = withReview(hypothesis, said, by.agent, origin);
      return isOpinion ? reviewed : moveTo(reviewed, "rejected", { ...by, note });
    }
    if (confirms && hypothesis === lead && hypothesis.state === "active") {
      return moveTo(hypothesis, "confirmed", { ...by, note: origin.labels.leadConfirmed });
    }
    return hypothesis;
  });
}

export type OperatorChange =
  /** The debate continues to examine the hypothesis, even if it was rejected. Reviewers can reject it again. */
  | { readonly kind: "pin"; readonly id: string }
  | { readonly kind: "drop"; readonly id: string }
  | { readonly kind: "add"; readonly text: string };

/** An operator's comment and changes between two rounds. */
export interface OperatorInput {
  readonly comment: string;
  readonly changes: readonly OperatorChange[];
}

export const NO_INPUT: OperatorInput = { comment: "", changes: [] };

/** Applies the operator's changes and describes them for the agents. Changes of unknown IDs are ignored. */
export function applyOperator(
  before: Hypotheses,
  changes: readonly OperatorChange[],
  { round, labels }: Pick<ReviewOrigin, "round" | "labels">,
): { readonly hypotheses: Hypotheses; readonly said: readonly string[] } {
  let hypotheses = before;
  const said: string[] = [];
  for (const change of changes) {
    if (change.kind === "add") {
      const text = cutText(oneLine(change.text.toWellFormed()), MAX_TEXT);
      if (text === "" || hypotheses.length >= MAX_HYPOTHESES) continue;
      const numbers = hypotheses.map(({ id }) => hypothesisKey(id)).filter((key) => /^\d{1,6}$/.test(key));
      const id = `H-${Math.max(0, ...numbers.map(Number)) + 1}`;
      const origin = { round, agent: OPERATOR, calls: [] } as const;
      const added = create({ id, text, evidence: [], probability: null }, origin, labels.operatorAdded);
      hypotheses = [...hypotheses, added];
      said.push(`${labels.operatorAdded}: ${id}: ${text}`);
      continue;
    }
    const found = findById(hypotheses, change.id);
    if (found === undefined) continue;
    const isPin = change.kind === "pin";
    const note = isPin ? labels.operatorPinned : labels.operatorDropped;
    // Only reviewers can confirm a hypothesis or withdraw its confirmation.
    const to = !isPin ? "rejected" : found.state === "confirmed" ? "confirmed" : "active";
    const moved = moveTo(found, to, { round, agent: OPERATOR, note });
    hypotheses = hypotheses.map((each) => each === found ? moved : each);
    said.push(`${note}: ${found.id}`);
  }
  return { hypotheses, said };
}
