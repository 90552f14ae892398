import fc from "fast-check";
import assert from "node:assert/strict";
import { assertFast, HOSTILE_TEXTS } from "../../testing/linear_time.ts";
import { extractHypotheses, fallbackHypotheses } from "./review_marks.ts";

Deno.test("extractHypotheses() reads the required form", () => {
  const text = [
    "Some words before.",
    "### HYPOTHESIS-H-1 [P=0.65]",
    "Text: The pool is exhausted",
    "since the deploy.",
    "",
    "- [tool:query_prometheus] 50 of 50 connections in use",
    "- [tool:query_prometheus] 50 of 50 connections in use",
    "- a line without a tool",
    "### HYPOTHESIS-2",
    "Text: The index was dropped.",
    "## Risks",
    "- [tool:none] of these",
  ].join("\n");
  assert.deepEqual(extractHypotheses(text), [
    {
      id: "H-1",
      text: "The pool is exhausted since the deploy.",
      probability: 0.65,
      evidence: ["[tool:query_prometheus] 50 of 50 connections in use"],
    },
    { id: "2", text: "The index was dropped.", probability: null, evidence: [] },
  ]);
});

Deno.test.each([
  { name: "a bold label", block: "### HYPOTHESIS-1\n**Text:** the cause", probability: null },
  { name: "a bold label, colon outside", block: "### HYPOTHESIS-1\n**Text**: the cause", probability: null },
  { name: "a title", block: "### HYPOTHESIS-1: the cause", probability: null },
  { name: "a title and a probability", block: "### HYPOTHESIS-1 [P=0.5] - the cause", probability: 0.5 },
  { name: "a percentage", block: "### HYPOTHESIS-1 [P=60%]\nText: the cause", probability: 0.6 },
  { name: "a comma", block: "### HYPOTHESIS-1 [P=0,6]\nText: the cause", probability: 0.6 },
  { name: "an odd probability", block: "### HYPOTHESIS-1 [P=high]\nText: the cause", probability: null },
  { name: "a probability beyond 1", block: "### HYPOTHESIS-1 [P=3.0]\nText: the cause", probability: 1 },
  { name: "no brackets", block: "### HYPOTHESIS-1 (P = 0.6): the cause", probability: 0.6 },
  { name: "a bare percentage", block: "### HYPOTHESIS-1 (5%): the cause", probability: 0.05 },
  {
    name: "a title with a percentage",
    block: "### HYPOTHESIS-1: the cause - 60%",
    probability: null,
    text: "the cause - 60%",
  },
  {
    name: "a probability on its line",
    block: "### HYPOTHESIS-1\nText: the cause\n\n**Probability:** 60%",
    probability: 0.6,
  },
  { name: "a numbered heading", block: "### 1. HYPOTHESIS-1: the cause", probability: null },
  { name: "a numbered bold heading", block: "### 2) **Hypothesis 1**\nText: the cause", probability: null },
  { name: "a bold heading", block: "**HYPOTHESIS-1**\nText: the cause", probability: null },
  { name: "bold in the heading", block: "### **HYPOTHESIS-1**\nText: the cause", probability: null },
  { name: "four signs", block: "#### hypothesis-1\ntext: the cause", probability: null },
  { name: "a blank for the dash", block: "### Hypothesis 1\nText: the cause", probability: null },
  { name: "Windows line ends", block: "### HYPOTHESIS-1\r\nText: the cause\r\n\r\nmore", probability: null },
  { name: "Spanish", block: "### HIPÓTESIS-1\nTexto: the cause", probability: null },
  { name: "a list", block: "1. ### HYPOTHESIS-1\n   - Text: the cause", probability: null },
  { name: "the text on the next line", block: "### HYPOTHESIS-1\nText:\nthe cause", probability: null },
  { name: "no label", block: "### HYPOTHESIS-1\n\nthe cause\n\nmore", probability: null },
  {
    name: "evidence right after",
    block: "### HYPOTHESIS-1\nText: the cause\nEvidence:\n- x",
    probability: null,
  },
  { name: "a tool right after", block: "### HYPOTHESIS-1\nText: the cause\n[tool:a] b", probability: null },
])("extractHypotheses() tolerates $name", ({ block, probability, text }) => {
  const [found, ...others] = extractHypotheses(block);
  assert.deepEqual([found?.id, found?.text, found?.probability, others.length], [
    "1",
    text ?? "the cause",
    probability,
    0,
  ]);
});

Deno.test.each([
  { name: "the word in a heading", text: "### Hypothesis testing\nText: no" },
  { name: "the marker in running text", text: "As HYPOTHESIS-1 says, Text: no" },
  { name: "an id that is too long", text: `### HYPOTHESIS-${"x".repeat(41)}\nText: no` },
])("extractHypotheses() does not take $name", ({ text }) => {
  assert.deepEqual(extractHypotheses(text), []);
});

Deno.test("extractHypotheses() bounds evidence, texts and their number", () => {
  const lines = Array.from({ length: 9 }, (_, index) => `- [tool:t] ${index} ${"x".repeat(900)}`);
  const [found] = extractHypotheses(`### HYPOTHESIS-1\nText: ${"y".repeat(5000)}\n${lines.join("\n")}`);
  assert.equal(found?.evidence.length, 5);
  assert.ok(found.evidence.every((line) => line.length <= 400));
  assert.ok(found.text.length <= 1000);
  assert.equal(extractHypotheses("### HYPOTHESIS-1\nText: a\n".repeat(100)).length, 20);
});

Deno.test("fallbackHypotheses() is the first paragraph", () => {
  const [found] = fallbackHypotheses("## Title\n\nIt is the\ndisk.\n\nMore.", 2);
  assert.deepEqual([found?.id, found?.text], ["R2-F1", "It is the disk."]);
  assert.deepEqual(fallbackHypotheses(" \n\n", 1), []);
});

Deno.test("extractHypotheses() takes whatever comes", () => {
  const piece = fc.constantFrom(
    "### HYPOTHESIS-",
    "1",
    "\n",
    "Text:",
    "[P=",
    "]",
    "**",
    "[tool:a]",
    " ",
    "#",
    "\ud800",
  );
  fc.assert(fc.property(fc.array(fc.oneof(piece, fc.string())), (pieces) => {
    for (const { id, text, probability, evidence } of extractHypotheses(pieces.join(""))) {
      assert.ok(id !== "" && id.length <= 40 && text.length <= 1000 && evidence.length <= 5);
      assert.ok(probability === null || (probability >= 0 && probability <= 1));
    }
  }));
});

Deno.test("extractHypotheses() takes linear time", () => {
  for (const [name, text] of Object.entries(HOSTILE_TEXTS)) {
    assertFast(name, () => extractHypotheses(text));
    assertFast(name, () => fallbackHypotheses(text, 1));
    assertFast(name, () => extractHypotheses(`### HYPOTHESIS-1\nText: ${text}\n[tool:a] ${text}`));
  }
});
