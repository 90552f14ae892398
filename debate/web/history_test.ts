import assert from "node:assert/strict";
import { ScriptedModel } from "../testing/scripted_model.ts";
import { CLOSING, DIAGNOSIS, FixedTool, SHORT_SCRIPT } from "../testing/debate_fixture.ts";
import { call } from "../testing/scripted_model.ts";
import { OWN_SECRET, WebFixture } from "../testing/web_fixture.ts";

const FOUND = new FixedTool("http_get", { ok: true, text: "GET http://pool\n20 of 20 connections in use" });
const PROVEN = `${DIAGNOSIS}\n- [tool:http_get#1] "20 of 20 connections in use"`;

/** A run that has found its cause. */
async function found() {
  const script = {
    ...SHORT_SCRIPT,
    diagnostic_agent: [{ toolCalls: [call("http_get")] }, PROVEN],
    moderator_agent: [CLOSING],
  };
  const web = await WebFixture.open({ model: new ScriptedModel(script), tools: [FOUND] });
  const runId = await web.startAndEnd({ topic: "checkout is slow", require_approval: "no" });
  return { web, runId };
}

const listed = async (web: WebFixture) => (await (await web.get("/api/runs")).json()).runs;

Deno.test("the list tells what a run came to", async () => {
  const { web } = await found();
  const [run] = await listed(web);
  assert.deepEqual(run.conclusion, {
    outcome: "cause",
    confidence: 0.85,
    cause: "1: The connection pool is exhausted",
  });
  assert.deepEqual([run.title, run.imported], [null, false]);
});

Deno.test("a finished run can be given a title, masked, and loses it again", async () => {
  const { web, runId } = await found();
  const rename = (title: unknown) => web.post(`/api/runs/${runId}/title`, { title });
  assert.equal((await rename(` Pool,\n ${OWN_SECRET} `)).status, 200);
  assert.deepEqual((await listed(web))[0].title, "Pool, [REDACTED]");
  const { title, topic, events } = await web.record(runId);
  assert.deepEqual([title, topic, events.length > 5], ["Pool, [REDACTED]", "checkout is slow", true]);
  assert.equal((await rename("")).status, 200);
  assert.equal((await listed(web))[0].title, null);
  assert.equal((await rename("x".repeat(201))).status, 422);
  assert.equal((await rename(7)).status, 422);
  assert.equal((await web.post(`/api/runs/${"f".repeat(32)}/title`, { title: "x" })).status, 404);
});

Deno.test("a run in progress cannot be renamed", async () => {
  const web = await WebFixture.open({
    model: new ScriptedModel({ ...SHORT_SCRIPT, moderator_agent: ['{"status":"continue"}'] }),
  });
  const runId = await web.start({ pause_between_rounds: "yes" });
  await web.settle();
  assert.equal((await web.post(`/api/runs/${runId}/title`, { title: "x" })).status, 409);
});

Deno.test("an exported run is imported under an id of its own, marked, and what it says of its evidence is not trusted", async () => {
  const { web, runId } = await found();
  const exported = await web.record(runId);
  const other = await WebFixture.open();
  const answer = await other.post("/api/runs/import", {
    ...exported,
    run_id: "../../etc/passwd",
    status: "running",
  });
  assert.equal(answer.status, 200);
  const { run_id } = await answer.json();
  assert.match(run_id, /^[0-9a-f]{32}$/);
  const [item] = await listed(other);
  assert.deepEqual([item.run_id, item.imported, item.status, item.topic], [
    run_id,
    true,
    "interrupted",
    "checkout is slow",
  ]);
  const record = await other.record(run_id);
  assert.deepEqual(record.events, exported.events);
  assert.match(await (await other.get(`/api/runs/${run_id}/report`)).text(), /Imported from elsewhere/);
  const resumed = await other.form(`/api/runs/${run_id}/resume`, { new_evidence: "more" });
  const child = (await resumed.json()).run_id;
  await other.end(child);
  const first = (await other.record(child)).events.find(({ type }: { type: string }) =>
    type === "hypothesis_update"
  );
  assert.deepEqual([first.hypotheses[0].state, first.hypotheses[0].evidence], ["active", []]);
});

Deno.test.each([
  { name: "a list", body: [] },
  { name: "nothing", body: {} },
  { name: "no events", body: { topic: "x", events: [] } },
  { name: "no topic", body: { events: [{ type: "run_started" }] } },
  { name: "events of no type", body: { topic: "x", events: [1, { a: 1 }] } },
])("what is not the record of a run is not imported: $name", async ({ body }) => {
  const web = await WebFixture.open();
  assert.equal((await web.post("/api/runs/import", body)).status, 422);
  assert.deepEqual(await listed(web), []);
});

Deno.test("a hostile record cannot make the list long, and stops nobody", async () => {
  const long = "x".repeat(100_000);
  const web = await WebFixture.open();
  const deep: { a?: unknown } = {};
  for (let level = 0, at = deep; level < 5000; level++) at = (at.a = {}) as typeof deep;
  const body = {
    topic: long,
    title: long,
    conclusion: { outcome: "cause", confidence: 9, cause: long },
    events: [{ type: "hypothesis_update", hypotheses: 7 }, { type: "moderator_decision", decision: deep }],
  };
  assert.equal((await web.post("/api/runs/import", body)).status, 200);
  assert.ok((await (await web.get("/api/runs")).text()).length < 5000);
  assert.equal((await web.get("/")).status, 200);
});

Deno.test("the report as HTML is a file to save, whose policy allows nothing", async () => {
  const { web, runId } = await found();
  const response = await web.get(`/api/runs/${runId}/report.html`);
  assert.equal(
    response.headers.get("content-disposition"),
    `attachment; filename="diagnosis-${runId.slice(0, 8)}.html"`,
  );
  assert.match(
    response.headers.get("content-security-policy") ?? "",
    /^default-src 'none'; frame-ancestors 'none'$/,
  );
  assert.match(await response.text(), /^<!doctype html>[^]*cause found/);
});
