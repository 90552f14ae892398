import assert from "node:assert/strict";
import {
  FULL_EVIDENCE,
  sampleCall,
  sampleDecision,
  sampleEvidence,
  sampleHypothesis,
} from "../../testing/sample_state.ts";
import { labelsFor } from "./labels.ts";
import { applyDecision, applyRebuttal, applySkeptic } from "./hypotheses.ts";

const TABLE = [
  sampleHypothesis({ evidence: FULL_EVIDENCE }),
  sampleHypothesis({ id: "10", text: "The cache evicts hot keys" }),
];
const CALLS = [
  sampleCall(1, "431 connections are waiting"),
  sampleCall(3, "20 of 20 connections are in use"),
];
const on = (round: number, language = "en") => ({ round, labels: labelsFor(language), calls: CALLS });
const AT = { ...on(1), confidenceThreshold: 0.8 };
const AGAINST = '- [tool:http_get#3] "20 of 20 connections are in use"';
const states = (table: readonly { readonly state: string }[]) => table.map(({ state }) => state);

Deno.test("applySkeptic() changes states and probabilities and records the transitions", () => {
  const [pool, cache] = applySkeptic(
    TABLE,
    "[hypothesis:1] accepted [P=0.9]\n[hypothesis:10] rejected [P=0.1]\nReason: hits are up",
    on(2),
  );
  assert.deepEqual([pool?.state, pool?.probability], ["confirmed", 0.9]);
  assert.deepEqual([cache?.state, cache?.probability, cache?.rejected_reason], [
    "rejected",
    0.1,
    "hits are up",
  ]);
  assert.deepEqual(cache?.transitions.at(-1), {
    round: 2,
    from: "active",
    to: "rejected",
    agent: "skeptic_agent",
    note: "hits are up",
  });
});

Deno.test("applySkeptic() changes a probability without a verdict, and ignores other hypotheses", () => {
  const [pool, cache] = applySkeptic(TABLE, "[hypothesis:1] needs_evidence [P=0.3]", on(1));
  assert.deepEqual([pool?.state, pool?.probability, pool?.transitions.length], ["active", 0.3, 1]);
  assert.deepEqual(cache, TABLE[1]);
  assert.deepEqual(pool?.reviews.map(({ verdict, probability }) => [verdict, probability]), [[
    "needs_evidence",
    0.3,
  ]]);
});

Deno.test("applySkeptic() records no transition to the current state", () => {
  const [, once = assert.fail()] = applySkeptic(TABLE, "[hypothesis:10] rejected", on(1));
  assert.equal(once.rejected_reason, "no reason given");
  const [twice] = applySkeptic([once], "[hypothesis:10] rejected: again", on(2));
  assert.deepEqual(twice?.transitions, once.transitions);
  assert.equal(twice?.reviews.length, 2);
});

Deno.test.each([
  { review: "[hypothesis:1] rejected", state: "rejected" },
  { review: "HYPOTHESIS-1 is disproved by the metric", state: "rejected" },
  { review: "Las mediciones:\nHIPÓTESIS-1: rechazada", state: "rejected" },
  { review: "[hypothesis:1] needs_evidence", state: "active" },
  { review: "[hypothesis:1] partially accepted", state: "active" },
  { review: "HYPOTHESIS-1 is no longer confirmed", state: "active" },
  { review: "HYPOTHESIS-1 can no longer be accepted", state: "active" },
  { review: "HYPOTHESIS-1\nVerdict: not accepted", state: "active" },
  { review: "HYPOTHESIS-1: not accepted, it is refuted", state: "rejected" },
  { review: "HIPÓTESIS-1 ya no está confirmada", state: "active" },
  { review: "[hypothesis:1] accepted", state: "confirmed" },
  { review: "HYPOTHESIS-1 is not rejected by this", state: "confirmed" },
  { review: "HYPOTHESIS-1\nNew connections are not accepted by the pool", state: "confirmed" },
])("applySkeptic() makes a confirmed hypothesis $state after: $review", ({ review, state }) => {
  const confirmed = [sampleHypothesis({ state: "confirmed", evidence: FULL_EVIDENCE })];
  const [after] = applySkeptic(confirmed, `${review}\n${AGAINST}`, on(2));
  assert.equal(after?.state, state);
  assert.equal(after?.transitions.length, state === "confirmed" ? 1 : 2);
});

Deno.test("applyRebuttal() can withdraw hypotheses, but not confirm or reopen them", () => {
  assert.deepEqual(states(applyRebuttal(TABLE, "[hypothesis:1] rejected\n[hypothesis:10] accepted", on(1))), [
    "rejected",
    "active",
  ]);
  const rejected = [sampleHypothesis({ state: "rejected", rejected_reason: "flat" })];
  assert.deepEqual(applyRebuttal(rejected, "[hypothesis:1] accepted", on(1)), rejected);
});

Deno.test("applyDecision() rejects the hypotheses that the moderator lists", () => {
  const decision = sampleDecision({ rejected_hypotheses: ["10: hits are up", "something else"] });
  const [pool, cache] = applyDecision(TABLE, decision, AT);
  assert.deepEqual([pool?.state, cache?.state, cache?.rejected_reason], [
    "active",
    "rejected",
    "10: hits are up",
  ]);
});

Deno.test.each(["H-1, H-10", "HYPOTHESIS-1 and HYPOTHESIS-10: hits are up", "[1], [10]"])(
  "applyDecision() rejects each hypothesis in a list of IDs: %s",
  (list) => {
    const decision = sampleDecision({ leading_hypothesis: "", rejected_hypotheses: [list] });
    const table = TABLE.map((each) => ({ ...each, evidence: [] }));
    assert.deepEqual(states(applyDecision(table, decision, AT)), ["rejected", "rejected"]);
  },
);

Deno.test("applyDecision() confirms the lead of a closing decision with enough confidence", () => {
  const closing = sampleDecision({ status: "final_diagnosis", confidence: 0.85 });
  assert.deepEqual(states(applyDecision(TABLE, closing, AT)), ["confirmed", "active"]);
  assert.deepEqual(states(applyDecision(TABLE, { ...closing, confidence: 0.79 }, AT)), ["active", "active"]);
  assert.deepEqual(states(applyDecision(TABLE, { ...closing, status: "continue" }, AT)), [
    "active",
    "active",
  ]);
});

Deno.test("applyDecision() does not confirm a rejected lead", () => {
  const table = [sampleHypothesis({ state: "rejected" })];
  const closing = sampleDecision({ status: "propose_fix", confidence: 1 });
  assert.deepEqual(states(applyDecision(table, closing, AT)), ["rejected"]);
});

Deno.test("a Spanish debate has Spanish notes for reviews without a reason", () => {
  const noteOf = (review: string, state: "active" | "confirmed", evidence = FULL_EVIDENCE) =>
    applySkeptic([sampleHypothesis({ state, evidence })], review, on(1, "es"))[0]?.transitions.at(-1)?.note;
  assert.equal(noteOf("[hypothesis:1] rechazada", "active", []), "sin motivo indicado");
  assert.equal(noteOf("[hypothesis:1] aceptada", "active"), "aceptada (acuerdo sin evidencia nueva)");
  assert.equal(noteOf("[hypothesis:1] needs_evidence", "confirmed"), "falta evidencia");
  const closing = sampleDecision({ status: "final_diagnosis", confidence: 0.9 });
  const [lead] = applyDecision(TABLE, closing, { ...AT, ...on(1, "es") });
  assert.equal(lead?.transitions.at(-1)?.note, "hipótesis principal de la decisión final");
});

Deno.test.each([
  { name: "none", evidence: [], state: "active" },
  {
    name: "only evidence that does not count",
    evidence: [sampleEvidence("c1", { status: "failed_call" })],
    state: "active",
  },
  { name: "from a single result", evidence: [sampleEvidence()], state: "active" },
  {
    name: "some evidence that does not count",
    evidence: [...FULL_EVIDENCE, sampleEvidence("c3", { status: "not_in_result" })],
    state: "active",
  },
  { name: "only evidence that counts", evidence: FULL_EVIDENCE, state: "confirmed" },
])("no agent can confirm a hypothesis beyond its evidence: $name", ({ evidence, state }) => {
  const table = [sampleHypothesis({ evidence })];
  assert.deepEqual(states(applySkeptic(table, "[hypothesis:1] accepted [P=0.99]", on(2))), [state]);
  const closing = sampleDecision({ status: "final_diagnosis", confidence: 0.99 });
  assert.deepEqual(states(applyDecision(table, closing, AT)), [state]);
});

Deno.test("a later acceptance confirms a hypothesis despite an earlier objection with evidence", () => {
  const table = [sampleHypothesis({ evidence: [sampleEvidence("c1"), sampleEvidence("c2")] })];
  const objected = applySkeptic(table, `[hypothesis:1] needs_evidence\nReason: why?\n${AGAINST}`, on(1));
  const closing = sampleDecision({ status: "final_diagnosis", confidence: 0.99 });
  assert.deepEqual(states(applyDecision(objected, closing, AT)), ["active"]);
  assert.deepEqual(states(applySkeptic(objected, "[hypothesis:1] accepted", on(2))), ["confirmed"]);
});

Deno.test.each([
  { name: "words alone", line: "- it fits", isNew: false },
  {
    name: "a result that the hypothesis cites",
    line: '- [tool:http_get#1] "431 connections are waiting"',
    isNew: false,
  },
  { name: "a quote that no tool returned", line: '- [tool:http_get#3] "the pool is dead"', isNew: false },
  { name: "a new result", line: '- [tool:http_get#3] "20 of 20 connections are in use"', isNew: true },
])("applySkeptic() marks agreement without new evidence: $name", ({ line, isNew }) => {
  const [pool] = applySkeptic(TABLE, `[hypothesis:1] accepted\nReason: it fits\n${line}`, on(2));
  assert.equal(pool?.reviews[0]?.new_evidence, isNew);
  const note = pool?.transitions.at(-1)?.note ?? "";
  assert.equal(note.endsWith("(agreement without new evidence)"), !isNew, note);
});

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
