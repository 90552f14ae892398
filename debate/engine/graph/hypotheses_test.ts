import assert from "node:assert/strict";
import { sampleCall, sampleHypothesis } from "../../testing/sample_state.ts";
import { findById, findLeading, findNamed, hypothesisKey } from "./hypothesis_id.ts";
import fc from "fast-check";
import { assertFast, HOSTILE_TEXTS } from "../../testing/linear_time.ts";
import { extractHypotheses, fallbackHypotheses, type FoundHypothesis } from "./review_marks.ts";
import { applySkeptic, mergeHypotheses, moveTo } from "./hypotheses.ts";
import { labelsFor } from "./labels.ts";
import { claimKey, readClaim, readFault } from "./claim.ts";

Deno.test("hypothesisKey() is equal for 1, 01, H1, h_1 and H-1, and different for 10", () => {
  assert.deepEqual(new Set(["1", "01", "H1", "h_1", "H-1"].map(hypothesisKey)), new Set(["1"]));
  assert.notEqual(hypothesisKey("10"), hypothesisKey("1"));
  assert.notEqual(hypothesisKey("pool"), hypothesisKey("ool"));
  assert.equal(hypothesisKey("heap"), "heap");
});

const POOL = sampleHypothesis();
const CACHE = sampleHypothesis({ id: "H-10", text: "The cache evicts hot keys after the deploy" });
const TABLE = [POOL, CACHE];

Deno.test("findById() distinguishes 1 and 10", () => {
  assert.equal(findById(TABLE, "H-1"), POOL);
  assert.equal(findById(TABLE, "10"), CACHE);
  assert.equal(findById(TABLE, "100"), undefined);
});

Deno.test.each([
  { name: "an id in front", text: "10: evictions", found: CACHE },
  { name: "a bold id in front", text: "**H-1** pool", found: POOL },
  { name: "a marker", text: "most likely HYPOTHESIS-10, as shown", found: CACHE },
  { name: "a marker in brackets", text: "see [hypothesis:1]", found: POOL },
  { name: "the same words", text: "the  connection pool is EXHAUSTED", found: POOL },
  { name: "two markers", text: "either HYPOTHESIS-1 or HYPOTHESIS-10", found: undefined },
  { name: "other words", text: "a cosmic ray", found: undefined },
  { name: "nothing", text: "", found: undefined },
])("findNamed() with $name", ({ text, found }) => {
  assert.equal(findNamed(TABLE, text), found);
});

Deno.test("findLeading() compares the text if no ID is named", () => {
  assert.equal(findLeading(TABLE, "hot keys are evicted by the cache after the last deploy"), CACHE);
  assert.equal(findLeading(TABLE, "a cosmic ray"), undefined);
  assert.equal(findLeading(TABLE, ""), undefined);
});

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
    name: "a probability on a separate line",
    block: "### HYPOTHESIS-1\nText: the cause\n\n**Probability:** 60%",
    probability: 0.6,
  },
  { name: "a numbered heading", block: "### 1. HYPOTHESIS-1: the cause", probability: null },
  { name: "a numbered bold heading", block: "### 2) **Hypothesis 1**\nText: the cause", probability: null },
  { name: "a bold heading", block: "**HYPOTHESIS-1**\nText: the cause", probability: null },
  { name: "bold in the heading", block: "### **HYPOTHESIS-1**\nText: the cause", probability: null },
  { name: "four signs", block: "#### hypothesis-1\ntext: the cause", probability: null },
  { name: "a space in place of the dash", block: "### Hypothesis 1\nText: the cause", probability: null },
  { name: "Windows line ends", block: "### HYPOTHESIS-1\r\nText: the cause\r\n\r\nmore", probability: null },
  { name: "Spanish", block: "### HIPÓTESIS-1\nTexto: the cause", probability: null },
  { name: "a list", block: "1. ### HYPOTHESIS-1\n   - Text: the cause", probability: null },
  { name: "the text on the next line", block: "### HYPOTHESIS-1\nText:\nthe cause", probability: null },
  { name: "no label", block: "### HYPOTHESIS-1\n\nthe cause\n\nmore", probability: null },
  {
    name: "evidence on the next line",
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
  { name: "an ID that is too long", text: `### HYPOTHESIS-${"x".repeat(41)}\nText: no` },
])("extractHypotheses() ignores $name", ({ text }) => {
  assert.deepEqual(extractHypotheses(text), []);
});

Deno.test("extractHypotheses() limits evidence, texts and their number", () => {
  const lines = Array.from({ length: 9 }, (_, index) => `- [tool:t] ${index} ${"x".repeat(900)}`);
  const [found] = extractHypotheses(`### HYPOTHESIS-1\nText: ${"y".repeat(5000)}\n${lines.join("\n")}`);
  assert.equal(found?.evidence.length, 5);
  assert.ok(found.evidence.every((line) => line.length <= 400));
  assert.ok(found.text.length <= 1000);
  assert.equal(extractHypotheses("### HYPOTHESIS-1\nText: a\n".repeat(100)).length, 20);
});

Deno.test("fallbackHypotheses() returns the first paragraph", () => {
  const [found] = fallbackHypotheses("## Title\n\nIt is the\ndisk.\n\nMore.", 2);
  assert.deepEqual([found?.id, found?.text], ["R2-F1", "It is the disk."]);
  assert.deepEqual(fallbackHypotheses(" \n\n", 1), []);
});

Deno.test("extractHypotheses() accepts any text", () => {
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

Deno.test.each([
  "### HYPOTHESIS-<id> [P=0 to 1]\nText: <one paragraph: the cause, and how it leads to the symptoms>",
  "### HYPOTHESIS-1 [P=0.5]\nText: one paragraph: the cause, and how it leads to the symptoms",
  "Text: <un párrafo: la causa y cómo produce los síntomas>",
  "**<the cause>**",
])("a copy of the form is no hypothesis: %s", (text) => {
  const found = extractHypotheses(text);
  const all = found.length === 0 ? fallbackHypotheses(text, 1) : found;
  assert.deepEqual(mergeHypotheses([], all, ORIGIN), []);
});

Deno.test("mergeHypotheses() creates new hypotheses", () => {
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

Deno.test("mergeHypotheses() keeps order, ID, round and proposer of known hypotheses", () => {
  const known = [sampleHypothesis({ id: "2" }), sampleHypothesis()];
  const merged = mergeHypotheses(known, [found({ id: "H-1", probability: 0.7, evidence: ["e"] })], ORIGIN);
  assert.deepEqual(merged.map(({ id }) => id), ["2", "1"]);
  assert.deepEqual([merged[1]?.round, merged[1]?.text, merged[1]?.probability], [1, "Another wording", 0.7]);
  assert.deepEqual(merged[1]?.supporting_evidence, ["e"]);
  assert.equal(merged[1]?.transitions.length, 1);
});

Deno.test("mergeHypotheses() keeps text and probability if they are not repeated", () => {
  const [merged] = mergeHypotheses([sampleHypothesis()], [found({ text: "" })], ORIGIN);
  assert.deepEqual(merged, sampleHypothesis());
});

Deno.test("mergeHypotheses() does not reopen a rejected hypothesis that is only listed again", () => {
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
  { name: "a quote that no tool returned", evidence: ['[tool:http_get#1] "the pool is dead"'] },
])("mergeHypotheses() does not reopen for $name", ({ evidence }) => {
  assert.equal(mergeHypotheses([REJECTED], [found({ evidence })], ORIGIN)[0]?.state, "rejected");
});

Deno.test.each([
  { name: "a rejection in words", quote: "the pool is fine", state: "active" },
  { name: "a rejection with a quote", quote: "the pool answers 200 at 14:00", state: "rejected" },
])("mergeHypotheses() with a result of an earlier turn after $name: $state", ({ quote, state }) => {
  const review = `[hypothesis:1] rejected\n- [tool:http_get#2] "${quote}"`;
  const origin = { round: 1, labels: labelsFor("en"), calls: ORIGIN.calls };
  const rejected = applySkeptic([sampleHypothesis()], review, origin);
  const evidence = ['[tool:http_get#2] "the pool answers 200"'];
  assert.equal(mergeHypotheses(rejected, [found({ evidence })], ORIGIN)[0]?.state, state);
});

Deno.test("mergeHypotheses() reopens a hypothesis for new evidence that counts, and records it", () => {
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

Deno.test("mergeHypotheses() limits the table", () => {
  const many = Array.from({ length: 200 }, (_, index) => found({ id: `x${index}` }));
  assert.equal(mergeHypotheses([], many, ORIGIN).length, 60);
});

Deno.test("mergeHypotheses() checks a repeated line again, and keeps a line that counted", () => {
  const line = '[tool:http_get#1] "answers 503 since 14:05"';
  const before = mergeHypotheses([], [found({ evidence: [line] })], { ...ORIGIN, calls: [] });
  assert.deepEqual(before[0]?.evidence.map(({ status }) => status), ["no_such_call"]);
  const after = mergeHypotheses(before, [found({ evidence: [line] })], ORIGIN);
  assert.deepEqual(after[0]?.evidence.map(({ status }) => status), ["grounded"]);
  const later = mergeHypotheses(after, [found({ evidence: [line] })], { ...ORIGIN, round: 3, calls: [] });
  assert.deepEqual(later[0]?.evidence, [{ text: line, round: 3, status: "grounded", call_ids: ["c1"] }]);
});

Deno.test.each([
  { name: "in English", text: "{component: db pool; fault: resource_leak; path: a > b -> c} It leaks." },
  { name: "in Spanish", text: "{componente: db pool; fallo: fuga de recursos; camino: a → b > c} Se agota." },
  { name: "in a code span", text: "`{component: db pool; fault: leak; path: a>b>c}`: the pool leaks" },
  { name: "in another order", text: "{path: a > b > c; fault: leak; component: db pool}" },
])("readClaim() reads a claim $name", ({ text }) => {
  const claim = { component: "db pool", fault: "resource_leak" as const, path: ["a", "b", "c"] };
  assert.deepEqual(readClaim(text), { kind: "claim", claim });
});

Deno.test.each([
  { name: "without one", text: "The pool leaks", reason: "absent" },
  { name: "with two", text: "{component: a; fault: data} or {component: b; fault: data}", reason: "several" },
  { name: "after a denial", text: "It is not {component: a; fault: data}", reason: "denied" },
  { name: "that is retracted", text: "{component: a; fault: data} is not the cause", reason: "denied" },
  { name: "retracted in Spanish", text: "{component: a; fault: data} no es la causa", reason: "denied" },
  { name: "that is ruled out", text: "{component: a; fault: data}: this was ruled out", reason: "denied" },
  { name: "without a component", text: "{component: ; fault: data}", reason: "malformed" },
  { name: "of two faults", text: "{component: a; fault: data or change}", reason: "malformed" },
  { name: "of every fault", text: "{component: a; fault: data capacity change}", reason: "malformed" },
  {
    name: "that states a fault twice",
    text: "{component: a; fault: data; fault: change}",
    reason: "malformed",
  },
  { name: "with other keys", text: "{component: a; fault: data; score: 1}", reason: "malformed" },
])("readClaim() reads no claim from a text $name", ({ text, reason }) => {
  assert.deepEqual(readClaim(text), { kind: "none", reason });
});

Deno.test("claimKey() ignores the spelling of a component and distinguishes different claims", () => {
  const key = claimKey("{component: The Orders-DB pool; fault: leak}");
  assert.equal(claimKey("{componente: orders db  POOL; fallo: fuga}"), key);
  assert.notEqual(claimKey("{component: orders-db pool; fault: capacity}"), key);
  assert.notEqual(claimKey("{component: orders-db; fault: leak}"), key);
  assert.equal(claimKey("orders db pool leaks"), undefined);
  assert.equal(claimKey("{component: x; fault: none}"), claimKey("{component: y; fault: no fault}"));
});

Deno.test("readFault() reads names in both languages, but no sentences", () => {
  assert.equal(readFault("Configuración"), "configuration");
  assert.equal(readFault("not a leak"), undefined);
  assert.equal(readFault(""), undefined);
});

Deno.test("readClaim() takes linear time", () => {
  assertFast("braces", () => readClaim("{".repeat(500_000)));
  assertFast("components", () => readClaim("{component: ".repeat(100_000)));
  assertFast("spaces", () => readClaim(`{component: a; fault: data}${" ".repeat(500_000)}`));
});
