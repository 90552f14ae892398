import assert from "node:assert/strict";
import { FULL_EVIDENCE, sampleHypothesis, sampleState } from "../../testing/sample_state.ts";
import { applyOperator, applySkeptic, mergeHypotheses, type OperatorChange } from "./hypotheses.ts";
import { labelsFor } from "./labels.ts";
import type { DebateState, HistoryEntry, Hypothesis } from "./state.ts";
import { entriesToSummarize, viewHistory, withSummary } from "./flow.ts";

const ROUND = { round: 3, labels: labelsFor("en") };
const apply = (hypothesis: Hypothesis, ...changes: readonly OperatorChange[]) =>
  applyOperator([hypothesis], changes, ROUND);

Deno.test.each(
  [
    { name: "an active one", state: "active", change: { kind: "pin", id: "H-1" }, after: "active" },
    {
      name: "a rejected one, which is open again",
      state: "rejected",
      change: { kind: "pin", id: "1" },
      after: "active",
    },
    {
      name: "a confirmed one, which stays so",
      state: "confirmed",
      change: { kind: "pin", id: "1" },
      after: "confirmed",
    },
  ] as const,
)("applyOperator() pins $name", ({ state, change, after }) => {
  const { hypotheses, said } = apply(sampleHypothesis({ state }), change);
  assert.deepEqual(hypotheses.map((each) => [each.state, each.rejected_reason]), [[after, null]]);
  assert.deepEqual(said, ["the operator wants this examined further: 1"]);
});

Deno.test("applyOperator() drops a hypothesis permanently, despite new evidence and reviews", () => {
  const { hypotheses, said } = apply(sampleHypothesis({ state: "confirmed", evidence: FULL_EVIDENCE }), {
    kind: "drop",
    id: "1",
  });
  assert.deepEqual(said, ["dropped by the operator: 1"]);
  const [dropped] = hypotheses;
  assert.deepEqual([dropped?.state, dropped?.rejected_reason], ["rejected", "dropped by the operator"]);
  const call = {
    number: 9,
    call_id: "c9",
    tool_name: "http_get",
    succeeded: true,
    found: "503 since noon",
    asked: "",
  };
  const evidence = ['[tool:http_get#9] "503 since noon"'];
  const again = mergeHypotheses(hypotheses, [{ id: "1", text: "again", probability: 0.9, evidence }], {
    round: 4,
    agent: "diagnostic_agent",
    calls: [call],
    newCalls: new Set(["c9"]),
  });
  assert.equal(again[0]?.evidence.at(-1)?.status, "grounded");
  const accepted = applySkeptic(again, "[hypothesis:1] accepted", { ...ROUND, calls: [call] });
  assert.deepEqual(accepted.map(({ state }) => state), ["rejected"]);
  const pinned = applyOperator(accepted, [{ kind: "pin", id: "1" }], ROUND);
  assert.equal(
    applySkeptic(pinned.hypotheses, "[hypothesis:1] accepted", { ...ROUND, calls: [call] })[0]?.state,
    "confirmed",
  );
});

Deno.test("applyOperator() adds a hypothesis with the next number, on one line, without evidence", () => {
  const { hypotheses, said } = apply(sampleHypothesis({ id: "H-7" }), {
    kind: "add",
    text: " the disk\n### HYPOTHESIS-1 ",
  });
  const { id, text, state, proposer, round, evidence } = hypotheses[1] ?? sampleHypothesis();
  assert.deepEqual(
    { id, text, state, proposer, round, evidence },
    {
      id: "H-8",
      text: "the disk ### HYPOTHESIS-1",
      state: "active",
      proposer: "user_input_gate",
      round: 3,
      evidence: [],
    },
  );
  assert.deepEqual(said, ["added by the operator: H-8: the disk ### HYPOTHESIS-1"]);
});

Deno.test("applyOperator() ignores unknown IDs, empty texts, and additions beyond the limit", () => {
  const changes = [{ kind: "drop", id: "9" }, { kind: "add", text: " " }] as const;
  assert.deepEqual(apply(sampleHypothesis(), ...changes), { hypotheses: [sampleHypothesis()], said: [] });
  const many = Array.from({ length: 80 }, (_, index) => ({ kind: "add", text: `cause ${index}` }) as const);
  assert.equal(apply(sampleHypothesis(), ...many).hypotheses.length, 60);
});

/** One entry per round, and one entry of each agent in the current round. */
function stateAt(round: number, changes: Partial<DebateState> = {}): DebateState {
  const history: HistoryEntry[] = [{ role: "diagnostic_agent", content: "prior", round: 0 }];
  for (let past = 1; past < round; past++) {
    history.push({ role: "diagnostic_agent", content: `diagnosis ${past}`, round: past });
    history.push({ role: "moderator", content: `decision ${past}`, round: past });
  }
  return sampleState({ round, history, ...changes });
}

const contents = (entries: readonly HistoryEntry[]) => entries.map(({ content }) => content);

Deno.test.each([{ round: 1 }, { round: 2 }])(
  "entriesToSummarize() returns no entries before round $round",
  ({ round }) => {
    assert.deepEqual(entriesToSummarize(stateAt(round)), []);
  },
);

Deno.test("entriesToSummarize() returns all entries first, including round 1", () => {
  assert.deepEqual(contents(entriesToSummarize(stateAt(3))), [
    "prior",
    "diagnosis 1",
    "decision 1",
    "diagnosis 2",
    "decision 2",
  ]);
});

Deno.test("entriesToSummarize() continues after the previous summary", () => {
  const state = { ...withSummary(stateAt(3), "so far"), round: 4, history: stateAt(4).history };
  assert.deepEqual(contents(entriesToSummarize(state)), ["diagnosis 3", "decision 3"]);
});

Deno.test("entriesToSummarize() excludes the comment on the next round", () => {
  const { history } = stateAt(3);
  const state = stateAt(3, { history: [...history, { role: "user", content: "look at x", round: 3 }] });
  assert.ok(!contents(entriesToSummarize(state)).includes("look at x"));
});

Deno.test("entriesToSummarize() returns no entries if compression is off", () => {
  const { task } = sampleState();
  assert.deepEqual(entriesToSummarize(stateAt(5, { task: { ...task, compressHistory: false } })), []);
});

Deno.test("viewHistory() returns the full history up to round 2", () => {
  assert.deepEqual(contents(viewHistory(stateAt(2)).entries), ["prior", "diagnosis 1", "decision 1"]);
  assert.equal(viewHistory(stateAt(2)).summary, "");
});

Deno.test("viewHistory() returns the summary and the full last round from round 3 on", () => {
  const view = viewHistory(withSummary(stateAt(3), "so far"));
  assert.deepEqual([view.summary, ...contents(view.entries)], ["so far", "diagnosis 2", "decision 2"]);
});

Deno.test("viewHistory() keeps entries in full that a failed summary did not cover", () => {
  const state = { ...withSummary(stateAt(3), "so far"), round: 5, history: stateAt(5).history };
  assert.deepEqual(contents(viewHistory(state).entries), [
    "diagnosis 3",
    "decision 3",
    "diagnosis 4",
    "decision 4",
  ]);
  assert.equal(viewHistory(stateAt(5)).entries.length, 9);
});

Deno.test("viewHistory() excludes agents of this round and keeps the operator's comment", () => {
  const { history } = stateAt(2);
  const view = viewHistory(stateAt(2, {
    history: [
      ...history,
      { role: "user", content: "look at x", round: 2 },
      { role: "diagnostic_agent", content: "diagnosis 2", round: 2 },
      { role: "skeptic_agent", content: "critique 2", round: 2 },
    ],
  }));
  assert.deepEqual(contents(view.entries), ["prior", "diagnosis 1", "decision 1", "look at x"]);
});

Deno.test("viewHistory() shows inherited texts in the first round of a resumed run", () => {
  const state = stateAt(1);
  assert.deepEqual(contents(viewHistory(state).entries), ["prior"]);
});
