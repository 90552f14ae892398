import assert from "node:assert/strict";
import { sampleState } from "../../testing/sample_state.ts";
import { entriesToSummarize, viewHistory, withSummary } from "./flow.ts";
import type { DebateState, HistoryEntry } from "./state.ts";

/** One entry a round, and one of each agent in the current round. */
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
  "entriesToSummarize() has nothing before round $round",
  ({ round }) => {
    assert.deepEqual(entriesToSummarize(stateAt(round)), []);
  },
);

Deno.test("entriesToSummarize() begins with everything, so that round 1 does not vanish", () => {
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

Deno.test("entriesToSummarize() leaves out the comment on the coming round", () => {
  const { history } = stateAt(3);
  const state = stateAt(3, { history: [...history, { role: "user", content: "look at x", round: 3 }] });
  assert.ok(!contents(entriesToSummarize(state)).includes("look at x"));
});

Deno.test("entriesToSummarize() has nothing when compression is off", () => {
  const { task } = sampleState();
  assert.deepEqual(entriesToSummarize(stateAt(5, { task: { ...task, compressHistory: false } })), []);
});

Deno.test("viewHistory() is the full history up to round 2", () => {
  assert.deepEqual(contents(viewHistory(stateAt(2)).entries), ["prior", "diagnosis 1", "decision 1"]);
  assert.equal(viewHistory(stateAt(2)).summary, "");
});

Deno.test("viewHistory() is the summary and the last round in full from round 3 on", () => {
  const view = viewHistory(withSummary(stateAt(3), "so far"));
  assert.deepEqual([view.summary, ...contents(view.entries)], ["so far", "diagnosis 2", "decision 2"]);
});

Deno.test("viewHistory() keeps in full what a failed summary did not cover", () => {
  const state = { ...withSummary(stateAt(3), "so far"), round: 5, history: stateAt(5).history };
  assert.deepEqual(contents(viewHistory(state).entries), [
    "diagnosis 3",
    "decision 3",
    "diagnosis 4",
    "decision 4",
  ]);
  assert.equal(viewHistory(stateAt(5)).entries.length, 9);
});

Deno.test("viewHistory() leaves out this round's agents, and keeps the operator's comment", () => {
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

Deno.test("viewHistory() shows a resumed run's first round the texts of the run before", () => {
  const state = stateAt(1);
  assert.deepEqual(contents(viewHistory(state).entries), ["prior"]);
});
