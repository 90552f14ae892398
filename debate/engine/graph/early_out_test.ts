import assert from "node:assert/strict";
import { assertFast, HOSTILE_TEXTS } from "../../testing/linear_time.ts";
import {
  FULL_EVIDENCE,
  sampleDecision,
  sampleEvidence,
  sampleHypothesis,
} from "../../testing/sample_state.ts";
import { isEarlyOutConfirmed, parseEarlyOut } from "./decision.ts";

Deno.test("parseEarlyOut() reads the three lines", () => {
  const text =
    "Words.\nEARLY_OUT_RECOMMENDED: true\nEARLY_OUT_CONFIDENCE: 0.95\nEARLY_OUT_RATIONALE: the rollback\nhealed it\n\nRISKS: none";
  assert.deepEqual(parseEarlyOut(text), {
    recommended: true,
    confidence: 0.95,
    rationale: "the rollback healed it",
  });
});

Deno.test.each([
  { name: "none", text: "nothing", expected: [false, 0] },
  {
    name: "bold",
    text: "**EARLY_OUT_RECOMMENDED:** yes\n- `EARLY_OUT_CONFIDENCE`: 95%",
    expected: [true, 0.95],
  },
  { name: "no", text: "EARLY_OUT_RECOMMENDED: false\nEARLY_OUT_CONFIDENCE: 1", expected: [false, 1] },
  { name: "beyond 1", text: "EARLY_OUT_RECOMMENDED: true\nEARLY_OUT_CONFIDENCE: 7", expected: [true, 7] },
  { name: "no number", text: "EARLY_OUT_RECOMMENDED: true\nEARLY_OUT_CONFIDENCE: very", expected: [true, 0] },
  { name: "running text", text: "do not say EARLY_OUT_RECOMMENDED: true", expected: [false, 0] },
  {
    name: "a later change of mind",
    text: "EARLY_OUT_RECOMMENDED: true\nEARLY_OUT_RECOMMENDED: false",
    expected: [false, 0],
  },
])("parseEarlyOut() with $name", ({ text, expected }) => {
  const { recommended, confidence } = parseEarlyOut(text);
  assert.deepEqual([recommended, confidence], expected);
});

const RULE = { enabled: true, threshold: 0.9 };
const SIGNAL = { recommended: true, confidence: 0.95, rationale: "" };
const DECISION = sampleDecision({ confidence: 0.92 });
const TABLE = [sampleHypothesis({ evidence: FULL_EVIDENCE })];

Deno.test("isEarlyOutConfirmed() when both agree on a hypothesis that stands", () => {
  assert.equal(isEarlyOutConfirmed(RULE, SIGNAL, DECISION, TABLE), true);
});

Deno.test.each([
  { name: "the feature is off", rule: { ...RULE, enabled: false } },
  { name: "the agent does not recommend it", signal: { ...SIGNAL, recommended: false } },
  { name: "the agent is not sure enough", signal: { ...SIGNAL, confidence: 0.89 } },
  { name: "the agent's confidence is not a share", signal: { ...SIGNAL, confidence: 7 } },
  { name: "the agent's confidence is not a number", signal: { ...SIGNAL, confidence: NaN } },
  { name: "the moderator is not sure enough", decision: { ...DECISION, confidence: 0.89 } },
  { name: "the lead is rejected", table: [sampleHypothesis({ state: "rejected", evidence: FULL_EVIDENCE })] },
  { name: "one result is all there is", table: [sampleHypothesis({ evidence: [sampleEvidence()] })] },
  { name: "the lead is unknown", decision: { ...DECISION, leading_hypothesis: "a cosmic ray" } },
  { name: "there is no leading hypothesis", decision: { ...DECISION, leading_hypothesis: "" } },
])(
  "isEarlyOutConfirmed() is false when $name",
  ({ rule = RULE, signal = SIGNAL, decision = DECISION, table = TABLE }) => {
    assert.equal(isEarlyOutConfirmed(rule, signal, decision, table), false);
  },
);

Deno.test("parseEarlyOut() takes linear time", () => {
  for (const [name, text] of Object.entries(HOSTILE_TEXTS)) assertFast(name, () => parseEarlyOut(text));
});
