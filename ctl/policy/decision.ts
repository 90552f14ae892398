import type { SshDecision } from "@gateway/shared/policy";
import type { decideAction } from "@gateway/shared/policy/analysis";
import { EMPTY_CELL } from "../kit/table.ts";

/** Lines of a label and a text; no line for an empty text. */
export function formatFacts(facts: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(facts).flatMap(([label, text]) => text === "" ? [] : [`${label}:`.padEnd(11) + text]);
}

type Decision = SshDecision | ReturnType<typeof decideAction>["decision"];

/**
 * A decision, and what follows from it.
 *
 * @param allowed the facts about an allowed request
 * @param changes the changes with which a denied request is allowed
 */
export function formatDecision(
  decision: Decision,
  { rules = [], allowed, changes }: {
    readonly rules?: readonly string[];
    readonly allowed: Readonly<Record<string, string>>;
    readonly changes?: readonly string[] | undefined;
  },
): readonly string[] {
  const [first = "no change of the config is enough", ...others] = changes ?? [];
  return [
    ...formatFacts({ Decision: describeDecision(decision), Rule: rules.join(", ") }),
    ...formatFacts(decision.kind === "denied" ? { Reason: decision.reason } : allowed),
    ...changes === undefined ? [] : formatFacts({ "To allow": first }),
    ...others.map((change) => " ".repeat(11) + change),
  ];
}

/** The verdict in capitals, and the rule behind it. */
function describeDecision(decision: Decision): string {
  const rule = `(${decision.matchedRule || EMPTY_CELL})`;
  if (decision.kind === "denied") return `DENIED ${rule}`;
  const would = "wouldDeny" in decision
    ? [
      ...decision.wouldDeny ? ["would deny"] : [],
      ...decision.wouldRequireApproval ? ["would require approval"] : [],
    ]
    : [];
  if (would.length > 0) return `ALLOWED with audit warning (${would.join(" and ")}) ${rule}`;
  return decision.requireApproval ? `ALLOWED, requires approval ${rule}` : `ALLOWED ${rule}`;
}
