import assert from "node:assert/strict";
import { readRecord } from "../runs/record.ts";
import { formatDuration, renderReport } from "./report.ts";

const DECISION = {
  status: "propose_fix",
  confidence: 0.875,
  risk_level: "low",
  leading_hypothesis: "the pool",
  next_step: "measure",
  recommended_fix: "enlarge it",
  evidence: ["[tool:http_get] 500"],
  validation: ["load test"],
};

const RECORD = {
  topic: "it hangs",
  timestamp: "2026-01-02T03:04:05.000Z",
  finished_at: "2026-01-02T03:06:10.000Z",
  duration_seconds: 125,
  status: "completed",
  models: { diagnostic: "hub/a", skeptic: "hub/b", moderator: "hub/c" },
  reasoning_effort: { diagnostic: "high", skeptic: "none", moderator: "none" },
  template: "default",
  language: "en",
  parent_run_id: null,
  token_totals: {
    by_node: { skeptic_agent: { input_tokens: 10, output_tokens: 2, total_tokens: 12 } },
    total: { input_tokens: 10, output_tokens: 2, total_tokens: 12 },
  },
  cost_estimate: { by_node: { skeptic_agent: { estimated_usd: 0.25 } }, total_usd: 0.25, has_prices: true },
  hypotheses: [{
    id: "1",
    text: "the pool",
    state: "confirmed",
    probability: 0.9,
    rejected_reason: null,
    supporting_evidence: ["seen"],
    transitions: [
      { round: 1, from: null, to: "active", agent: "diagnostic_agent", note: "" },
      { round: 2, from: "active", to: "confirmed", agent: "skeptic_agent", note: "measured" },
    ],
  }],
  events: [
    { type: "run_started", round: 1, max_rounds: 4, confidence_threshold: 0.8 },
    {
      type: "tool_approval_resolved",
      call_id: "c",
      resolution: "approved",
      timestamp: "2026-01-02T03:05:00.000Z",
    },
    {
      type: "tool_call",
      call_id: "c",
      agent_role: "Primary Diagnosis",
      tool_name: "run_kubectl",
      args: { args: ["get"] },
      result: "a ``` b",
      error: false,
      approval: "approved",
      duration_ms: 12,
    },
    { type: "agent_completed", role: "Primary Diagnosis", content: "# Top\n```\nopen" },
    { type: "moderator_decision", decision: { ...DECISION, status: "continue" }, round: 2 },
    { type: "user_comment", content: "look again", round: 2 },
    { type: "agent_skipped", role: "Skeptical Reviewer", rationale: "agreed" },
    { type: "moderator_decision", decision: DECISION, round: 2 },
  ],
};

function report(fields: Readonly<Record<string, unknown>> = {}): string {
  const record = readRecord("1".repeat(32), { ...RECORD, ...fields });
  assert.ok(record !== undefined);
  return renderReport(record);
}

Deno.test("renderReport() has its sections in order", () => {
  const text = report();
  const headings = [...text.matchAll(/^#{1,4} .*$/gm)].map(([line]) => line);
  assert.deepEqual(headings, [
    "# Diagnosis report: it hangs",
    "## Round 1",
    "#### Tool: run\\_kubectl (Primary Diagnosis, approved, 12 ms)",
    "### Primary Diagnosis",
    "### Moderator decision",
    "## Round 2",
    "### Operator",
    "### Moderator decision",
    "## Hypothesis timeline",
    "### H-1: confirmed, probability 90%",
    "## Executive summary",
    "## Token consumption",
  ]);
  assert.match(text, /\*\*Duration:\*\* 2m 5s/);
  assert.match(text, /\*\*Thinking:\*\* diagnostic high/);
  assert.match(text, /Operator: approved at 2026-01-02T03:05:00.000Z/);
  assert.match(text, /````\na ``` b\n````/);
  assert.match(text, /Round 2, skeptic\\_agent: active → confirmed \(measured\)/);
  assert.match(text, /- \*\*Confidence:\*\* 88%/);
  assert.match(text, /\| \*\*Total\*\* \| 10 \| 2 \| 12 \| \$0\.2500 \|/);
  assert.match(text, /\*Skeptical Reviewer was skipped: agreed\.\*/);
});

Deno.test("renderReport() copes with a record of which nothing is right", () => {
  for (
    const events of [undefined, 7, [null, 1, { type: 1 }, { type: "tool_call" }, {
      type: "moderator_decision",
    }]]
  ) {
    assert.match(
      report({ events, hypotheses: { a: 1 }, models: 3, token_totals: [], status: "lost" }),
      /^# /,
    );
  }
});

Deno.test("formatDuration() is short", () => {
  assert.deepEqual([45, 125, 3780].map(formatDuration), ["45s", "2m 5s", "1h 3m"]);
});

Deno.test("renderReport() says what limits the confidence, which evidence counts, and who merely agrees", () => {
  const line = '[tool:run_kubectl#1] "a b c"';
  const evidence = [{ text: line, round: 1, status: "not_in_result", call_ids: ["c"] }];
  const review = {
    round: 1,
    agent: "skeptic_agent",
    verdict: "accepted",
    probability: 0.9,
    reason: "it fits",
    evidence: [],
    new_evidence: false,
  };
  const grounding = {
    hypothesis_id: "1",
    level: "none",
    stated_confidence: 0.93,
    cap: 0.6,
    reason: "1 cites no tool result",
    outcome: "no_confident_cause",
  };
  const text = report({
    hypotheses: [{ ...RECORD.hypotheses[0], supporting_evidence: [line], evidence, reviews: [review] }],
    events: [{ type: "moderator_decision", decision: { ...DECISION, confidence: 0.6, grounding }, round: 1 }],
  });
  assert.match(text, /\*\*Outcome:\*\* no confident cause/);
  assert.match(text, /\*\*Confidence:\*\* 60% \(93% was stated; 1 cites no tool result\)/);
  assert.match(text, /- Evidence: .*\(does not count: the cited result does not hold the quote\)/);
  assert.match(
    text,
    /- Review, round 1, skeptic\\_agent: accepted, agreement without new evidence \(it fits\)/,
  );
});

Deno.test("renderReport() is in the language of the run", () => {
  const text = report({ language: "es-MX" });
  for (
    const heading of ["# Informe de diagnóstico: it hangs", "## Ronda 1", "### Decisión del moderador"]
  ) assert.ok(text.includes(`${heading}\n`), heading);
  assert.match(text, /\*\*Estado:\*\* Completada/);
  assert.doesNotMatch(
    text,
    /Round|Confidence|Started|Evidence|Next step|timeline|summary|consumption|Operator\b/,
  );
});
