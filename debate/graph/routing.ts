/**
 * What comes next.
 *
 * @module
 */
import type { AgentNode, DebateState } from "./state.ts";

/** A node that a directive can leave out. */
export type SkippableNode = Exclude<AgentNode, "diagnostic_agent">;

/** The next step of a debate. */
export type Step =
  | { readonly kind: "agent"; readonly node: AgentNode }
  /** The node is passed over. */
  | { readonly kind: "skip"; readonly node: SkippableNode; readonly rationale: string }
  | { readonly kind: "moderate" }
  | { readonly kind: "summarize" }
  | { readonly kind: "ask" }
  | { readonly kind: "finalize" }
  | { readonly kind: "end" };

/** Steps after which a debate is going in circles; with this routing it cannot be reached. */
export function stepLimit(maxRounds: number): number {
  return maxRounds * 8 + 10;
}

/**
 * The step after the node that is done.
 *
 * @param isPaused whether the operator wants to comment before the next round
 */
export function nextStep(state: DebateState, isPaused: boolean): Step {
  switch (state.done) {
    case undefined:
    case "user_input_gate":
      return { kind: "agent", node: "diagnostic_agent" };
    case "diagnostic_agent":
      return agentOrSkip(state, "skeptic_agent");
    case "skeptic_agent":
      return agentOrSkip(state, "diagnostic_rebuttal_agent");
    case "diagnostic_rebuttal_agent":
      return { kind: "moderate" };
    case "moderator_agent":
      return { kind: isOver(state) ? "finalize" : "summarize" };
    case "summarize_history":
      return isPaused ? { kind: "ask" } : { kind: "agent", node: "diagnostic_agent" };
    case "finalize":
      return { kind: "end" };
  }
}

/** Only the decision right before counts, and only one of this run: a directive is for one round. */
function agentOrSkip(state: DebateState, node: SkippableNode): Step {
  const directive = state.decision?.flow_directive;
  const isSkipped = node === "skeptic_agent" ? directive?.skip_skeptic : directive?.skip_rebuttal;
  return isSkipped ? { kind: "skip", node, rationale: directive?.rationale ?? "" } : { kind: "agent", node };
}

function isOver({ decision, earlyOutConfirmed, round, task }: DebateState): boolean {
  return decision === undefined || decision.status !== "continue" || earlyOutConfirmed ||
    round > task.maxRounds;
}
