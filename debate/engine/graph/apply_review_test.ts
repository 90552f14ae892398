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
import fc from "fast-check";
import { assertFast, HOSTILE_TEXTS } from "../../testing/linear_time.ts";
import { parseReview } from "./review_marks.ts";

const TABLE = [
  sampleHypothesis({ evidence: FULL_EVIDENCE }),
  sampleHypothesis({ id: "10", text: "The cache evicts hot keys" }),
];
const CALLS = [
  sampleCall(1, "431 connections are waiting"),
  sampleCall(3, "20 of 20 connections are in use"),
];
const on = (round: number, language = "en") => ({ round, labels: labelsFor(language), calls: CALLS });
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

const AT = { ...on(1), confidenceThreshold: 0.8 };

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
  const [lead] = applyDecision(TABLE, closing, { ...on(1, "es"), confidenceThreshold: 0.8 });
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

/** The last verdict on each id. */
function verdicts(text: string): Record<string, string | undefined> {
  const marks = parseReview(text).filter(({ verdict }) => verdict !== undefined);
  return Object.fromEntries(marks.map(({ key, verdict }) => [key, verdict]));
}

Deno.test("parseReview() reads the required form", () => {
  const text = [
    "[hypothesis:H-1] rejected [P=0.05]",
    "Reason: the metric",
    "is flat.",
    "",
    "[hypothesis:2] accepted [P=0.9]",
    "[hypothesis:3] needs_evidence",
    '- [tool:a#1] "b"',
  ].join("\n");
  assert.deepEqual(parseReview(text), [
    { key: "1", verdict: "rejected", probability: 0.05, reason: "the metric is flat.", evidence: [] },
    { key: "2", verdict: "accepted", probability: 0.9, reason: "", evidence: [] },
    { key: "3", verdict: "needs_evidence", probability: undefined, reason: "", evidence: ['[tool:a#1] "b"'] },
  ]);
});

Deno.test("parseReview() keeps a verdict within its own segment", () => {
  assert.deepEqual(verdicts("HYPOTHESIS-1: accepted.\nHYPOTHESIS-2: rejected. Reason: no trace of it"), {
    1: "accepted",
    2: "rejected",
  });
  const [first] = parseReview(
    "[hypothesis:1] plausible so far\n[hypothesis:2] rejected [P=0.1]\nReason: no trace",
  );
  assert.deepEqual([first?.verdict, first?.probability, first?.reason], [undefined, undefined, ""]);
  assert.deepEqual(verdicts("### HYPOTHESIS-1\nplausible so far\n### HYPOTHESIS-2\nrejected"), {
    2: "rejected",
  });
});

Deno.test("parseReview() ends a segment at the next heading", () => {
  assert.deepEqual(verdicts("[hypothesis:1] plausible\n## Other explanations\nAll rejected."), {});
});

Deno.test("parseReview() distinguishes HYPOTHESIS-1 from HYPOTHESIS-10", () => {
  assert.deepEqual(verdicts("HYPOTHESIS-10: rejected"), { 10: "rejected" });
});

Deno.test.each([
  { name: "not", text: "HYPOTHESIS-1 is not rejected by this" },
  { name: "cannot", text: "HYPOTHESIS-1 cannot be rejected yet" },
  { name: "n't", text: "HYPOTHESIS-1 isn't really rejected" },
  { name: "a condition", text: "HYPOTHESIS-1 would be rejected by a flat metric" },
  { name: "if", text: "HYPOTHESIS-1\nif it were rejected we would know" },
  { name: "no, in Spanish", text: "HYPOTHESIS-1 no puede ser rechazada" },
  { name: "an invalid certificate", text: "HYPOTHESIS-1\nthe invalid certificate speaks for it" },
  { name: "rejected connections, in Spanish", text: "HIPÓTESIS-1\nhay 40 conexiones rechazadas" },
  { name: "invalid credentials, in Spanish", text: "HIPÓTESIS-1\nlas credenciales inválidas la apoyan" },
  { name: "two verdicts in prose", text: "HYPOTHESIS-1\none part is rejected. The other is accepted." },
  { name: "a longer word", text: "HYPOTHESIS-1\nthe unrejectedness" },
])("parseReview() reads no verdict from $name", ({ text }) => {
  assert.deepEqual(verdicts(text), {});
});

Deno.test.each([
  { name: "confirmed", text: "HYPOTHESIS-1: confirmed", verdict: "accepted" },
  { name: "a refutation", text: "HYPOTHESIS-1 is refuted", verdict: "rejected" },
  { name: "the masculine", text: "HIPÓTESIS-1: rechazado", verdict: "rejected" },
  { name: "the feminine", text: "[hipotesis:1] aceptada", verdict: "accepted" },
  { name: "confirmada", text: "[hypothesis:1] está confirmada", verdict: "accepted" },
  { name: "a field", text: "### HYPOTHESIS-1: the pool\n- **State:** rejected\n", verdict: "rejected" },
  {
    name: "a field before prose",
    text: "HYPOTHESIS-1\nState: accepted\nthe rest was rejected",
    verdict: "accepted",
  },
  { name: "a word on its own line", text: "### HYPOTHESIS-1\n\n**Rejected**\nno trace", verdict: "rejected" },
  { name: "a probability between", text: "[hypothesis:1] [P=0.2] rejected", verdict: "rejected" },
  { name: "bold", text: "- **HYPOTHESIS-1**: **rejected**", verdict: "rejected" },
  { name: "a bare id", text: "- H-1: rejected", verdict: "rejected" },
  { name: "a table", text: "| H-1 | rejected | 0.1 |", verdict: "rejected" },
  { name: "a title between", text: "### HYPOTHESIS-1: the pool — rejected", verdict: "rejected" },
  { name: "prose", text: "HYPOTHESIS-1\nThe metric is flat, so this is rejected.", verdict: "rejected" },
  { name: "the middle of a line", text: "In short HYPOTHESIS-1 rejected", verdict: "rejected" },
  {
    name: "the last word",
    text: "HYPOTHESIS-1: accepted\n\nOn reflection:\nHYPOTHESIS-1: rejected",
    verdict: "rejected",
  },
  { name: "denied, then said", text: "HYPOTHESIS-1 is not rejected, it is accepted", verdict: "accepted" },
])("parseReview() understands $name", ({ text, verdict }) => {
  assert.deepEqual(verdicts(text), { 1: verdict });
});

Deno.test.each([
  "[hypothesis:1] partially accepted",
  "[hypothesis:1] partially_accepted [P=0.5]",
  "HYPOTHESIS-1: accepted (partially)",
  "HYPOTHESIS-1: accepted in part",
  "HYPOTHESIS-1\n**Verdict:** partly confirmed",
  "HYPOTHESIS-1\nThe claim is tentatively accepted.",
  "[hypothesis:1] parcialmente aceptada",
  "[hypothesis:1] partially refuted",
])("parseReview() reads a partial verdict as needs_evidence: %s", (text) => {
  assert.deepEqual(verdicts(text), { 1: "needs_evidence" });
});

Deno.test.each([
  "[hypothesis:1] rejected P = 0.05",
  "[hypothesis:1] rejected (5%)",
  "[hypothesis:1] (5%) rejected",
  "HYPOTHESIS-1: rejected — 5%",
  "| H-1 | rejected | 5% |",
  "| H-1 | rejected | 0.05 |",
  "HYPOTHESIS-1: rejected\nProbability: 5%",
])("parseReview() reads the probability of %s", (text) => {
  assert.deepEqual(parseReview(text).map(({ verdict, probability }) => ({ verdict, probability })), [
    { verdict: "rejected", probability: 0.05 },
  ]);
});

Deno.test("parseReview() does not read a figure of the evidence as a probability", () => {
  const text = "[hypothesis:1] accepted: 95% of requests fail\nReason: p = 0.03 says so, CPU at (95%)";
  assert.equal(parseReview(text)[0]?.probability, undefined);
});

Deno.test.each([
  "[hypothesis:1, 2, H-3] rejected [P=0.1]\nReason: flat",
  "[hypothesis:1], [hypothesis:2] and [hypothesis:3] rejected [P=0.1]\nReason: flat",
  "HYPOTHESIS-1, HYPOTHESIS-2 and HYPOTHESIS-3: rejected [P=0.1]\nReason: flat",
  "- **HYPOTHESIS-1**, 2, and 3 are all rejected [P=0.1]\nReason: flat",
  "H-1, H-2 / H-3: rejected [P=0.1]\nReason: flat",
  "HIPÓTESIS-1, HIPÓTESIS-2 y HIPÓTESIS-3 quedan rechazadas [P=0.1]\nMotivo: flat",
])("parseReview() reads a list of IDs: %s", (text) => {
  assert.deepEqual(
    parseReview(text),
    ["1", "2", "3"].map((key) => ({
      key,
      verdict: "rejected",
      probability: 0.1,
      reason: "flat",
      evidence: [],
    })),
  );
});

Deno.test.each([
  { text: "HYPOTHESIS-1, 2 pods restarted, so it is rejected", keys: ["1"] },
  { text: "HYPOTHESIS-1, 2.5 s of latency: rejected", keys: ["1"] },
  { text: "HYPOTHESIS-1 and the others: rejected", keys: ["1"] },
  { text: "It contradicts HYPOTHESIS-1 and HYPOTHESIS-2 is rejected", keys: ["2"] },
])("parseReview() reads no list from $text", ({ text, keys }) => {
  assert.deepEqual(parseReview(text).map(({ key }) => key), keys);
});

Deno.test("parseReview() ignores a mention in the reason of another review", () => {
  const text = "[hypothesis:1] accepted\nReason: unlike HYPOTHESIS-2, it explains the latency";
  assert.deepEqual(parseReview(text).map(({ key }) => key), ["1"]);
});

Deno.test.each([
  { name: "a label", text: "[hypothesis:1] rejected\n**Reason:** flat metric", reason: "flat metric" },
  {
    name: "Spanish",
    text: "[hypothesis:1] rechazada\nMotivo: métrica plana\n\nmás",
    reason: "métrica plana",
  },
  {
    name: "the rest of the line",
    text: "[hypothesis:1] rejected [P=0.1] - flat metric",
    reason: "flat metric",
  },
  { name: "a verdict alone", text: "[hypothesis:1] rejected", reason: "" },
])("parseReview() finds the reason in $name", ({ text, reason }) => {
  assert.equal(parseReview(text)[0]?.reason, reason);
});

Deno.test("parseReview() accepts any text", () => {
  const piece = fc.constantFrom(
    "HYPOTHESIS-",
    "[hypothesis:",
    "1",
    "]",
    " rejected",
    "not ",
    "\n",
    "[P=",
    "Reason:",
    "#",
  );
  fc.assert(fc.property(fc.array(fc.oneof(piece, fc.string())), (pieces) => {
    for (const { probability, reason } of parseReview(pieces.join(""))) {
      assert.ok(reason.length <= 500);
      assert.ok(probability === undefined || (probability >= 0 && probability <= 1));
    }
  }));
});

Deno.test("parseReview() takes linear time", () => {
  for (const [name, text] of Object.entries(HOSTILE_TEXTS)) {
    assertFast(name, () => parseReview(text));
    assertFast(name, () => parseReview(`[hypothesis:1] ${text}`));
  }
});
