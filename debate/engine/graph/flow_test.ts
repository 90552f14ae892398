import fc from "fast-check";
import assert from "node:assert/strict";
import {
  FULL_EVIDENCE,
  SAMPLE_TASK,
  sampleDecision,
  sampleEvidence,
  sampleHypothesis,
  sampleState,
} from "../../testing/sample_state.ts";
import { isEarlyOutConfirmed, NO_EARLY_OUT, parseEarlyOut } from "./decision.ts";
import {
  afterAgent,
  afterComment,
  afterModerator,
  afterSkip,
  afterSummary,
  nextNode,
  skipRationale,
  startState,
  stepLimit,
} from "./flow.ts";
import { type DebateState, STATUSES } from "./state.ts";
import { assertFast, HOSTILE_TEXTS } from "../../testing/linear_time.ts";

const skips = (skip_skeptic: boolean, skip_rebuttal: boolean) =>
  sampleDecision({ flow_directive: { skip_skeptic, skip_rebuttal, rationale: "why" } });

Deno.test.each<{ name: string; state: Partial<DebateState>; isPaused?: boolean; node: DebateState["done"] }>([
  { name: "the diagnosis at the start", state: {}, node: "diagnostic_agent" },
  { name: "the skeptic after the diagnosis", state: { done: "diagnostic_agent" }, node: "skeptic_agent" },
  {
    name: "the rebuttal after the skeptic",
    state: { done: "skeptic_agent" },
    node: "diagnostic_rebuttal_agent",
  },
  {
    name: "the moderator after the rebuttal",
    state: { done: "diagnostic_rebuttal_agent" },
    node: "moderator_agent",
  },
  {
    name: "the summary after continue",
    state: { done: "moderator_agent", decision: sampleDecision(), round: 2 },
    node: "summarize_history",
  },
  {
    name: "the end after the last round",
    state: { done: "moderator_agent", decision: sampleDecision(), round: 5 },
    node: "finalize",
  },
  {
    name: "the end if early-out is confirmed",
    state: { done: "moderator_agent", decision: sampleDecision(), earlyOutConfirmed: true },
    node: "finalize",
  },
  { name: "the end without a decision", state: { done: "moderator_agent" }, node: "finalize" },
  {
    name: "the operator if paused",
    state: { done: "summarize_history" },
    isPaused: true,
    node: "user_input_gate",
  },
  {
    name: "the next diagnosis if not paused",
    state: { done: "summarize_history" },
    node: "diagnostic_agent",
  },
  {
    name: "the next diagnosis after the comment",
    state: { done: "user_input_gate" },
    isPaused: true,
    node: "diagnostic_agent",
  },
  { name: "no node after the result", state: { done: "finalize" }, node: undefined },
  ...STATUSES.filter((status) => status !== "continue").map((status) => ({
    name: `the end after ${status}`,
    state: { done: "moderator_agent" as const, decision: sampleDecision({ status }) },
    node: "finalize" as const,
  })),
])("nextNode() returns $name", ({ state, isPaused = false, node }) => {
  assert.equal(nextNode(sampleState(state), isPaused), node);
});

Deno.test("skipRationale() follows the directive of the previous decision", () => {
  const asked = [skips(true, false), skips(false, true), sampleDecision()].map((decision) => {
    const state = sampleState({ decision });
    return [skipRationale(state, "skeptic_agent"), skipRationale(state, "diagnostic_rebuttal_agent")];
  });
  assert.deepEqual(asked, [["why", undefined], [undefined, "why"], [undefined, undefined]]);
  assert.equal(skipRationale(sampleState({ decision: skips(true, true) }), "diagnostic_agent"), undefined);
});

/** Runs a debate whose moderator decides at random. */
function play(maxRounds: number, decide: () => ReturnType<typeof sampleDecision>, isPaused: boolean): number {
  const turn = { text: "text", isPlaceholder: false, calls: [] };
  let state = sampleState({ hypotheses: [sampleHypothesis()] });
  state = { ...state, task: { ...state.task, maxRounds } };
  for (let steps = 0; steps < 1000; steps++) {
    const node = nextNode(state, isPaused);
    switch (node) {
      case undefined:
        assert.ok(state.roundLog.length <= maxRounds);
        return steps;
      case "moderator_agent":
        state = afterModerator(state, decide());
        break;
      case "summarize_history":
        state = afterSummary(state);
        break;
      case "user_input_gate":
        state = afterComment(state, { comment: "go on", changes: [] }).state;
        break;
      case "finalize":
        state = { ...state, done: node };
        break;
      default: {
        const rationale = skipRationale(state, node);
        state = rationale === undefined ? afterAgent(state, node, turn) : afterSkip(state, node, rationale);
      }
    }
  }
  return assert.fail("a debate without an end");
}

Deno.test("nextNode() ends every debate within the step limit and max_rounds rounds", () => {
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

const said = (text: string, isPlaceholder = false) => ({ text, isPlaceholder, calls: [] });

Deno.test("startState() assigns inherited hypotheses and history to round 0", () => {
  const history = [{ role: "skeptic_agent", content: "no", round: 3 }] as const;
  const state = startState(SAMPLE_TASK, { history, hypotheses: [sampleHypothesis({ state: "rejected" })] });
  assert.deepEqual(state.history, [{ role: "skeptic_agent", content: "no", round: 0 }]);
  assert.deepEqual([state.hypotheses[0]?.state, state.hypotheses[0]?.round, state.round], ["rejected", 0, 1]);
  assert.equal(state.decision, undefined);
});

Deno.test("startState() withdraws confirmations without full evidence", () => {
  const stateOf = (evidence: typeof FULL_EVIDENCE) =>
    startState(SAMPLE_TASK, { history: [], hypotheses: [sampleHypothesis({ state: "confirmed", evidence })] })
      .hypotheses[0]?.state;
  assert.deepEqual([[], FULL_EVIDENCE.slice(0, 1), FULL_EVIDENCE].map(stateOf), [
    "active",
    "active",
    "confirmed",
  ]);
});

Deno.test("afterAgent() uses the first paragraph as a hypothesis only if there is no other", () => {
  const first = afterAgent(sampleState(), "diagnostic_agent", said("It is the disk.\n\nMore."));
  assert.deepEqual(first.hypotheses.map(({ id, text }) => [id, text]), [["R1-F1", "It is the disk."]]);
  const later = afterAgent(
    sampleState({ hypotheses: [sampleHypothesis()] }),
    "diagnostic_agent",
    said("Hello."),
  );
  assert.deepEqual(later.hypotheses.map(({ id }) => id), ["1"]);
});

Deno.test("afterAgent() reads no hypothesis from a placeholder", () => {
  const before = sampleState({ earlyOutSignal: { recommended: true, confidence: 1, rationale: "" } });
  const state = afterAgent(before, "diagnostic_agent", said("(no answer)", true));
  assert.deepEqual([state.hypotheses, state.earlyOutSignal], [[], NO_EARLY_OUT]);
});

Deno.test("afterSkip() keeps the hypotheses and inserts a placeholder", () => {
  const before = sampleState({ hypotheses: [sampleHypothesis()] });
  const state = afterSkip(before, "skeptic_agent", "settled");
  assert.equal(state.hypotheses, before.hypotheses);
  assert.equal(state.texts.skeptic, "(Skeptic skipped by the moderator: settled)");
  assert.equal(state.history.length, 1);
});

Deno.test("afterModerator() advances the round only with continue", () => {
  assert.equal(afterModerator(sampleState(), sampleDecision()).round, 2);
  assert.equal(afterModerator(sampleState(), sampleDecision({ status: "propose_fix" })).round, 1);
});

Deno.test("afterModerator() logs every round with truncated texts", () => {
  const state = sampleState({ texts: { diagnostic: "d".repeat(600), skeptic: "s", rebuttal: "r" } });
  const [entry] = afterModerator(state, sampleDecision()).roundLog;
  assert.deepEqual([entry?.round, entry?.diagnostic.length, entry?.skeptic], [1, 500, "s"]);
  assert.equal(entry?.moderator.status, "continue");
});

Deno.test("afterModerator() states that all rounds are used", () => {
  const last = sampleState({ round: 4 });
  assert.equal(afterModerator(last, sampleDecision()).decision?.stop_reason, "All rounds are used (4)");
  const worded = afterModerator(last, sampleDecision({ stop_reason: "enough" }));
  assert.equal(worded.decision?.stop_reason, "All rounds are used (4); enough");
  assert.equal(afterModerator(sampleState({ round: 3 }), sampleDecision()).decision?.stop_reason, null);
});

function earlyState(changes: Partial<DebateState> = {}): DebateState {
  return sampleState({
    hypotheses: [sampleHypothesis({ evidence: FULL_EVIDENCE })],
    earlyOutSignal: { recommended: true, confidence: 0.95, rationale: "the rollback healed it" },
    ...changes,
  });
}

Deno.test("afterModerator() does not end early on a hypothesis that the same decision rejects", () => {
  const table = [
    sampleHypothesis(),
    sampleHypothesis({ id: "2", text: "The cache", state: "rejected", evidence: FULL_EVIDENCE }),
  ];
  const decision = sampleDecision({ confidence: 0.95, leading_hypothesis: "2: the cache" });
  assert.equal(afterModerator(earlyState({ hypotheses: table }), decision).earlyOutConfirmed, false);
});

Deno.test("afterSummary() clears the texts and the early-out signal of the round", () => {
  const state = afterSummary(earlyState({ texts: { diagnostic: "d", skeptic: "s", rebuttal: "r" } }));
  assert.deepEqual([state.texts.diagnostic, state.earlyOutSignal.recommended], ["", false]);
});

Deno.test("afterComment() keeps a comment and drops an empty one", () => {
  const say = (comment: string) =>
    afterComment(sampleState({ round: 2 }), { comment, changes: [] }).state.history;
  assert.deepEqual(say("look at x"), [
    { role: "user", content: "look at x", round: 2 },
  ]);
  assert.deepEqual(say(""), []);
});

Deno.test("parseEarlyOut() reads the three lines", () => {
  const text =
    "Words.\nEARLY_OUT_RECOMMENDED: true\nEARLY_OUT_CONFIDENCE: 0.95\nEARLY_OUT_RATIONALE: the rollback\nhealed it\n\nRISKS: none";
  assert.deepEqual(parseEarlyOut(text), {
    recommended: true,
    confidence: 0.95,
    rationale: "the rollback healed it",
  });
});

Deno.test.each([
  { name: "none", text: "nothing", expected: [false, 0] },
  {
    name: "bold",
    text: "**EARLY_OUT_RECOMMENDED:** yes\n- `EARLY_OUT_CONFIDENCE`: 95%",
    expected: [true, 0.95],
  },
  { name: "no", text: "EARLY_OUT_RECOMMENDED: false\nEARLY_OUT_CONFIDENCE: 1", expected: [false, 1] },
  { name: "beyond 1", text: "EARLY_OUT_RECOMMENDED: true\nEARLY_OUT_CONFIDENCE: 7", expected: [true, 7] },
  { name: "no number", text: "EARLY_OUT_RECOMMENDED: true\nEARLY_OUT_CONFIDENCE: very", expected: [true, 0] },
  { name: "running text", text: "do not say EARLY_OUT_RECOMMENDED: true", expected: [false, 0] },
  {
    name: "a later change of mind",
    text: "EARLY_OUT_RECOMMENDED: true\nEARLY_OUT_RECOMMENDED: false",
    expected: [false, 0],
  },
])("parseEarlyOut() with $name", ({ text, expected }) => {
  const { recommended, confidence } = parseEarlyOut(text);
  assert.deepEqual([recommended, confidence], expected);
});

const RULE = { enabled: true, threshold: 0.9 };
const SIGNAL = { recommended: true, confidence: 0.95, rationale: "" };
const DECISION = sampleDecision({ confidence: 0.92 });
const TABLE = [sampleHypothesis({ evidence: FULL_EVIDENCE })];

Deno.test("isEarlyOutConfirmed() is true if both agree on a fully grounded hypothesis", () => {
  assert.equal(isEarlyOutConfirmed(RULE, SIGNAL, DECISION, TABLE), true);
});

Deno.test.each([
  { name: "the feature is off", rule: { ...RULE, enabled: false } },
  { name: "the agent does not recommend it", signal: { ...SIGNAL, recommended: false } },
  { name: "the agent's confidence is below the threshold", signal: { ...SIGNAL, confidence: 0.89 } },
  { name: "the agent's confidence is not a share", signal: { ...SIGNAL, confidence: 7 } },
  { name: "the agent's confidence is not a number", signal: { ...SIGNAL, confidence: NaN } },
  { name: "the moderator's confidence is below the threshold", decision: { ...DECISION, confidence: 0.89 } },
  { name: "the lead is rejected", table: [sampleHypothesis({ state: "rejected", evidence: FULL_EVIDENCE })] },
  { name: "all evidence comes from one result", table: [sampleHypothesis({ evidence: [sampleEvidence()] })] },
  { name: "the lead is unknown", decision: { ...DECISION, leading_hypothesis: "a cosmic ray" } },
  { name: "there is no leading hypothesis", decision: { ...DECISION, leading_hypothesis: "" } },
])(
  "isEarlyOutConfirmed() is false if $name",
  ({ rule = RULE, signal = SIGNAL, decision = DECISION, table = TABLE }) => {
    assert.equal(isEarlyOutConfirmed(rule, signal, decision, table), false);
  },
);

Deno.test("parseEarlyOut() takes linear time", () => {
  for (const [name, text] of Object.entries(HOSTILE_TEXTS)) assertFast(name, () => parseEarlyOut(text));
});
