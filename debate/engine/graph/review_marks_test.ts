import assert from "node:assert/strict";
import fc from "fast-check";
import { assertFast, HOSTILE_TEXTS } from "../../testing/linear_time.ts";
import { parseReview } from "./review_marks.ts";

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
