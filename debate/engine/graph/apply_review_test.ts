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
const states = (table: readonly { readonly state: string }[]) => table.map(({ state }) => state);

Deno.test("applySkeptic() moves, weighs and records", () => {
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

Deno.test("applySkeptic() weighs without moving, and leaves what is not mentioned", () => {
  const [pool, cache] = applySkeptic(TABLE, "[hypothesis:1] needs_evidence [P=0.3]", on(1));
  assert.deepEqual([pool?.state, pool?.probability, pool?.transitions.length], ["active", 0.3, 1]);
  assert.deepEqual(cache, TABLE[1]);
  assert.deepEqual(pool?.reviews.map(({ verdict, probability }) => [verdict, probability]), [[
    "needs_evidence",
    0.3,
  ]]);
});

Deno.test("applySkeptic() records no transition to where a hypothesis already is", () => {
  const once = applySkeptic(TABLE, "[hypothesis:1] rejected", on(1));
  assert.equal(once[0]?.rejected_reason, "no reason was stated");
  const twice = applySkeptic(once, "[hypothesis:1] rejected: again", on(2));
  assert.deepEqual(twice[0]?.transitions, once[0]?.transitions);
  assert.equal(twice[0]?.reviews.length, 2);
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
])("applySkeptic() leaves what was confirmed $state after: $review", ({ review, state }) => {
  const confirmed = [sampleHypothesis({ state: "confirmed", evidence: FULL_EVIDENCE })];
  const [after] = applySkeptic(confirmed, review, on(2));
  assert.equal(after?.state, state);
  assert.equal(after?.transitions.length, state === "confirmed" ? 1 : 2);
});

Deno.test("applyRebuttal() can give up but not confirm or bring back", () => {
  assert.deepEqual(states(applyRebuttal(TABLE, "[hypothesis:1] rejected\n[hypothesis:10] accepted", on(1))), [
    "rejected",
    "active",
  ]);
  const rejected = [sampleHypothesis({ state: "rejected", rejected_reason: "flat" })];
  assert.deepEqual(applyRebuttal(rejected, "[hypothesis:1] accepted", on(1)), rejected);
});

const AT = { ...on(1), confidenceThreshold: 0.8 };

Deno.test("applyDecision() rejects what the moderator lists by id", () => {
  const decision = sampleDecision({ rejected_hypotheses: ["10: hits are up", "something else"] });
  const [pool, cache] = applyDecision(TABLE, decision, AT);
  assert.deepEqual([pool?.state, cache?.state, cache?.rejected_reason], [
    "active",
    "rejected",
    "10: hits are up",
  ]);
});

Deno.test.each(["H-1, H-10", "HYPOTHESIS-1 and HYPOTHESIS-10: hits are up", "[1], [10]"])(
  "applyDecision() rejects a list of ids: %s",
  (list) => {
    const decision = sampleDecision({ leading_hypothesis: "", rejected_hypotheses: [list] });
    assert.deepEqual(states(applyDecision(TABLE, decision, AT)), ["rejected", "rejected"]);
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

Deno.test("a Spanish debate has Spanish notes where a review gives no reason", () => {
  const noteOf = (review: string, state: "active" | "confirmed") =>
    applySkeptic([sampleHypothesis({ state, evidence: FULL_EVIDENCE })], review, on(1, "es"))[0]?.transitions
      .at(-1)?.note;
  assert.equal(noteOf("[hypothesis:1] rechazada", "active"), "no se dio ningún motivo");
  assert.equal(noteOf("[hypothesis:1] aceptada", "active"), "aceptada (acuerdo sin evidencia nueva)");
  assert.equal(noteOf("[hypothesis:1] needs_evidence", "confirmed"), "falta evidencia");
  const closing = sampleDecision({ status: "final_diagnosis", confidence: 0.9 });
  const [lead] = applyDecision(TABLE, closing, { ...on(1, "es"), confidenceThreshold: 0.8 });
  assert.equal(lead?.transitions.at(-1)?.note, "hipótesis principal de la decisión de cierre");
});

Deno.test.each([
  { name: "none", evidence: [], state: "active" },
  {
    name: "only such that does not count",
    evidence: [sampleEvidence("c1", { status: "failed_call" })],
    state: "active",
  },
  { name: "from a single result", evidence: [sampleEvidence()], state: "active" },
  {
    name: "some that does not count",
    evidence: [...FULL_EVIDENCE, sampleEvidence("c3", { status: "not_in_result" })],
    state: "active",
  },
  { name: "all that counts", evidence: FULL_EVIDENCE, state: "confirmed" },
])("nobody's word confirms a hypothesis beyond its evidence: $name", ({ evidence, state }) => {
  const table = [sampleHypothesis({ evidence })];
  assert.deepEqual(states(applySkeptic(table, "[hypothesis:1] accepted [P=0.99]", on(2))), [state]);
  const closing = sampleDecision({ status: "final_diagnosis", confidence: 0.99 });
  assert.deepEqual(states(applyDecision(table, closing, AT)), [state]);
});

Deno.test("who objected by a result and accepts later confirms, by the new word", () => {
  const table = [sampleHypothesis({ evidence: [sampleEvidence("c1"), sampleEvidence("c2")] })];
  const against = '- [tool:http_get#3] "20 of 20 connections are in use"';
  const objected = applySkeptic(table, `[hypothesis:1] needs_evidence\nReason: why?\n${against}`, on(1));
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
  { name: "a quote that nobody returned", line: '- [tool:http_get#3] "the pool is dead"', isNew: false },
  { name: "a result of its own", line: '- [tool:http_get#3] "20 of 20 connections are in use"', isNew: true },
])("applySkeptic() marks agreement without new evidence: $name", ({ line, isNew }) => {
  const [pool] = applySkeptic(TABLE, `[hypothesis:1] accepted\nReason: it fits\n${line}`, on(2));
  assert.equal(pool?.reviews[0]?.new_evidence, isNew);
  const note = pool?.transitions.at(-1)?.note ?? "";
  assert.equal(note.endsWith("(agreement without new evidence)"), !isNew, note);
});
