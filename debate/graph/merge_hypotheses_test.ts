import assert from "node:assert/strict";
import { sampleHypothesis } from "../testing/sample_state.ts";
import type { FoundHypothesis } from "./extract_hypotheses.ts";
import { mergeHypotheses, moveTo } from "./merge_hypotheses.ts";

const ORIGIN = { round: 2, agent: "diagnostic_agent", usedTools: new Set(["http_get"]) } as const;

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
])("mergeHypotheses() does not reopen for $name", ({ evidence }) => {
  assert.equal(mergeHypotheses([REJECTED], [found({ evidence })], ORIGIN)[0]?.state, "rejected");
});

Deno.test("mergeHypotheses() reopens for new evidence of a tool that was used, and records it", () => {
  const [merged] = mergeHypotheses([REJECTED], [found({ evidence: ["[tool:http_get] 503"] })], ORIGIN);
  assert.equal(merged?.state, "active");
  assert.equal(merged?.rejected_reason, null);
  assert.equal(merged?.text, "Another wording");
  assert.deepEqual(merged?.transitions.at(-1), {
    round: 2,
    from: "rejected",
    to: "active",
    agent: "diagnostic_agent",
    note: "reopened with new evidence: [tool:http_get] 503",
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
