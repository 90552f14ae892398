/**
 * How reviews and decisions change the hypotheses.
 *
 * @module
 */
import { cut, oneLine } from "./text.ts";
import { findAllNamed, findLeading, hypothesisKey } from "./hypothesis_id.ts";
import type { Labels } from "./labels.ts";
import { moveTo } from "./merge_hypotheses.ts";
import { parseReview, type ReviewMark, type Verdict } from "./review_marks.ts";
import type { Decision, Hypothesis, HypothesisState } from "./state.ts";

const MAX_NOTE = 500;
/** The note of a change for which the reviewer gives no reason. */
const UNSTATED = {
  rejected: "noReason",
  confirmed: "accepted",
  active: "needsEvidence",
} as const satisfies Record<HypothesisState, keyof Labels>;

/** When a review was written, and the words of its debate. */
export interface ReviewOrigin {
  readonly round: number;
  readonly labels: Labels;
}

/**
 * The skeptic may reject and confirm hypotheses and change their probability. The last verdict on each one
 * counts; one that asks for evidence takes a confirmation back.
 */
export function applySkeptic(
  hypotheses: readonly Hypothesis[],
  text: string,
  { round, labels }: ReviewOrigin,
): readonly Hypothesis[] {
  const marks = parseReview(text);
  return hypotheses.map((hypothesis) => {
    const { verdict, probability } = lastWord(marks, hypothesis);
    const weighed = probability === undefined || probability === hypothesis.probability
      ? hypothesis
      : { ...hypothesis, probability };
    const to = verdict?.verdict === undefined ? hypothesis.state : judge(verdict.verdict, hypothesis.state);
    if (to === hypothesis.state) return weighed;
    return moveTo(weighed, to, {
      round,
      agent: "skeptic_agent",
      note: verdict?.reason || labels[UNSTATED[to]],
    });
  });
}

function judge(verdict: Verdict, before: HypothesisState): HypothesisState {
  switch (verdict) {
    case "accepted":
      return "confirmed";
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
  { round, labels }: ReviewOrigin,
): readonly Hypothesis[] {
  const marks = parseReview(text);
  return hypotheses.map((hypothesis) => {
    const { verdict } = lastWord(marks, hypothesis);
    if (verdict?.verdict !== "rejected" || hypothesis.state === "rejected") return hypothesis;
    return moveTo(hypothesis, "rejected", {
      round,
      agent: "diagnostic_rebuttal_agent",
      note: verdict.reason || labels.noReason,
    });
  });
}

/** Rejects what the moderator lists, and confirms its leading hypothesis if it closes with enough confidence. */
export function applyDecision(
  hypotheses: readonly Hypothesis[],
  decision: Decision,
  { round, labels, confidenceThreshold }: ReviewOrigin & { readonly confidenceThreshold: number },
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
  const confirms = closes && decision.confidence >= confidenceThreshold;
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
    verdict: own.findLast((mark) => mark.verdict !== undefined),
    probability: own.findLast((mark) => mark.probability !== undefined)?.probability,
  };
}
