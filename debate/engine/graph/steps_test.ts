import assert from "node:assert/strict";
import { FULL_EVIDENCE, sampleDecision, sampleHypothesis, sampleState } from "../../testing/sample_state.ts";
import type { Decision } from "./state.ts";
import { afterModerator } from "./flow.ts";

const FIX = "Key the cache by rule set";

/** The steps of a decision about a hypothesis with some evidence. */
function stepsOf(
  next_step: string,
  {
    evidence = FULL_EVIDENCE,
    confidence = 0.9,
    language = "en",
    status = "final_diagnosis" as Decision["status"],
  } = {},
) {
  const state = sampleState({ hypotheses: [sampleHypothesis({ evidence })] });
  const said = sampleDecision({ status, confidence, next_step, recommended_fix: FIX });
  const { decision } = afterModerator({ ...state, task: { ...state.task, language } }, said);
  return [decision?.next_step, decision?.recommended_fix];
}

Deno.test("the steps of a proved cause are advice", () => {
  assert.deepEqual(stepsOf("Restart the pods"), ["Restart the pods", FIX]);
});

Deno.test.each([
  { name: "no evidence", evidence: [] },
  { name: "evidence from one result", evidence: FULL_EVIDENCE.slice(0, 1) },
  { name: "too little confidence", confidence: 0.7 },
  { name: "evidence, but an open debate", status: "continue" as const },
  { name: "no evidence, in Spanish", evidence: [], language: "es", mark: "Sin probar" },
])("the steps of a cause with $name are unproved", ({ mark = "Unproved", ...facts }) => {
  assert.deepEqual(stepsOf("Restart the pods", facts), [`${mark}: Restart the pods`, `${mark}: ${FIX}`]);
  assert.deepEqual(stepsOf(`${mark}: Restart the pods`, facts)[0], `${mark}: Restart the pods`);
});

Deno.test.each([
  { step: "Read the cache's code and the pool's figures", isHedged: false },
  { step: "Check the recent changes", isHedged: false },
  { step: "Revisa el registro", isHedged: false },
  { step: "", isHedged: false },
  { step: "Set PRICE_CACHE=off and restart", isHedged: true },
  { step: "Check the pool, then restart it", isHedged: true },
  { step: "Verify by deleting one pod", isHedged: true },
  { step: "Revisa el pool y reinícialo", isHedged: true },
  { step: "The team should look at the pool", isHedged: true },
  { step: `Check ${"the pool and ".repeat(20)}the log`, isHedged: true },
])("without evidence, the step is a change: $step: $isHedged", ({ step, isHedged }) => {
  assert.equal(stepsOf(step, { evidence: [] })[0], isHedged ? `Unproved: ${step}` : step);
});
