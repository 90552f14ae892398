import assert from "node:assert/strict";
import { SHORT_SCRIPT } from "../testing/debate_fixture.ts";
import { ScriptedModel } from "../testing/scripted_model.ts";
import { problemOf, WebFixture } from "../testing/web_fixture.ts";

const SAYS = "### HYPOTHESIS-H-1 [P=0.7]\nText: {component: pool; fault: resource_leak} It leaks.";

interface Said {
  readonly type: string;
  readonly sample?: number;
}

Deno.test("a run with independent diagnoses is held, recorded, reported and resumed as a debate", async () => {
  const model = new ScriptedModel({ ...SHORT_SCRIPT, sample_agent: [SAYS] });
  const web = await WebFixture.open({ model, env: { SAMPLES: "2" } });
  const runId = await web.startAndEnd({ mode: "sample_then_debate" });
  const record = await web.record(runId);
  assert.equal(record.mode, "sample_then_debate");
  const samples = record.events.filter(({ sample }: Said) => sample !== undefined);
  assert.equal(samples.length, 2);
  const report = await (await web.get(`/api/runs/${runId}/report`)).text();
  assert.match(report, /\*\*Mode:\*\* independent diagnoses/);
  assert.match(
    report,
    /### Primary Diagnosis 2\n[^]*All 2 independent diagnoses lead with H-1, but not enough evidence/,
  );
  const resumed = await web.form(`/api/runs/${runId}/resume`, { new_evidence: "the pool was full" });
  const { run_id } = await resumed.json();
  await web.end(run_id);
  const next = await web.record(run_id);
  assert.equal(next.events.some(({ type }: Said) => type === "samples_compared"), false);
  assert.equal(next.mode, undefined);
});

Deno.test("the settings say which mode is used where the form says nothing", async () => {
  const model = new ScriptedModel({ ...SHORT_SCRIPT, sample_agent: [SAYS] });
  const web = await WebFixture.open({ model, env: { DEBATE_MODE: "sample_then_debate" } });
  const { mode } = await web.record(await web.startAndEnd());
  assert.equal(mode, "sample_then_debate");
  assert.equal((await (await web.get("/api/settings")).json()).mode, "sample_then_debate");
  assert.equal((await web.record(await web.startAndEnd({ mode: "debate" }))).mode, undefined);
});

Deno.test("a form with a mode that does not exist is refused", async () => {
  const web = await WebFixture.open();
  const problem = await problemOf(await web.form("/api/runs", { topic: "x", mode: "vote" }));
  assert.deepEqual([problem.status, problem.detail], [
    400,
    "Field mode: must be debate, sample_then_debate",
  ]);
});
