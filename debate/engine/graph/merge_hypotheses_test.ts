import assert from "node:assert/strict";
import { sampleCall, sampleHypothesis } from "../../testing/sample_state.ts";
import type { FoundHypothesis } from "./review_marks.ts";
import { mergeHypotheses, moveTo } from "./hypotheses.ts";

const ORIGIN = {
  round: 2,
  agent: "diagnostic_agent",
  calls: [sampleCall(1, "the pool answers 503 since 14:05"), sampleCall(2, "the pool answers 200 at 14:00")],
  newCalls: new Set(["c1"]),
} as const;

function found(changes: Partial<FoundHypothesis> = {}): FoundHypothesis {
  return { id: "1", text: "Another wording", probability: null, evidence: [], ...changes };
}

const REJECTED = moveTo(sampleHypothesis({ supporting_evidence: ["[tool:http_get] old"] }), "rejected", {
  round: 1,
  agent: "skeptic_agent",
  note: "the metric is flat",
});

Deno.test("mergeHypotheses() creates what is new", () => {
  const [created] = mergeHypotheses([], [found({ probability: 0.4 })], ORIGIN);
  assert.deepEqual(created, {
    id: "1",
    text: "Another wording",
    state: "active",
    proposer: "diagnostic_agent",
    round: 2,
    supporting_evidence: [],
    evidence: [],
    reviews: [],
    rejected_reason: null,
    probability: 0.4,
    transitions: [{ round: 2, from: null, to: "active", agent: "diagnostic_agent", note: "proposed" }],
  });
});

Deno.test("mergeHypotheses() keeps order, id, round and proposer of what is known", () => {
  const known = [sampleHypothesis({ id: "2" }), sampleHypothesis()];
  const merged = mergeHypotheses(known, [found({ id: "H-1", probability: 0.7, evidence: ["e"] })], ORIGIN);
  assert.deepEqual(merged.map(({ id }) => id), ["2", "1"]);
  assert.deepEqual([merged[1]?.round, merged[1]?.text, merged[1]?.probability], [1, "Another wording", 0.7]);
  assert.deepEqual(merged[1]?.supporting_evidence, ["e"]);
  assert.equal(merged[1]?.transitions.length, 1);
});

Deno.test("mergeHypotheses() keeps a text and a probability that are not said again", () => {
  const [merged] = mergeHypotheses([sampleHypothesis()], [found({ text: "" })], ORIGIN);
  assert.deepEqual(merged, sampleHypothesis());
});

Deno.test("mergeHypotheses() does not resurrect a rejected hypothesis that is merely listed again", () => {
  const [merged] = mergeHypotheses([REJECTED], [found({ evidence: ["[tool:http_get] old"] })], ORIGIN);
  assert.equal(merged?.state, "rejected");
  assert.equal(merged?.rejected_reason, "the metric is flat");
  assert.equal(merged?.text, REJECTED.text, "what was judged keeps its wording");
  assert.equal(merged?.transitions.length, 2);
});

Deno.test.each([
  { name: "words alone", evidence: ["it must be so"] },
  { name: "a tool that was not used", evidence: ["[tool:run_kubectl] pods restart"] },
  { name: "a result that is not quoted", evidence: ["[tool:http_get#1] 503"] },
  { name: "a quote that nobody returned", evidence: ['[tool:http_get#1] "the pool is dead"'] },
  { name: "a result of an earlier turn", evidence: ['[tool:http_get#2] "the pool answers 200"'] },
])("mergeHypotheses() does not reopen for $name", ({ evidence }) => {
  assert.equal(mergeHypotheses([REJECTED], [found({ evidence })], ORIGIN)[0]?.state, "rejected");
});

Deno.test("mergeHypotheses() reopens for new evidence that counts, and records it", () => {
  const evidence = ['[tool:http_get#1] "answers 503 since 14:05"'];
  const [merged] = mergeHypotheses([REJECTED], [found({ evidence })], ORIGIN);
  assert.equal(merged?.state, "active");
  assert.equal(merged?.rejected_reason, null);
  assert.equal(merged?.text, "Another wording");
  assert.deepEqual(merged?.transitions.at(-1), {
    round: 2,
    from: "rejected",
    to: "active",
    agent: "diagnostic_agent",
    note: `reopened with new evidence: ${evidence[0]}`,
  });
});

Deno.test("mergeHypotheses() does not undo a confirmation", () => {
  const confirmed = sampleHypothesis({ state: "confirmed" });
  assert.equal(mergeHypotheses([confirmed], [found()], ORIGIN)[0]?.state, "confirmed");
});

Deno.test("mergeHypotheses() bounds the table", () => {
  const many = Array.from({ length: 200 }, (_, index) => found({ id: `x${index}` }));
  assert.equal(mergeHypotheses([], many, ORIGIN).length, 60);
});

Deno.test("mergeHypotheses() judges a repeated line anew, and keeps what counted", () => {
  const line = '[tool:http_get#1] "answers 503 since 14:05"';
  const before = mergeHypotheses([], [found({ evidence: [line] })], { ...ORIGIN, calls: [] });
  assert.deepEqual(before[0]?.evidence.map(({ status }) => status), ["no_such_call"]);
  const after = mergeHypotheses(before, [found({ evidence: [line] })], ORIGIN);
  assert.deepEqual(after[0]?.evidence.map(({ status }) => status), ["grounded"]);
  const later = mergeHypotheses(after, [found({ evidence: [line] })], { ...ORIGIN, round: 3, calls: [] });
  assert.deepEqual(later[0]?.evidence, [{ text: line, round: 3, status: "grounded", call_ids: ["c1"] }]);
});
