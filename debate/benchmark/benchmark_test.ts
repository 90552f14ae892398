import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { loadRun, parseCases, readFacts } from "./cases.ts";

const RUN = { status: "completed", hypotheses: [{ id: "H-1", text: "slow disk", state: "active" }] };

Deno.test("parseCases() reads inline records and paths, with one ground truth or several", () => {
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

Deno.test("readFacts() returns confidence 0 without a decision", () => {
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
  { name: "the same call only once", calls: [call("http_get"), call("http_get")], useful: 1 },
  {
    name: "the same arguments in another order only once",
    calls: [call("http_get", { args: { a: 1, b: 2 } }), call("http_get", { args: { b: 2, a: 1 } })],
    useful: 1,
  },
  { name: "each set of arguments", calls: [call("http_get"), call("http_get", { args: {} })], useful: 2 },
  { name: "a call that the decision names", calls: [call("query_loki")], useful: 1 },
  { name: "no call that is not cited", calls: [call("run_kubectl")], useful: 0 },
  { name: "no call that failed", calls: [call("http_get", { error: true })], useful: 0 },
  { name: "no answer from the cache", calls: [call("http_get", { cached: true })], useful: 0 },
  { name: "no rejected call", calls: [call("http_get", { approval: "rejected" })], useful: 0 },
  {
    name: "no call whose approval timed out",
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

Deno.test("readFacts() returns no cost if the record has none", () => {
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
    name: "a run in progress",
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
