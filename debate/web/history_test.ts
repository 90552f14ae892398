import assert from "node:assert/strict";
import { call, ScriptedModel } from "../testing/scripted_model.ts";
import { CLOSING, DIAGNOSIS, FixedTool, SHORT_SCRIPT } from "../testing/debate_fixture.ts";
import { OWN_SECRET, WebFixture } from "../testing/web_fixture.ts";

const FOUND = new FixedTool("http_get", { ok: true, text: "GET http://pool\n20 of 20 connections in use" });
const GREW = new FixedTool("query_loki", { ok: true, text: "pool\n431 requests are waiting" });
const PROVEN = [
  DIAGNOSIS,
  '- [tool:http_get#1] "20 of 20 connections in use"',
  '- [tool:query_loki#2] "431 requests are waiting"',
].join("\n");

/** A run that has found its cause. */
async function found() {
  const script = {
    ...SHORT_SCRIPT,
    diagnostic_agent: [{ toolCalls: [call("http_get"), call("query_loki", {}, "c2")] }, PROVEN],
    moderator_agent: [CLOSING],
  };
  const web = await WebFixture.open({ model: new ScriptedModel(script), tools: [FOUND, GREW] });
  const runId = await web.startAndEnd({ topic: "checkout is slow", require_approval: "no" });
  return { web, runId };
}

const listed = async (web: WebFixture) => (await (await web.get("/api/runs")).json()).runs;

Deno.test("the list tells what a run came to", async () => {
  const { web } = await found();
  const [run] = await listed(web);
  assert.deepEqual(run.conclusion, {
    outcome: "cause",
    confidence: 0.9,
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
