import { cut, oneLine } from "./text.ts";
import { checkEvidence, groundingOf } from "./evidence.ts";
import { findAllNamed, findLeading, hypothesisKey } from "./hypothesis_id.ts";
import type { Labels } from "./labels.ts";
import { isDropped, moveTo } from "./merge_hypotheses.ts";
import { parseReview, type ReviewMark } from "./review_marks.ts";
import type {
  CalledTool,
  Decision,
  Hypothesis,
  HypothesisState,
  NodeName,
  Review,
  Verdict,
} from "./state.ts";

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
