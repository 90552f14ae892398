/**
 * Independent diagnoses before a debate: one after the other, each without knowing of the others.
 *
 * @module
 */
import { afterSamples, afterVote } from "../graph/samples.ts";
import type { TurnText } from "../graph/flow.ts";
import { type DebateState, ROLES } from "../graph/state.ts";
import type { DebateSetup, Sampling } from "../ports.ts";
import type { Debate } from "./debate.ts";
import { takeSample } from "./turn.ts";

/** The diagnoses that a debate begins with; `undefined` if it begins without, or continues another run. */
export function samplingOf({ sampling, initial }: DebateSetup): Sampling | undefined {
  return initial === undefined ? sampling : undefined;
}

/** The state after all diagnoses, and after the vote if that is all that follows. */
export async function takeSamples(
  debate: Debate,
  before: DebateState,
  { count, then }: Sampling,
): Promise<DebateState> {
  const { emit } = debate.ports;
  const turns: TurnText[] = [];
  for (let sample = 1; sample <= count; sample++) {
    debate.signal.throwIfAborted();
    const turn = await takeSample(debate, before);
    turns.push(turn);
    const { total_tokens } = debate.meter.totals().total;
    const node = "diagnostic_agent";
    emit({ type: "agent_completed", node, role: ROLES[node], content: turn.text, sample, total_tokens });
  }
  const { state, comparison } = afterSamples(before, turns);
  emit({ type: "samples_compared", node: "diagnostic_agent", round: 1, ...comparison });
  const { hypotheses } = state;
  if (hypotheses.length > 0) {
    emit({ type: "hypothesis_update", node: "diagnostic_agent", round: 1, hypotheses });
  }
  if (then === "debate") return state;
  const voted = afterVote(state, comparison);
  if (voted.decision !== undefined) {
    emit({
      type: "moderator_decision",
      node: "moderator_agent",
      decision: voted.decision,
      round: 1,
      total_tokens: debate.meter.totals().total.total_tokens,
      early_out_confirmed: false,
    });
  }
  return voted;
}
