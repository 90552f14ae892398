import assert from "node:assert/strict";
import { sampleEvidence, sampleHypothesis } from "../testing/sample_state.ts";
import { priorRun } from "./imported.ts";
import { readRecord } from "./record.ts";

const { evidence: _evidence, reviews: _reviews, ...OLD } = sampleHypothesis({
  state: "confirmed",
  supporting_evidence: ["[tool:http_get] 503"],
});

Deno.test("readRecord() loads a run of before evidence was checked, which then has none that counts", () => {
  const record = readRecord("1".repeat(32), {
    status: "completed",
    hypotheses: [OLD],
    events: [{ type: "tool_call", tool_name: "http_get", result: "503" }],
  });
  assert.deepEqual(record?.hypotheses, [{ ...OLD, evidence: [], reviews: [] }]);
  assert.equal(priorRun(record).hypotheses.length, 1);
});

Deno.test.each([
  { name: "an unknown status", evidence: [{ ...sampleEvidence(), status: "sworn" }] },
  { name: "no list", evidence: { status: "grounded" } },
  { name: "a text instead of calls", evidence: [{ ...sampleEvidence(), call_ids: "c1" }] },
])("readRecord() takes malformed evidence for none: $name", ({ evidence }) => {
  const record = readRecord("1".repeat(32), { hypotheses: [{ ...OLD, evidence }] });
  assert.deepEqual(record?.hypotheses[0]?.evidence, []);
});
