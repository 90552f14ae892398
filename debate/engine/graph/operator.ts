import { hypothesisKey } from "./hypothesis_id.ts";
import type { Labels } from "./labels.ts";
import { MAX_HYPOTHESES, moveTo, OPERATOR } from "./merge_hypotheses.ts";
import type { Hypothesis } from "./state.ts";
import { cut, oneLine } from "./text.ts";

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
