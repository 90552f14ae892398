import fc from "fast-check";
import assert from "node:assert/strict";
import { sampleDecision, sampleHypothesis, sampleState } from "../testing/sample_state.ts";
import { nextStep, type Step, stepLimit } from "./routing.ts";
import { type DebateState, STATUSES } from "./state.ts";
import { afterAgent, afterComment, afterFinal, afterModerator, afterSkip, afterSummary } from "./steps.ts";

const skips = (skip_skeptic: boolean, skip_rebuttal: boolean) =>
  sampleDecision({ flow_directive: { skip_skeptic, skip_rebuttal, rationale: "why" } });

Deno.test.each<{ name: string; state: Partial<DebateState>; isPaused?: boolean; step: Step }>([
  { name: "the diagnosis at the start", state: {}, step: { kind: "agent", node: "diagnostic_agent" } },
  {
    name: "the skeptic after the diagnosis",
    state: { done: "diagnostic_agent" },
    step: { kind: "agent", node: "skeptic_agent" },
  },
  {
    name: "no skeptic when the decision before skips it",
    state: { done: "diagnostic_agent", decision: skips(true, false) },
    step: { kind: "skip", node: "skeptic_agent", rationale: "why" },
  },
  {
    name: "the rebuttal after the skeptic",
    state: { done: "skeptic_agent", decision: skips(true, false) },
    step: { kind: "agent", node: "diagnostic_rebuttal_agent" },
  },
  {
    name: "no rebuttal when the decision before skips it",
    state: { done: "skeptic_agent", decision: skips(false, true) },
    step: { kind: "skip", node: "diagnostic_rebuttal_agent", rationale: "why" },
  },
  {
    name: "the moderator after the rebuttal",
    state: { done: "diagnostic_rebuttal_agent" },
    step: { kind: "moderate" },
  },
  {
    name: "the summary after continue",
    state: { done: "moderator_agent", decision: sampleDecision(), round: 2 },
    step: { kind: "summarize" },
  },
  {
    name: "the end after the last round",
    state: { done: "moderator_agent", decision: sampleDecision(), round: 5 },
    step: { kind: "finalize" },
  },
  {
    name: "the end when early-out is confirmed",
    state: { done: "moderator_agent", decision: sampleDecision(), earlyOutConfirmed: true },
    step: { kind: "finalize" },
  },
  { name: "the end without a decision", state: { done: "moderator_agent" }, step: { kind: "finalize" } },
  {
    name: "the operator when paused",
    state: { done: "summarize_history" },
    isPaused: true,
    step: { kind: "ask" },
  },
  {
    name: "the next diagnosis when not paused",
    state: { done: "summarize_history" },
    step: { kind: "agent", node: "diagnostic_agent" },
  },
  {
    name: "the next diagnosis after the comment",
    state: { done: "user_input_gate" },
    isPaused: true,
    step: { kind: "agent", node: "diagnostic_agent" },
  },
  { name: "nothing after the result", state: { done: "finalize" }, step: { kind: "end" } },
])("nextStep() is $name", ({ state, isPaused = false, step }) => {
  assert.deepEqual(nextStep(sampleState(state), isPaused), step);
});

Deno.test.each(STATUSES.filter((status) => status !== "continue").map((status) => ({ status })))(
  "nextStep() is the end after $status",
  ({ status }) => {
    const state = sampleState({ done: "moderator_agent", decision: sampleDecision({ status }) });
    assert.deepEqual(nextStep(state, true), { kind: "finalize" });
  },
);

Deno.test("nextStep() lets needs_more_data end the run, not go in circles", () => {
  const after = afterModerator(sampleState(), sampleDecision({ status: "needs_more_data" }));
  assert.deepEqual([nextStep(after, false).kind, after.round], ["finalize", 1]);
});

Deno.test("nextStep() forgets a directive after one round", () => {
  const afterOne = {
    ...sampleState({ decision: skips(true, true) }),
    done: "diagnostic_rebuttal_agent" as const,
  };
  const next = { ...afterModerator(afterOne, sampleDecision()), done: "diagnostic_agent" as const };
  assert.deepEqual(nextStep(next, false), { kind: "agent", node: "skeptic_agent" });
});

/** Plays a debate whose moderator decides at random. */
function play(maxRounds: number, decide: () => ReturnType<typeof sampleDecision>, isPaused: boolean): number {
  const turn = { text: "text", isPlaceholder: false, usedTools: new Set<string>() };
  let state = sampleState({ hypotheses: [sampleHypothesis()] });
  state = { ...state, task: { ...state.task, maxRounds } };
  for (let steps = 0; steps < 1000; steps++) {
    const step = nextStep(state, isPaused);
    switch (step.kind) {
      case "agent":
        state = afterAgent(state, step.node, turn);
        break;
      case "skip":
        state = afterSkip(state, step.node, step.rationale);
        break;
      case "moderate":
        state = afterModerator(state, decide());
        break;
      case "summarize":
        state = afterSummary(state);
        break;
      case "ask":
        state = afterComment(state, "go on");
        break;
      case "finalize":
        state = afterFinal(state);
        break;
      case "end":
        assert.ok(state.roundLog.length <= maxRounds);
        return steps;
    }
  }
  return assert.fail("a debate without an end");
}

Deno.test("nextStep() ends every debate within the step limit, and max_rounds rounds", () => {
  const decisions = fc.infiniteStream(fc.record({
    status: fc.constantFrom(...STATUSES, "continue" as const, "continue" as const),
    confidence: fc.double({ min: 0, max: 1, noNaN: true }),
    flow_directive: fc.option(
      fc.record({ skip_skeptic: fc.boolean(), skip_rebuttal: fc.boolean(), rationale: fc.string() }),
    ),
  }));
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 10 }), decisions, fc.boolean(), (maxRounds, stream, isPaused) => {
      const steps = play(maxRounds, () => sampleDecision(stream.next().value), isPaused);
      assert.ok(steps <= stepLimit(maxRounds));
    }),
  );
  assert.equal(play(4, () => sampleDecision(), false), 3 * 5 + 4 + 1);
});
