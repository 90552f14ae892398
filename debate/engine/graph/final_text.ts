import { explainEvidence } from "./grounding.ts";
import { findLeading } from "./hypothesis_id.ts";
import { type Labels, labelsFor } from "./labels.ts";
import type { Decision, DecisionGrounding, Hypothesis } from "./state.ts";

/** Blocks of a label and what it says, with a blank line between them. */
export function formatFinalText(
  decision: Decision,
  hypotheses: readonly Hypothesis[],
  language: string,
): string {
  const labels = labelsFor(language);
  const lead = findLeading(hypotheses, decision.leading_hypothesis);
  const checked = lead?.evidence.map(({ text, status }) => `${text} (${explainEvidence(status, language)})`);
  const list = (entries: readonly string[]) =>
    (entries.length > 0 ? entries : [labels.none]).map((entry) => `- ${entry}`);
  return [
    `${labels.status}: ${decision.status}`,
    ...formatOutcome(decision.grounding, labels),
    `${labels.confidence}: ${decision.confidence.toFixed(2)}${formatLimit(decision, labels)}`,
    `${labels.risk}: ${decision.risk_level}`,
    [`${labels.leading}:`, decision.leading_hypothesis || labels.notDetermined],
    [`${labels.underDebate}:`, ...list(hypotheses.map(({ id, state, text }) => `${id} [${state}]: ${text}`))],
    [`${labels.evidence}:`, ...list(checked ?? [])],
    [`${labels.statedEvidence}:`, ...list(decision.evidence)],
    [`${labels.missingEvidence}:`, ...list(decision.missing_evidence)],
    [`${labels.rejected}:`, ...list(decision.rejected_hypotheses)],
    [`${labels.nextStep}:`, decision.next_step || labels.notDetermined],
    [`${labels.fix}:`, decision.recommended_fix ?? labels.notRecommended],
    [`${labels.validation}:`, ...list(decision.validation)],
    [`${labels.stopReason}:`, decision.stop_reason ?? labels.notSpecified],
  ].map((block) => typeof block === "string" ? block : block.join("\n")).join("\n\n");
}

function formatOutcome(grounding: DecisionGrounding | undefined, labels: Labels): readonly string[] {
  if (grounding === undefined || grounding.outcome === null) return [];
  return [
    `${labels.outcome}: ${grounding.outcome === "cause" ? labels.causeFound : labels.noConfidentCause}`,
  ];
}

function formatLimit({ confidence, grounding }: Decision, labels: Labels): string {
  if (grounding === undefined) return "";
  const { stated_confidence: stated, reason } = grounding;
  return stated > confidence ? ` (${stated.toFixed(2)} ${labels.stated}; ${reason})` : ` (${reason})`;
}
