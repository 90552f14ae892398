import { cut, linesOf, oneLine } from "./text.ts";
import { groundingOf } from "./evidence.ts";
import { findLeading } from "./hypothesis_id.ts";
import { parseShare } from "./probability.ts";
import type { Decision, EarlyOutRule, EarlyOutSignal, Hypothesis } from "./state.ts";

export const NO_EARLY_OUT: EarlyOutSignal = { recommended: false, confidence: 0, rationale: "" };

const MAX_RATIONALE = 1000;
const KEY = /^[\s>*_`-]{0,8}EARLY_OUT_(RECOMMENDED|CONFIDENCE|RATIONALE)[\s*_`]{0,4}:[\s*_`]{0,4}/i;
const OTHER_KEY = /^[\s>*_`-]{0,8}(?:[A-Z][A-Z0-9_]{2,40}\s?:|#{1,6}\s)/;

/**
 * Reads the three lines `EARLY_OUT_RECOMMENDED`, `…_CONFIDENCE`, `…_RATIONALE`; of several, the last one
 * counts.
 */
export function parseEarlyOut(text: string): EarlyOutSignal {
  let { recommended, confidence, rationale } = NO_EARLY_OUT;
  let isRationale = false;
  for (const whole of linesOf(text)) {
    const line = whole.slice(0, MAX_RATIONALE);
    const match = KEY.exec(line);
    const value = match === null ? line : line.slice(match[0].length).replace(/[\s*_`]{1,8}$/, "");
    switch (match?.[1]?.toUpperCase()) {
      case "RECOMMENDED":
        recommended = /^(?:true|yes|1|s[ií])$/i.test(value);
        isRationale = false;
        break;
      case "CONFIDENCE":
        confidence = parseShare(value) ?? 0;
        isRationale = false;
        break;
      case "RATIONALE":
        rationale = value;
        isRationale = true;
        break;
      default:
        isRationale &&= !OTHER_KEY.test(line);
        if (isRationale && rationale.length < MAX_RATIONALE) rationale += ` ${value}`;
    }
  }
  return { recommended, confidence, rationale: cut(oneLine(rationale), MAX_RATIONALE) };
}

/**
 * Whether the debate ends early. The diagnostic agent alone cannot end it: the moderator's confidence of the
 * same round must also reach the threshold, and its leading hypothesis must be fully grounded and not rejected.
 */
export function isEarlyOutConfirmed(
  rule: EarlyOutRule,
  signal: EarlyOutSignal,
  decision: Decision,
  hypotheses: readonly Hypothesis[],
): boolean {
  if (!rule.enabled || !signal.recommended) return false;
  if (!(signal.confidence >= rule.threshold && signal.confidence <= 1)) return false;
  if (decision.confidence < rule.threshold) return false;
  const lead = findLeading(hypotheses, decision.leading_hypothesis);
  return lead !== undefined && lead.state !== "rejected" && groundingOf(lead).level === "full";
}
