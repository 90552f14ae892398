import assert from "node:assert/strict";
import { readFacts } from "./facts.ts";

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

Deno.test("readFacts() takes confidence and rounds from the decisions", () => {
  const events = [decision("a", { confidence: 0.3, status: "continue" }), decision("b", { confidence: 0.9 })];
  const { confidence, rounds, candidates } = facts({ events });
  assert.deepEqual({ confidence, rounds, candidates }, { confidence: 0.9, rounds: 2, candidates: ["b"] });
});

Deno.test("readFacts() has confidence 0 without a decision", () => {
  const { confidence, rounds } = facts({ hypotheses: TABLE });
  assert.deepEqual({ confidence, rounds }, { confidence: 0, rounds: 0 });
});

Deno.test("readFacts() takes the table from the last event when the record has none", () => {
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

Deno.test("readFacts() takes what the run cost", () => {
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

Deno.test("readFacts() knows no cost where the record says none", () => {
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
])("readFacts() cannot use $name, and says why", ({ record, reason }) => {
  assert.deepEqual(readFacts(record), reason);
});
