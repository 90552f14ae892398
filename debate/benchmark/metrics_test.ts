import assert from "node:assert/strict";
import type { RunFacts } from "./cases.ts";
import {
  compareCauses,
  createReport,
  DEFINITIONS,
  formatReport,
  judgeCase,
  meaningfulWords,
  summarizeCases,
} from "./metrics.ts";

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

Deno.test("judgeCase() counts a similarity at the threshold as a match", () => {
  assert.deepEqual([judge(["slow network"]).similarity, judge(["slow network"]).top1], [0.5, true]);
});

Deno.test("judgeCase() counts a case without a usable record as wrong and keeps the reason", () => {
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

Deno.test("summarizeCases() counts confidence 1 in the last bin and 0 in the first", () => {
  const { reliability } = summarizeCases([judge(["x"], { confidence: 1 }), judge(["x"], { confidence: 0 })]);
  assert.deepEqual(reliability.map(({ cases }) => cases), [1, 0, 0, 0, 1]);
});

Deno.test("summarizeCases() returns no efficiency without calls and no Brier score without forecasts", () => {
  const { tool_efficiency, brier_score } = summarizeCases([UNUSABLE]);
  assert.deepEqual({ tool_efficiency, brier_score }, { tool_efficiency: null, brier_score: null });
});

Deno.test("the definitions explain every metric that is not a plain sum", () => {
  const plain = ["tokens", "cost_usd", "duration_seconds"];
  for (const name of Object.keys(summarizeCases([RIGHT]))) {
    assert.ok(name in DEFINITIONS || plain.includes(name), name);
  }
});

const factsReport: RunFacts = {
  candidates: ["the connection pool leaks since the deploy of version nine at noon, and nothing else"],
  confidence: 0.9,
  tool_calls: 3,
  useful_tool_calls: 2,
  rounds: 1,
  tokens: 12345,
  cost_usd: 0.25,
  duration_seconds: 61.2,
};

const report = createReport([
  judgeCase({ id: "pool", truths: ["connection pool leak"], run: factsReport }, 0.3),
  judgeCase(
    { id: "a-very-long-name-of-a-case", truths: ["x"], run: "gone" },
    0.3,
  ),
], { threshold: 0.3, now: 0 });

Deno.test("createReport() contains all machine-readable results", () => {
  const { generated_at, cases_total, match_threshold } = report;
  assert.deepEqual({ generated_at, cases_total, match_threshold }, {
    generated_at: "1970-01-01T00:00:00.000Z",
    cases_total: 2,
    match_threshold: 0.3,
  });
  assert.deepEqual(JSON.parse(JSON.stringify(report)), report);
});

Deno.test("formatReport() fits into 80 columns and states why a case was not compared", () => {
  const lines = formatReport(report);
  assert.deepEqual(lines, [
    "Case                  Top-1  Top-3  Alike  Conf.  Prediction",
    "pool                  yes    yes    0.46   0.90   the connection pool leaks sin…",
    "a-very-long-name-of…  no     no     0.00   -      (no usable record)",
    "",
    "Top-1 accuracy          50%  of 2 cases",
    "Top-3 recall            50%",
    "Cause similarity       0.23  mean; 0.3 is a match",
    "Brier score            0.01  0 is perfect, 0.25 is guessing",
    "Tool efficiency       66.7%  useful, of 3 calls",
    "Tokens                12345  mean 12345 of 1 case",
    "Cost                $0.2500  mean $0.2500 of 1 case",
    "Rounds                    1  mean 1 of 1 case",
    "Duration             61.2 s  mean 61.2 s of 1 case",
    "",
    "Counted as wrong:",
    "  a-very-long-name-of-a-case: gone",
  ]);
  for (const line of lines) assert.ok(line.length <= 80, line);
});

Deno.test.each([
  { name: "small letters, no accents", text: "Conexión ÁGIL", words: ["conexion", "agil"] },
  { name: "no English stop words", text: "the pool is in the way of it", words: ["pool", "way"] },
  { name: "no Spanish stop words", text: "el disco de la base", words: ["disco", "base"] },
  {
    name: "no plurals",
    text: "queries caches conexiones pools",
    words: ["query", "cach", "conexion", "pool"],
  },
  {
    name: "words that only look like plurals",
    text: "status access redis",
    words: ["status", "access", "redis"],
  },
  {
    name: "parts of identifiers",
    text: "http-5xx max_connections",
    words: ["http", "5xx", "max", "connection"],
  },
  { name: "nothing", text: " … ", words: [] },
])("meaningfulWords() returns $name", ({ text, words }) => {
  assert.deepEqual([...meaningfulWords(text)], words);
});

Deno.test.each([
  { name: "the same cause", a: "The pool leaks.", b: "pool leak", score: 1 },
  { name: "half of the words", a: "pool leak", b: "pool exhaustion", score: 0.5 },
  { name: "a part of a longer cause", a: "pool leak", b: "pool leak after deploy nine", score: 4 / 7 },
  { name: "other causes", a: "pool leak", b: "certificate expired", score: 0 },
  { name: "an empty text and a text", a: "", b: "pool", score: 0 },
  { name: "two empty texts", a: "", b: "the", score: 0 },
])("compareCauses() rates $name", ({ a, b, score }) => {
  assert.equal(compareCauses(a, b), score);
  assert.equal(compareCauses(b, a), score);
});

Deno.test.each([
  { cause: "The connection pool does not leak" },
  { cause: "The connection pool doesn’t leak" },
  { cause: "There is no evidence of a connection pool leak" },
  { cause: "It is not currently the connection pool leak, it is the disk" },
  { cause: "The connection pool leak is not the root cause" },
  { cause: "A connection pool leak was ruled out" },
  { cause: "No hay ningún connection pool leak" },
])("compareCauses() gives 0 for a denied cause: $cause", ({ cause }) => {
  assert.equal(compareCauses(cause, "the connection pool leaks"), 0);
  assert.equal(compareCauses("the connection pool leaks", cause), 0);
});

Deno.test.each([
  { name: "another denied cause", cause: "not the deploy but the connection pool leaks" },
  {
    name: "a denial in another clause",
    cause: "the connection pool leaks because it does not close sockets",
  },
  {
    name: "a denial that explains the cause",
    cause: "the connection pool leaks because connections are not returned",
  },
  { name: "a repeated denial", cause: "the index is missing", truth: "a table without an index" },
])("compareCauses() keeps the similarity of $name", ({ cause, truth = "the connection pool leaks" }) => {
  assert.ok(compareCauses(cause, truth) >= 0.4, String(compareCauses(cause, truth)));
});
