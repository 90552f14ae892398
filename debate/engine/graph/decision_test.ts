import fc from "fast-check";
import assert from "node:assert/strict";
import { assertFast, HOSTILE_TEXTS } from "../../testing/linear_time.ts";
import { sampleDecision } from "../../testing/sample_state.ts";
import { DECISION_SCHEMA, parseDecision } from "./decision.ts";

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
])("parseDecision() finds it in $name", ({ text }) => {
  assert.deepEqual(parseDecision(text), DECISION);
});

Deno.test("parseDecision() does not count braces in strings", () => {
  const decision = { ...DECISION, next_step: 'run `awk "{print}"` and close with }' };
  assert.equal(parseDecision(`Well: ${JSON.stringify(decision)}`)?.next_step, decision.next_step);
});

Deno.test("parseDecision() does not let a decision quoted inside of it take its place", () => {
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
])("parseDecision() makes the best of $name", ({ change, expected }) => {
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

Deno.test("DECISION_SCHEMA wants every key and no other, as strict structured output does", () => {
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

Deno.test("parseDecision() gives a decision with everything in range, or none", () => {
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
