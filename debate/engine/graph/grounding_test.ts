import assert from "node:assert/strict";
import {
  FULL_EVIDENCE,
  sampleDecision,
  sampleEvidence,
  sampleHypothesis,
  sampleState,
} from "../../testing/sample_state.ts";
import { afterModerator } from "./flow.ts";
import { formatFinalText, parseDecision } from "./decision.ts";
import type { Evidence, Review } from "./state.ts";
import fc from "fast-check";
import { assertFast } from "../../testing/linear_time.ts";
import { fence } from "./text.ts";
import { findProbability, parseShare } from "./probability.ts";

const SURE = sampleDecision({ status: "final_diagnosis", confidence: 0.93 });
const failed = sampleEvidence("c1", { status: "failed_call" });

Deno.test.each([
  {
    name: "without evidence",
    evidence: [],
    confidence: 0.6,
    reason: "1 cites no tool result",
    outcome: "no_confident_cause",
  },
  {
    name: "with only failed calls",
    evidence: [failed],
    confidence: 0.6,
    reason: "no evidence for 1 counts: 1 of 1 cited tool calls failed",
    outcome: "no_confident_cause",
  },
  {
    name: "with quotes that no tool returned",
    evidence: [sampleEvidence("c1", { status: "not_in_result" })],
    confidence: 0.6,
    reason: "no evidence for 1 counts: its quotes are not in the tool results",
    outcome: "no_confident_cause",
  },
  {
    name: "with evidence from one result",
    evidence: [sampleEvidence()],
    confidence: 0.85,
    reason: "all evidence for 1 comes from one tool result, and a second one is missing",
    outcome: "no_confident_cause",
  },
  {
    name: "with an evidence line that does not count",
    evidence: [...FULL_EVIDENCE, failed],
    confidence: 0.85,
    reason: "only 2 of 3 evidence lines for 1 match the tool results that they cite",
    outcome: "no_confident_cause",
  },
  {
    name: "with all evidence from two results",
    evidence: FULL_EVIDENCE,
    confidence: 0.93,
    reason: "all evidence for 1 matches the tool results that it cites (lines: 2, results: 2)",
    outcome: "cause",
  },
])("a confidence of 0.93 becomes $confidence $name", ({ evidence, confidence, reason, outcome }) => {
  const state = sampleState({ hypotheses: [sampleHypothesis({ evidence })] });
  const { decision, hypotheses } = afterModerator(state, SURE);
  assert.equal(decision?.confidence, confidence);
  assert.deepEqual([decision?.grounding?.stated_confidence, decision?.grounding?.reason], [0.93, reason]);
  assert.equal(decision?.grounding?.outcome, outcome);
  assert.equal(hypotheses[0]?.state, outcome === "cause" ? "confirmed" : "active");
});

const OBJECTION = {
  round: 1,
  agent: "skeptic_agent",
  verdict: "needs_evidence",
  probability: 0.2,
  reason: "the pool was idle at that time",
  evidence: [sampleEvidence("c9")],
  new_evidence: true,
} as const satisfies Review;
const ACCOUNTS_FOR = [
  ...FULL_EVIDENCE,
  sampleEvidence("c9", { round: 2, text: "[tool:http_get] an hour later" }),
];

Deno.test.each<{ name: string; reviews: readonly Review[]; evidence: readonly Evidence[]; isCause: boolean }>(
  [
    { name: "objects with a result", reviews: [OBJECTION], evidence: FULL_EVIDENCE, isCause: false },
    {
      name: "rejected it with a result before it was reopened",
      reviews: [{ ...OBJECTION, verdict: "rejected" }],
      evidence: FULL_EVIDENCE,
      isCause: false,
    },
    {
      name: "objects with a result that only a failed line cites",
      reviews: [OBJECTION],
      evidence: [sampleEvidence("c9", { status: "not_in_result", round: 0 }), ...FULL_EVIDENCE],
      isCause: false,
    },
    {
      name: "objects with a result that the evidence accounts for",
      reviews: [OBJECTION],
      evidence: ACCOUNTS_FOR,
      isCause: true,
    },
    {
      name: "accepts the hypothesis in a later round",
      reviews: [OBJECTION, { ...OBJECTION, round: 2, verdict: "accepted", evidence: [] }],
      evidence: FULL_EVIDENCE,
      isCause: true,
    },
    {
      name: "objects without evidence",
      reviews: [{ ...OBJECTION, evidence: [], new_evidence: false }],
      evidence: FULL_EVIDENCE,
      isCause: true,
    },
    {
      name: "objects with a quote that no tool returned",
      reviews: [{ ...OBJECTION, evidence: [sampleEvidence("c9", { status: "not_in_result" })] }],
      evidence: FULL_EVIDENCE,
      isCause: true,
    },
  ],
)(
  "the moderator alone does not override an objection with evidence: the skeptic $name",
  ({ reviews, evidence, isCause }) => {
    const state = sampleState({ hypotheses: [sampleHypothesis({ evidence, reviews })] });
    const { decision, hypotheses } = afterModerator(state, SURE);
    assert.equal(decision?.confidence, isCause ? 0.93 : 0.85);
    assert.equal(decision?.grounding?.outcome, isCause ? "cause" : "no_confident_cause");
    assert.equal(hypotheses[0]?.state, isCause ? "confirmed" : "active");
    assert.equal(
      decision?.grounding?.reason.startsWith("the skeptic cites a tool result against 1 "),
      !isCause,
      decision?.grounding?.reason,
    );
  },
);

Deno.test("a low threshold does not establish a cause without evidence", () => {
  const state = sampleState({ hypotheses: [sampleHypothesis()] });
  const low = {
    ...state,
    task: { ...state.task, confidenceThreshold: 0.1, earlyOut: { enabled: true, threshold: 0.1 } },
  };
  const { decision, hypotheses } = afterModerator(low, SURE);
  assert.equal(decision?.grounding?.outcome, "no_confident_cause");
  assert.equal(hypotheses[0]?.state, "active");
});

Deno.test.each([
  {
    name: "no hypothesis",
    leading_hypothesis: "gremlins",
    reason: "the decision names no hypothesis of the debate",
  },
  { name: "a rejected one", leading_hypothesis: "2", reason: "2 was rejected in the debate" },
])("the confidence of a decision that leads with $name is limited", ({ leading_hypothesis, reason }) => {
  const rejected = sampleHypothesis({
    id: "2",
    text: "The cache",
    state: "rejected",
    evidence: FULL_EVIDENCE,
  });
  const state = sampleState({ hypotheses: [sampleHypothesis({ evidence: FULL_EVIDENCE }), rejected] });
  const { decision } = afterModerator(state, { ...SURE, leading_hypothesis });
  assert.deepEqual([decision?.confidence, decision?.grounding?.reason], [0.6, reason]);
});

Deno.test("a low confidence stays unchanged, and only the final decision has an outcome", () => {
  const state = sampleState({ hypotheses: [sampleHypothesis()] });
  const { decision } = afterModerator(state, sampleDecision({ confidence: 0.4 }));
  assert.deepEqual([decision?.confidence, decision?.grounding?.outcome], [0.4, null]);
  const last = afterModerator({ ...state, round: 4 }, sampleDecision({ confidence: 0.4 }));
  assert.equal(last.decision?.grounding?.outcome, "no_confident_cause");
});

Deno.test("an early end needs evidence", () => {
  const eager = { recommended: true, confidence: 1, rationale: "seen" };
  const at = (evidence: typeof FULL_EVIDENCE, threshold = 0.9) =>
    afterModerator(
      {
        ...sampleState({ hypotheses: [sampleHypothesis({ evidence })], earlyOutSignal: eager }),
        task: { ...sampleState().task, earlyOut: { enabled: true, threshold } },
      },
      sampleDecision({ confidence: 0.95 }),
    );
  assert.equal(at([]).earlyOutConfirmed, false);
  assert.equal(at([sampleEvidence()]).earlyOutConfirmed, false, "0.85 is below the threshold of 0.9");
  assert.equal(at([sampleEvidence()], 0.8).earlyOutConfirmed, false, "one result establishes nothing");
  assert.equal(at(FULL_EVIDENCE).earlyOutConfirmed, true);
  assert.equal(at(FULL_EVIDENCE).decision?.grounding?.outcome, "cause");
});

Deno.test("the grounding in a moderator's reply is ignored", () => {
  const grounding = {
    hypothesis_id: "1",
    level: "full",
    stated_confidence: 1,
    cap: null,
    reason: "",
    outcome: "cause",
  };
  const parsed = parseDecision(JSON.stringify({ ...SURE, grounding }));
  assert.equal(parsed?.grounding, undefined);
});

Deno.test("the reason is in the language of the debate", () => {
  const state = sampleState({ hypotheses: [sampleHypothesis()] });
  const { decision } = afterModerator({ ...state, task: { ...state.task, language: "es" } }, SURE);
  assert.equal(decision?.grounding?.reason, "1 no cita ningún resultado de herramientas");
});

Deno.test("formatFinalText() returns all blocks in order", () => {
  const decision = sampleDecision({ status: "propose_fix", confidence: 0.9, evidence: ["a", "b"] });
  assert.equal(
    formatFinalText(decision, [sampleHypothesis({ state: "confirmed" })], "en"),
    [
      "Status: propose_fix",
      "Confidence: 0.90",
      "Risk: medium",
      "Leading hypothesis:\n1: the pool is exhausted",
      "Hypotheses under debate:\n- 1 [confirmed]: The connection pool is exhausted",
      "Evidence:\n- None.",
      "Evidence stated by the moderator:\n- a\n- b",
      "Missing evidence:\n- None.",
      "Rejected by the moderator:\n- None.",
      "Next step:\nmeasure",
      "Recommended fix:\nNone recommended",
      "Validation:\n- None.",
      "Stop reason:\nNot specified",
    ].join("\n\n"),
  );
});

Deno.test("formatFinalText() shows which evidence of the leading hypothesis counts", () => {
  const decision = sampleDecision({ leading_hypothesis: "1: the pool", evidence: ["it is proven"] });
  const evidence = [sampleEvidence("c1"), sampleEvidence("c2", { status: "failed_call" })];
  const text = formatFinalText(decision, [sampleHypothesis({ evidence })], "en");
  const [counts, fails] = evidence.map((line) => `- ${line.text}`);
  assert.match(text, /\nEvidence stated by the moderator:\n- it is proven\n/);
  assert.ok(
    text.includes(
      `\nEvidence:\n${counts} (counts)\n${fails} (does not count: the cited call failed or was not run)\n`,
    ),
    text,
  );
});

Deno.test("formatFinalText() returns Spanish", () => {
  const text = formatFinalText(sampleDecision(), [], "es-MX");
  assert.match(text, /^Estado: continue\n\nConfianza: 0\.50/);
  assert.match(text, /Hipótesis en debate:\n- Ninguna\./);
});

Deno.test("fence() cannot be closed by its content", () => {
  const backticks = fc.stringMatching(/^[`\na]*$/);
  fc.assert(fc.property(backticks, (text) => {
    const [opening = "", ...rest] = fence(text).split("\n");
    assert.equal(rest.at(-1), opening);
    assert.ok(rest.slice(0, -1).every((line) => !line.includes(opening)));
  }));
});

Deno.test("fence() takes linear time", () => {
  assertFast("backticks", () => fence("` ".repeat(500_000)));
  assertFast("one run", () => fence("`".repeat(1_000_000)));
});

Deno.test.each([
  { text: "0.6", value: 0.6 },
  { text: ".75", value: 0.75 },
  { text: "1.", value: 1 },
  { text: "0,6", value: 0.6 },
  { text: "60%", value: 0.6 },
  { text: " 60 % ", value: 0.6 },
  { text: "3.0", value: 3 },
  { text: "-0.5", value: -0.5 },
  { text: "", value: undefined },
  { text: "high", value: undefined },
  { text: "1e3", value: undefined },
  { text: "Infinity", value: undefined },
])("parseShare() reads $text", ({ text, value }) => {
  assert.equal(parseShare(text), value);
});

Deno.test.each([
  { text: "a [P=0.25] b [P=0.9]", value: 0.25 },
  { text: "[ P = 40% ]", value: 0.4 },
  { text: "[p: .1]", value: 0.1 },
  { text: "[P=3.0]", value: 1 },
  { text: "[P=-2]", value: 0 },
  { text: "[P=likely]", value: undefined },
  { text: "[P=60]", value: 0.6 },
  { text: "P=0.5", value: 0.5 },
  { text: "P = 0.6", value: 0.6 },
  { text: " rejected, **P** = 0,05", value: 0.05 },
  { text: "P(H1) ≈ 5%", value: 0.05 },
  { text: ": the cause (probability: 60%)", value: 0.6 },
  { text: "la causa, probabilidad: 0,6", value: 0.6 },
  { text: "(60% likely)", value: 0.6 },
  { text: " 5%", value: 0.05 },
  { text: " (5%): the cause", value: 0.05 },
  { text: " — 60 %", value: 0.6 },
  { text: " [0.6]", value: 0.6 },
  { text: "the cause\n- **Probability:** 60%\nmore", value: 0.6 },
  { text: ": disk at 95%", value: undefined },
  { text: ": 95% of requests fail", value: undefined },
  { text: "the cause\nsince p = 0.03 in the correlation", value: undefined },
  { text: "GET /?p=1", value: undefined },
  { text: "P = 5", value: undefined },
  { text: "p99 = 0.6", value: undefined },
])("findProbability() in $text", ({ text, value }) => {
  assert.equal(findProbability(text), value);
});
