import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { loadRun, parseCases, readFacts, type RunFacts } from "./cases.ts";
import {
  compareCauses,
  createReport,
  DEFINITIONS,
  formatReport,
  judgeCase,
  meaningfulWords,
  summarizeCases,
} from "./metrics.ts";

const RUN = { status: "completed", hypotheses: [{ id: "H-1", text: "slow disk", state: "active" }] };

Deno.test("parseCases() reads inline records and paths, one truth or several", () => {
  const text = JSON.stringify([
    { id: "a", ground_truth: "slow disk", run: RUN, note: "seen in May" },
    { id: 7, ground_truth: ["x", "y"], run_file: "runs/7.json" },
  ]);
  assert.deepEqual(parseCases(text, "cases.json"), [
    { id: "a", ground_truth: ["slow disk"], run: RUN, note: "seen in May" },
    { id: "7", ground_truth: ["x", "y"], run_file: "runs/7.json" },
  ]);
});

Deno.test.each([
  { name: "text that is not JSON", text: "[", reason: /not JSON/ },
  { name: "an object", text: "{}", reason: /expected a JSON array of cases$/ },
  { name: "no cases", text: "[]", reason: /it has no cases$/ },
  { name: "a case that is not an object", text: "[1]", reason: /case 1: expected an object$/ },
  {
    name: "a case without an id",
    text: '[{"ground_truth":"x","run":{}}]',
    reason: /case 1: id must be a text$/,
  },
  {
    name: "a case without a truth",
    text: '[{"id":"a","run":{}}]',
    reason: /case 1: ground_truth must be a text/,
  },
  {
    name: "an empty truth",
    text: '[{"id":"a","ground_truth":" ","run":{}}]',
    reason: /case 1: ground_truth must be a text, or a list of texts, that is not empty$/,
  },
  { name: "no truths", text: '[{"id":"a","ground_truth":[],"run":{}}]', reason: /case 1: ground_truth/ },
  {
    name: "neither a record nor a path",
    text: '[{"id":"a","ground_truth":"x"}]',
    reason: /case 1: needs either "run" or "run_file"$/,
  },
  {
    name: "both a record and a path",
    text: '[{"id":"a","ground_truth":"x","run":{},"run_file":"f"}]',
    reason: /case 1: needs either "run" or "run_file", not both$/,
  },
  {
    name: "the same id twice",
    text: '[{"id":"a","ground_truth":"x","run":{}},{"id":"a","ground_truth":"y","run":{}}]',
    reason: /case 2: id "a" is given twice$/,
  },
  {
    name: "several problems at once",
    text: "[1,2]",
    reason: /case 1: expected an object; case 2: expected an object$/,
  },
])("parseCases() rejects $name", ({ text, reason }) => {
  assert.throws(
    () => parseCases(text, "cases.json"),
    (error) => error instanceof AppError && error.code === "invalid_config" && reason.test(error.message),
  );
});

async function reasonOf(readText: () => Promise<string>) {
  const { run } = await loadRun({ id: "a", ground_truth: ["x"], run_file: "r.json" }, readText);
  return typeof run === "string" ? run : "facts";
}

Deno.test("loadRun() reads the record of a file", async () => {
  assert.equal(await reasonOf(() => Promise.resolve(JSON.stringify(RUN))), "facts");
});

Deno.test("loadRun() keeps a case with an unreadable file, with the reason", async () => {
  assert.equal(await reasonOf(() => Promise.reject(new Error("gone"))), '"r.json" cannot be read');
  assert.equal(await reasonOf(() => Promise.resolve("{")), '"r.json" is not JSON');
  assert.equal(await reasonOf(() => Promise.resolve("[]")), "it is not the record of a run");
});

function hypothesis(id: string, text: string, more: Readonly<Record<string, unknown>> = {}) {
  return { id, text, state: "active", probability: null, supporting_evidence: [], ...more };
}

function decision(leading: string, more: Readonly<Record<string, unknown>> = {}) {
  return {
    type: "moderator_decision",
    decision: { status: "final_diagnosis", confidence: 0.8, leading_hypothesis: leading, ...more },
  };
}

function call(tool_name: string, more: Readonly<Record<string, unknown>> = {}) {
  return {
    type: "tool_call",
    tool_name,
    args: { q: 1 },
    error: false,
    cached: false,
    approval: "auto",
    ...more,
  };
}

function facts(record: unknown) {
  const result = readFacts(record);
  return typeof result === "string" ? assert.fail(result) : result;
}

const TABLE = [
  hypothesis("H-1", "slow disk", { probability: 0.2 }),
  hypothesis("H-2", "pool leak", { probability: 0.6 }),
  hypothesis("H-3", "bad deploy", { state: "confirmed", probability: 0.1 }),
  hypothesis("H-4", "cosmic rays", { state: "rejected", probability: 0.9 }),
  hypothesis("H-5", "full cache"),
];

Deno.test.each([
  {
    name: "the leading one first, then confirmed, active by probability, and no rejected one",
    leading: "H-1: a slow disk",
    candidates: ["a slow disk", "bad deploy", "pool leak", "full cache"],
  },
  {
    name: "the text of a leading id alone",
    leading: "HYPOTHESIS-H-2",
    candidates: ["pool leak", "bad deploy", "slow disk", "full cache"],
  },
  {
    name: "no leading one without a decision about it",
    leading: "",
    candidates: ["bad deploy", "pool leak", "slow disk", "full cache"],
  },
  {
    name: "a leading one that nobody proposed",
    leading: "The clock is wrong",
    candidates: ["The clock is wrong", "bad deploy", "pool leak", "slow disk", "full cache"],
  },
])("readFacts() ranks $name", ({ leading, candidates }) => {
  assert.deepEqual(facts({ hypotheses: TABLE, events: [decision(leading)] }).candidates, candidates);
});

Deno.test("readFacts() reads confidence and rounds from the decisions", () => {
  const events = [decision("a", { confidence: 0.3, status: "continue" }), decision("b", { confidence: 0.9 })];
  const { confidence, rounds, candidates } = facts({ events });
  assert.deepEqual({ confidence, rounds, candidates }, { confidence: 0.9, rounds: 2, candidates: ["b"] });
});

Deno.test("readFacts() has confidence 0 without a decision", () => {
  const { confidence, rounds } = facts({ hypotheses: TABLE });
  assert.deepEqual({ confidence, rounds }, { confidence: 0, rounds: 0 });
});

Deno.test("readFacts() reads hypotheses from the last event if the record has none", () => {
  const events = [{ type: "hypothesis_update", hypotheses: TABLE.slice(0, 1) }, {
    type: "hypothesis_update",
    hypotheses: TABLE.slice(0, 2),
  }];
  assert.deepEqual(facts({ events }).candidates, ["pool leak", "slow disk"]);
});

Deno.test.each([
  { name: "a call that evidence cites", calls: [call("http_get")], useful: 1 },
  { name: "the same call twice once", calls: [call("http_get"), call("http_get")], useful: 1 },
  {
    name: "the same arguments in another order once",
    calls: [call("http_get", { args: { a: 1, b: 2 } }), call("http_get", { args: { b: 2, a: 1 } })],
    useful: 1,
  },
  { name: "other arguments twice", calls: [call("http_get"), call("http_get", { args: {} })], useful: 2 },
  { name: "a call that the decision names", calls: [call("query_loki")], useful: 1 },
  { name: "no call that nobody cites", calls: [call("run_kubectl")], useful: 0 },
  { name: "no call that failed", calls: [call("http_get", { error: true })], useful: 0 },
  { name: "no answer from the cache", calls: [call("http_get", { cached: true })], useful: 0 },
  { name: "no rejected call", calls: [call("http_get", { approval: "rejected" })], useful: 0 },
  {
    name: "no call that nobody approved in time",
    calls: [call("http_get", { approval: "timeout" })],
    useful: 0,
  },
])("readFacts() counts as useful $name", ({ calls, useful }) => {
  const hypotheses = [
    hypothesis("H-1", "slow disk", { supporting_evidence: ["it is slow [tool:http_get]"] }),
  ];
  const events = [...calls, decision("H-1", { evidence: ["query_loki shows it"] })];
  const { tool_calls, useful_tool_calls } = facts({ hypotheses, events });
  assert.deepEqual({ tool_calls, useful_tool_calls }, {
    tool_calls: calls.length,
    useful_tool_calls: useful,
  });
});

Deno.test("readFacts() reads the cost of the run", () => {
  const { tokens, cost_usd, duration_seconds } = facts({
    hypotheses: TABLE,
    token_totals: { by_node: {}, total: { total_tokens: 1200 } },
    cost_estimate: { total_usd: 0.5 },
    duration_seconds: 12.3,
  });
  assert.deepEqual({ tokens, cost_usd, duration_seconds }, {
    tokens: 1200,
    cost_usd: 0.5,
    duration_seconds: 12.3,
  });
});

Deno.test("readFacts() has no cost if the record has none", () => {
  const { tokens, cost_usd, duration_seconds } = facts({
    hypotheses: TABLE,
    cost_estimate: { total_usd: null },
    duration_seconds: -1,
  });
  assert.deepEqual({ tokens, cost_usd, duration_seconds }, {
    tokens: null,
    cost_usd: null,
    duration_seconds: null,
  });
});

Deno.test.each([
  { name: "a list", record: [], reason: "it is not the record of a run" },
  { name: "null", record: null, reason: "it is not the record of a run" },
  { name: "an empty object", record: {}, reason: "the run names no cause" },
  {
    name: "a failed run",
    record: { status: "error", hypotheses: TABLE },
    reason: "the run did not complete: its status is error",
  },
  {
    name: "a run under way",
    record: { status: "running" },
    reason: "the run did not complete: its status is running",
  },
  {
    name: "a run without a hypothesis",
    record: { status: "completed", events: [decision("")] },
    reason: "the run names no cause",
  },
])("readFacts() rejects $name with a reason", ({ record, reason }) => {
  assert.deepEqual(readFacts(record), reason);
});

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

Deno.test("summarizeCases() counts confidence 1 in the last bin and 0 in the first", () => {
  const { reliability } = summarizeCases([judge(["x"], { confidence: 1 }), judge(["x"], { confidence: 0 })]);
  assert.deepEqual(reliability.map(({ cases }) => cases), [1, 0, 0, 0, 1]);
});

Deno.test("summarizeCases() has no efficiency without calls, and no score without forecasts", () => {
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
    "Top-1 accuracy         50 %  of 2 cases",
    "Top-3 recall           50 %",
    "Cause similarity       0.23  mean; 0.3 is a match",
    "Brier score            0.01  0 is perfect, 0.25 is guessing",
    "Tool efficiency      66.7 %  useful, of 3 calls",
    "Tokens                12345  mean 12345 of 1 case",
    "Cost                $0.2500  mean $0.2500 of 1 case",
    "Rounds                    1  mean 1 of 1 case",
    "Duration             61.2 s  mean 61.2 s of 1 case",
    "",
    "Confidence  Cases  Said  Right",
    "0.8-1.0         1  0.90   1.00",
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
  { name: "nothing with something", a: "", b: "pool", score: 0 },
  { name: "nothing with nothing", a: "", b: "the", score: 0 },
])("compareCauses() rates $name", ({ a, b, score }) => {
  assert.equal(compareCauses(a, b), score);
  assert.equal(compareCauses(b, a), score);
});
