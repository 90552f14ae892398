import assert from "node:assert/strict";
import type { RunFacts } from "./facts.ts";
import { judgeCase } from "./metrics.ts";
import { createReport, formatReport } from "./report.ts";

const facts: RunFacts = {
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
  judgeCase({ id: "pool", truths: ["connection pool leak"], run: facts }, 0.3),
  judgeCase(
    { id: "a-very-long-name-of-a-case", truths: ["x"], run: "gone" },
    0.3,
  ),
], { threshold: 0.3, now: 0 });

Deno.test("createReport() has what a program wants", () => {
  const { generated_at, cases_total, match_threshold } = report;
  assert.deepEqual({ generated_at, cases_total, match_threshold }, {
    generated_at: "1970-01-01T00:00:00.000Z",
    cases_total: 2,
    match_threshold: 0.3,
  });
  assert.deepEqual(JSON.parse(JSON.stringify(report)), report);
});

Deno.test("formatReport() fits into 80 columns and tells why a case was not compared", () => {
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
