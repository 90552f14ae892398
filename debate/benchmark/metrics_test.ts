import assert from "node:assert/strict";
import type { RunFacts } from "./facts.ts";
import { DEFINITIONS, judgeCase, summarizeCases } from "./metrics.ts";

const FACTS: RunFacts = {
  candidates: ["slow disk", "pool leak", "bad deploy", "full cache"],
  confidence: 0.8,
  tool_calls: 4,
  useful_tool_calls: 3,
  rounds: 2,
  tokens: 100,
  cost_usd: null,
  duration_seconds: 3,
};

function judge(truths: readonly string[], more: Partial<RunFacts> = {}) {
  return judgeCase({ id: "a", truths, run: { ...FACTS, ...more } }, 0.5);
}

const UNUSABLE = judgeCase({ id: "u", truths: ["x"], run: "no record" }, 0.5);

Deno.test.each([
  { name: "the prediction", truths: ["the disk is slow"], top1: true, top3: true },
  { name: "the third candidate", truths: ["bad deploy"], top1: false, top3: true },
  { name: "not the fourth candidate", truths: ["full cache"], top1: false, top3: false },
  { name: "any of several truths", truths: ["nothing", "slow disk"], top1: true, top3: true },
])("judgeCase() accepts $name", ({ truths, top1, top3 }) => {
  const result = judge(truths);
  assert.deepEqual([result.top1, result.top3], [top1, top3]);
});

Deno.test("judgeCase() takes a similarity of exactly the threshold for a match", () => {
  assert.deepEqual([judge(["slow network"]).similarity, judge(["slow network"]).top1], [0.5, true]);
});

Deno.test("judgeCase() counts a case without a usable record as wrong, with the reason", () => {
  const { top1, top3, similarity, confidence, problem } = UNUSABLE;
  assert.deepEqual({ top1, top3, similarity, confidence, problem }, {
    top1: false,
    top3: false,
    similarity: 0,
    confidence: null,
    problem: "no record",
  });
});

const RIGHT = judge(["slow disk"]);
const WRONG = judge(["certificate expired"], {
  confidence: 0.5,
  tool_calls: 0,
  useful_tool_calls: 0,
  tokens: 300,
});

Deno.test("summarizeCases() computes every metric", () => {
  const { reliability, ...metrics } = summarizeCases([RIGHT, WRONG, UNUSABLE, UNUSABLE]);
  assert.deepEqual(metrics, {
    top1_accuracy: 0.25,
    top3_recall: 0.25,
    lexical_similarity: 0.25,
    // ((0.8 - 1)^2 + (0.5 - 0)^2) / 2
    brier_score: 0.145,
    tool_efficiency: 0.75,
    tokens: { cases: 2, total: 400, mean: 200 },
    cost_usd: { cases: 0, total: null, mean: null },
    rounds: { cases: 2, total: 4, mean: 2 },
    duration_seconds: { cases: 2, total: 6, mean: 3 },
    cases_without_usable_record: 2,
  });
  assert.deepEqual(reliability.map(({ cases }) => cases), [0, 0, 1, 0, 1]);
  assert.deepEqual(reliability[4], { from: 0.8, to: 1, cases: 1, mean_confidence: 0.8, accuracy: 1 });
});

Deno.test("summarizeCases() puts confidence 1 into the last bin and 0 into the first", () => {
  const { reliability } = summarizeCases([judge(["x"], { confidence: 1 }), judge(["x"], { confidence: 0 })]);
  assert.deepEqual(reliability.map(({ cases }) => cases), [1, 0, 0, 0, 1]);
});

Deno.test("summarizeCases() knows no efficiency without calls, and no score without forecasts", () => {
  const { tool_efficiency, brier_score } = summarizeCases([UNUSABLE]);
  assert.deepEqual({ tool_efficiency, brier_score }, { tool_efficiency: null, brier_score: null });
});

Deno.test("the definitions name every metric that is not a plain sum", () => {
  const plain = ["tokens", "cost_usd", "duration_seconds"];
  for (const name of Object.keys(summarizeCases([RIGHT]))) {
    assert.ok(name in DEFINITIONS || plain.includes(name), name);
  }
});
