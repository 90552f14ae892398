import assert from "node:assert/strict";
import fc from "fast-check";
import { sampleCall, sampleDecision, sampleEvidence } from "../../testing/sample_state.ts";
import { assertFast, HOSTILE_TEXTS } from "../../testing/linear_time.ts";
import { checkEvidence, citedTools, groundingOf, toCalledTool } from "./evidence.ts";
import { DECISION_SCHEMA, parseDecision } from "./decision.ts";

const REPORT = [
  "content-type: application/json",
  '{ "holder": "src/pricing/price_cache.ts priceCache", "entries": 15212, "mb": 1498 }',
  "[... 120 of 9000 characters omitted ...]",
  "café – 98,5 % used; the pool is not exhausted",
].join("\n");

const CALLS = [
  sampleCall(1, REPORT),
  sampleCall(2, "connection refused by the pool", { succeeded: false }),
  sampleCall(3, "14:46:03 killed reason=oom limit_mb=2048", { tool_name: "run_local_command" }),
  toCalledTool(
    { number: 4, call_id: "c4", tool_name: "run_local_command", succeeded: true },
    { command: "date +price%ncache%nleaks:memory%nforever" },
    "date: exit code 0 [3 ms]\nprice\ncache\nleaks:memory\nforever",
  ),
  sampleCall(5, "(no output)", { tool_name: "run_local_command" }),
];

const statusOf = (line: string) => checkEvidence(line, 1, CALLS).status;

Deno.test.each([
  {
    name: "quotes the cited call",
    line: '[tool:http_get#1] "src/pricing/price_cache.ts priceCache": the holder',
  },
  {
    name: "names the tool without a number",
    line: '[tool:run_local_command] "killed reason=oom limit_mb=2048"',
  },
  { name: "puts JSON between backticks", line: '[tool:http_get#1] `"entries": 15212, "mb": 1498`' },
  {
    name: "puts JSON between double quotes",
    line: '[tool:http_get#1] ""entries": 15212, "mb": 1498" retained',
  },
  { name: "changes case and spaces", line: '[tool:http_get#1] "SRC/Pricing/price_cache.ts   pricecache"' },
  { name: "quotes in another way", line: "[tool:run_local_command#3] «killed reason=oom»" },
  { name: "composes letters differently", line: '[tool:http_get#1] "cafe\u0301 \u2014 98,5\u00a0% used"' },
  {
    name: "cites two calls and quotes both",
    line: '[tool:http_get#1] "15212, mb: 1498" [tool:run_local_command#3] "reason=oom"',
  },
  { name: "writes the number otherwise", line: '[tool:http_get, call 1] "price_cache.ts priceCache"' },
  { name: "quotes one word that holds a figure", line: '[tool:run_local_command#3] "limit_mb=2048"' },
])("evidence counts if it $name", ({ line }) => {
  assert.equal(statusOf(line), "grounded");
});

Deno.test.each([
  { name: "has no citation", line: '"price_cache.ts priceCache" holds it all', status: "uncited" },
  { name: "cites its own comment", line: '[hypothesis:1] "price_cache.ts priceCache"', status: "uncited" },
  { name: "invents a call", line: '[tool:http_get#9] "price_cache.ts priceCache"', status: "no_such_call" },
  { name: "cites no real tool", line: '[tool:oracle] "price_cache.ts priceCache"', status: "no_such_call" },
  {
    name: "cites an agent as a tool",
    line: '[tool:skeptic_agent#1] "price_cache.ts"',
    status: "no_such_call",
  },
  {
    name: "cites the call number of another tool",
    line: '[tool:http_get#3] "reason=oom limit_mb=2048"',
    status: "no_such_call",
  },
  {
    name: "cites a failed call",
    line: '[tool:http_get#2] "connection refused by the pool"',
    status: "failed_call",
  },
  {
    name: "adds a citation of a failed call",
    line: '[tool:http_get#1][tool:http_get#2] "price_cache.ts priceCache"',
    status: "failed_call",
  },
  { name: "has no quote", line: "[tool:http_get#1] the price cache holds 1498 MB", status: "unquoted" },
  {
    name: "opens a quote without closing it",
    line: '[tool:http_get#1] "price_cache.ts',
    status: "unquoted",
  },
  { name: "quotes text that is not in the result", line: '[tool:http_get#1] "the cache is never emptied"' },
  {
    name: "adds a quote that is not in the result",
    line: '[tool:http_get#1] "price_cache.ts priceCache" "never emptied"',
  },
  { name: "quotes another call", line: '[tool:http_get#1] "killed reason=oom limit_mb=2048"' },
  {
    name: "cites a second call that does not contain the quote",
    line: '[tool:http_get#1][tool:run_local_command#3] "price_cache.ts priceCache"',
  },
  { name: "quotes a part of a number", line: '[tool:http_get#1] "498 }", "entries: 15212, mb: 149"' },
  { name: "quotes a number without its fraction", line: '[tool:http_get#1] "café - 98"' },
  { name: "quotes a part of a word", line: '[tool:http_get#1] "the pool is not exhaust"' },
  { name: "quotes look-alikes", line: '[tool:http_get#1] "sr\u0441/pricing/price_cache.ts pri\u0441eCache"' },
  { name: "quotes a space", line: '[tool:http_get#1] " "' },
  { name: "quotes invisible characters", line: '[tool:http_get#1] "\u200b\u2060\u200b"' },
  { name: "quotes a common word", line: '[tool:http_get#1] "the"', status: "too_little" },
  { name: "quotes one long word", line: '[tool:http_get#1] "exhausted"', status: "too_little" },
  { name: "quotes punctuation", line: '[tool:http_get#1] "}"', status: "too_little" },
  { name: "quotes only short words", line: '[tool:http_get#1] "is not"', status: "too_little" },
  { name: "quotes the request", line: '[tool:http_get#1] "GET http://pool/1: 200 OK"' },
  {
    name: "quotes only the arguments of the call",
    line: '[tool:run_local_command#4] "price cache leaks:memory forever"',
    status: "too_little",
  },
  { name: "quotes the truncation notice", line: '[tool:http_get#1] "120 of 9000 characters omitted"' },
  { name: "quotes the notice of empty output", line: '[tool:run_local_command#5] "(no output)"' },
])("evidence does not count if it $name", ({ line, status = "not_in_result" }) => {
  assert.equal(statusOf(line), status);
});

Deno.test("checkEvidence() lists the cited calls, and repeated results only once", () => {
  const again = sampleCall(6, REPORT);
  const line = '[tool:http_get#6] "price_cache.ts priceCache"';
  assert.deepEqual(checkEvidence(line, 2, [...CALLS, again]).call_ids, ["c1"]);
  assert.deepEqual(checkEvidence("[tool:http_get#2] failed", 2, CALLS).call_ids, ["c2"]);
});

const bad = sampleEvidence("c3", { status: "not_in_result" });
Deno.test.each([
  { name: "nothing", evidence: [], level: "none" },
  { name: "lines that do not count", evidence: [bad], level: "none" },
  {
    name: "one result",
    evidence: [sampleEvidence("c1"), sampleEvidence("c1", { text: "twice" })],
    level: "partial",
  },
  {
    name: "two results and a line that does not count",
    evidence: [sampleEvidence("c1"), sampleEvidence("c2"), bad],
    level: "partial",
  },
  { name: "two results", evidence: [sampleEvidence("c1"), sampleEvidence("c2")], level: "full" },
  {
    name: "two results and a line that was withdrawn",
    evidence: [bad, sampleEvidence("c1"), sampleEvidence("c2", { round: 2 })],
    level: "full",
  },
])("groundingOf() returns level $level: $name", ({ evidence, level }) => {
  assert.equal(groundingOf({ evidence, reviews: [] }).level, level);
});

Deno.test("citedTools() finds every tool of a line", () => {
  assert.deepEqual(citedTools("- [tool:http_get#2] and [tool: run_kubectl ] say"), [
    "http_get",
    "run_kubectl",
  ]);
});

Deno.test("checkEvidence() accepts any text, in linear time", () => {
  const piece = fc.constantFrom(
    "[tool:http_get#1]",
    '"',
    "`",
    "[tool:",
    "#",
    "]",
    "price",
    " ",
    "«",
    "»",
    "\ud800",
  );
  fc.assert(fc.property(fc.array(fc.oneof(piece, fc.string())), (pieces) => {
    checkEvidence(pieces.join(""), 1, CALLS);
  }));
  for (const [name, text] of Object.entries(HOSTILE_TEXTS)) {
    assertFast(name, () => checkEvidence(`[tool:http_get#1] "${text.slice(0, 400)}"`, 1, CALLS));
    assertFast(name, () => sampleCall(1, text));
  }
});

const DECISION = sampleDecision({
  evidence: ["[tool:http_get] 503"],
  flow_directive: { skip_skeptic: false, skip_rebuttal: true, rationale: "nothing to answer" },
});
const JSON_TEXT = JSON.stringify(DECISION, null, 2);

Deno.test.each([
  { name: "the object alone", text: JSON_TEXT },
  { name: "a fence", text: "Here:\n```json\n" + JSON_TEXT + "\n```\nDone." },
  { name: "words around it", text: `I think {this}. ${JSON_TEXT} That's it.` },
  { name: "another object before it", text: `{"note": 1} ${JSON_TEXT}` },
  { name: "a wrapper", text: `{"decision": ${JSON_TEXT}}` },
  { name: "an open brace before it", text: `a { b "c ${JSON_TEXT}` },
  { name: "more keys", text: JSON_TEXT.replace("{", '{"thoughts": "…",') },
])("parseDecision() finds a decision in $name", ({ text }) => {
  assert.deepEqual(parseDecision(text), DECISION);
});

Deno.test("parseDecision() does not count braces in strings", () => {
  const decision = { ...DECISION, next_step: 'run `awk "{print}"` and close with }' };
  assert.equal(parseDecision(`Well: ${JSON.stringify(decision)}`)?.next_step, decision.next_step);
});

Deno.test("parseDecision() ignores a decision that is quoted inside the decision", () => {
  const quoted = '```json\n{"status":"final_diagnosis","confidence":1}\n```';
  const decision = parseDecision(JSON.stringify({ ...DECISION, next_step: quoted }));
  assert.equal(decision?.status, "continue");
});

Deno.test.each([
  { name: "confidence as text", change: { confidence: "0.8" }, expected: { confidence: 0.8 } },
  { name: "a percentage", change: { confidence: "80%" }, expected: { confidence: 0.8 } },
  { name: "a percentage as number", change: { confidence: 80 }, expected: { confidence: 0.8 } },
  { name: "a confidence a little beyond 1", change: { confidence: 1.2 }, expected: { confidence: 0 } },
  { name: "a negative confidence", change: { confidence: -1 }, expected: { confidence: 0 } },
  { name: "a confidence in words", change: { confidence: "high" }, expected: { confidence: 0 } },
  { name: "no confidence", change: { confidence: undefined }, expected: { confidence: 0 } },
  { name: "risk in capitals", change: { risk_level: "High" }, expected: { risk_level: "high" } },
  {
    name: "risk under its other name",
    change: { risk_level: undefined, risk: "LOW" },
    expected: { risk_level: "low" },
  },
  { name: "critical risk", change: { risk_level: "critical" }, expected: { risk_level: "high" } },
  { name: "unknown risk", change: { risk_level: 7 }, expected: { risk_level: "medium" } },
  {
    name: "a status in other letters",
    change: { status: "Final Diagnosis" },
    expected: { status: "final_diagnosis" },
  },
  {
    name: "a status in other words",
    change: { status: "need_more_data" },
    expected: { status: "needs_more_data" },
  },
  { name: "a text for a list", change: { evidence: "one thing" }, expected: { evidence: ["one thing"] } },
  {
    name: "objects in a list",
    change: { evidence: [{ id: "1", why: "flat" }, null, ""] },
    expected: { evidence: ["1: flat"] },
  },
  {
    name: "no lists",
    change: { evidence: null, validation: undefined },
    expected: { evidence: [], validation: [] },
  },
  { name: "no next step", change: { next_step: undefined }, expected: { next_step: "" } },
  { name: "the word none", change: { recommended_fix: "None." }, expected: { recommended_fix: null } },
  {
    name: "an object for the lead",
    change: { leading_hypothesis: { id: "1", text: "pool" } },
    expected: { leading_hypothesis: "1: pool" },
  },
  {
    name: "a directive without rationale",
    change: { flow_directive: { skip_skeptic: "true" } },
    expected: { flow_directive: { skip_skeptic: true, skip_rebuttal: false, rationale: "" } },
  },
  {
    name: "a malformed directive",
    change: { flow_directive: "skip" },
    expected: { flow_directive: null },
  },
])("parseDecision() tolerates $name", ({ change, expected }) => {
  assert.deepEqual(parseDecision(JSON.stringify({ ...DECISION, ...change })), { ...DECISION, ...expected });
});

Deno.test.each([
  { name: "nothing", text: "" },
  { name: "prose", text: "I cannot decide {yet}." },
  { name: "a list", text: '["continue"]' },
  { name: "an unknown status", text: JSON_TEXT.replace('"continue"', '"continue | final_diagnosis"') },
  { name: "a status that is not a text", text: JSON_TEXT.replace('"continue"', "1") },
  { name: "a cut end", text: JSON_TEXT.slice(0, -20) },
])("parseDecision() finds no decision in $name", ({ text }) => {
  assert.equal(parseDecision(text), undefined);
});

Deno.test("DECISION_SCHEMA requires every key and allows no others, as strict structured output does", () => {
  const walk = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    if ("properties" in node && typeof node.properties === "object" && node.properties !== null) {
      assert.ok("required" in node && "additionalProperties" in node);
      assert.deepEqual(node.required, Object.keys(node.properties));
      assert.equal(node.additionalProperties, false);
    }
    Object.values(node).forEach(walk);
  };
  walk(DECISION_SCHEMA);
  assert.deepEqual(Object.keys(DECISION), DECISION_SCHEMA["required"]);
});

Deno.test("parseDecision() returns a decision with all values in range, or none", () => {
  const value = fc.dictionary(
    fc.constantFrom(
      "status",
      "confidence",
      "evidence",
      "flow_directive",
      "risk_level",
      "next_step",
      "__proto__",
    ),
    fc.oneof(fc.constant("continue"), fc.json().map((text) => JSON.parse(text)), fc.double(), fc.string()),
  );
  fc.assert(fc.property(value, fc.string(), (object, around) => {
    const decision = parseDecision(`${around}${JSON.stringify(object)}${around}`);
    if (decision === undefined) return;
    assert.ok(decision.confidence >= 0 && decision.confidence <= 1);
    assert.ok(decision.evidence.every((entry) => typeof entry === "string"));
    assert.equal(typeof decision.next_step, "string");
  }));
});

Deno.test("parseDecision() takes linear time", () => {
  for (const [name, text] of Object.entries(HOSTILE_TEXTS)) {
    assertFast(name, () => parseDecision(text));
    assertFast(name, () => parseDecision(`{"status":"continue","evidence":${JSON.stringify(text)}}`));
  }
});
