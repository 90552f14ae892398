import assert from "node:assert/strict";
import {
  FULL_EVIDENCE,
  sampleCall,
  sampleDecision,
  sampleEvidence,
  sampleHypothesis,
} from "../../testing/sample_state.ts";
import { applyDecision, applyRebuttal, applySkeptic } from "./hypotheses.ts";
import { labelsFor } from "./labels.ts";

const TABLE = [
  sampleHypothesis({ evidence: FULL_EVIDENCE }),
  sampleHypothesis({ id: "10", text: "The cache evicts hot keys" }),
];
const on = (round: number) => ({
  round,
  labels: labelsFor("en"),
  calls: [sampleCall(3, "20 of 20 connections are in use")],
});
const AT = { ...on(1), confidenceThreshold: 0.8 };
const states = (table: readonly { readonly state: string }[]) => table.map(({ state }) => state);
const AGAINST = '- [tool:http_get#3] "20 of 20 connections are in use"';
const MADE_UP = '- [tool:http_get#3] "the pool is healthy"';
const PARTIAL_EVIDENCE = [sampleEvidence("c1")];
const UNCOUNTED = [sampleEvidence("c1", { status: "not_in_result" })];

Deno.test.each([
  { name: "words against full evidence", evidence: FULL_EVIDENCE, line: "", state: "active" },
  { name: "words against partial evidence", evidence: PARTIAL_EVIDENCE, line: "", state: "active" },
  { name: "a made-up quote", evidence: FULL_EVIDENCE, line: MADE_UP, state: "active" },
  { name: "a quote from a result", evidence: FULL_EVIDENCE, line: AGAINST, state: "rejected" },
  { name: "words against evidence that does not count", evidence: UNCOUNTED, line: "", state: "rejected" },
  { name: "words against no evidence", evidence: [], line: "", state: "rejected" },
])("a rejection needs evidence, as a confirmation does: $name", ({ evidence, line, state }) => {
  const table = [sampleHypothesis({ evidence, proposer: "user_input_gate" })];
  const review = `[hypothesis:1] rejected [P=0.02]\nReason: it is wrong\n${line}`;
  const decision = sampleDecision({ leading_hypothesis: "", rejected_hypotheses: [`H-1: wrong ${line}`] });
  const reviewed = {
    skeptic: applySkeptic(table, review, on(2))[0],
    rebuttal: applyRebuttal(table, review, on(2))[0],
    moderator: applyDecision(table, decision, AT)[0],
  };
  assert.deepEqual(Object.values(reviewed).map((each) => each?.state), [state, state, state]);
  // An opinion is shown, but limits nothing.
  assert.deepEqual(
    Object.values(reviewed).map((each) => each?.reviews.at(-1)?.verdict),
    Array(3).fill("rejected"),
  );
  assert.equal(reviewed.skeptic?.probability, state === "active" ? 0.6 : 0.02);
});

Deno.test("a proposer withdraws its hypothesis in words, and words reopen a confirmed one", () => {
  assert.deepEqual(states(applyRebuttal(TABLE, "[hypothesis:1] rejected", on(2))), ["rejected", "active"]);
  const confirmed = [sampleHypothesis({ state: "confirmed", evidence: FULL_EVIDENCE })];
  assert.deepEqual(states(applySkeptic(confirmed, "[hypothesis:1] rejected", on(2))), ["active"]);
});

Deno.test("the moderator can reject a hypothesis because of the skeptic's quoted objection", () => {
  const objected = applySkeptic(TABLE, `[hypothesis:1] needs_evidence\nReason: why?\n${AGAINST}`, on(1));
  const decision = sampleDecision({ leading_hypothesis: "", rejected_hypotheses: ["H-1: refuted"] });
  assert.deepEqual(states(applyDecision(objected, decision, AT)), ["rejected", "active"]);
});
