import assert from "node:assert/strict";
import { FixedTool } from "../testing/debate_fixture.ts";
import { GUARDED_TOOL, readFrames, twoRounds, WebFixture, withTool } from "../testing/web_fixture.ts";

const UNKNOWN = "f".repeat(32);

Deno.test("events of a run that has ended are replayed once, with ids to continue from", async () => {
  const web = await WebFixture.open();
  const runId = await web.startAndEnd();
  const response = await web.get(`/api/runs/${runId}/events`);
  assert.equal(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
  assert.equal(response.headers.get("x-accel-buffering"), "no");
  const frames = readFrames(await response.text());
  assert.deepEqual(frames.map(({ id }) => id), frames.map((_frame, index) => String(index + 1)));
  assert.deepEqual(frames.map(({ data }) => data), (await web.record(runId)).events);
  const rest = await web.get(`/api/runs/${runId}/events`, { "last-event-id": "3" });
  assert.deepEqual(readFrames(await rest.text()), frames.slice(3));
  const nothing = await web.get(`/api/runs/${runId}/events`, { "last-event-id": String(frames.length) });
  assert.equal(nothing.status, 204);
});

Deno.test("events of no run are one error event, and then nothing", async () => {
  const web = await WebFixture.open();
  const response = await web.get(`/api/runs/${UNKNOWN}/events`);
  assert.equal(response.status, 200);
  const frames = readFrames(await response.text());
  assert.deepEqual(frames.map(({ data }) => data), [{ type: "error", message: "There is no such run" }]);
  assert.equal((await web.get(`/api/runs/${UNKNOWN}/events`, { "last-event-id": "1" })).status, 204);
});

Deno.test("a late subscriber gets all of a live run, the ephemeral too, and the end", async () => {
  const tool = new FixedTool(GUARDED_TOOL);
  const web = await WebFixture.open({ model: withTool(), tools: [tool] });
  const runId = await web.start();
  await web.settle();
  const response = await web.get(`/api/runs/${runId}/events`);
  const text = response.text();
  await web.post(`/api/runs/${runId}/options`, { require_approval: false });
  await web.end(runId);
  await web.clock.advance(100);
  const frames = readFrames(await text);
  assert.equal(frames[0]?.data.type, "run_started");
  assert.equal(frames.at(-1)?.data.type, "run_finished");
  assert.ok(frames.some(({ data }) => data.type === "agent_delta"));
  const kept = frames.filter(({ id }) => !id.includes("."));
  assert.deepEqual(kept.map(({ data }) => data), (await web.record(runId)).events);
});

Deno.test("a record that is there when the last event comes", async () => {
  const web = await WebFixture.open();
  const runId = await web.start();
  const reader = (await web.get(`/api/runs/${runId}/events`)).body!.getReader();
  let text = "";
  while (!text.includes("run_finished")) {
    await web.clock.advance(30);
    text += new TextDecoder().decode((await reader.read()).value);
  }
  assert.equal(JSON.parse(web.folder.text(`${runId}.json`)).status, "completed");
  assert.equal((await web.form(`/api/runs/${runId}/resume`, { new_evidence: "x" })).status, 200);
  await reader.cancel();
});

Deno.test("a record that cannot be stored is said, and stays to be read", async () => {
  const web = await WebFixture.open({ model: twoRounds() });
  const runId = await web.start({ pause_between_rounds: "true" });
  await web.settle();
  web.folder.failing = "write";
  await web.post(`/api/runs/${runId}/comment`, {});
  const text = (await web.get(`/api/runs/${runId}/events`)).text();
  await web.end(runId);
  await web.clock.advance(100);
  assert.match(await text, /could not be stored: export its report/);
  assert.equal((await web.record(runId)).status, "completed");
  assert.match(await (await web.get(`/api/runs/${runId}/report`)).text(), /Completed/);
  assert.deepEqual([web.warnings.length, web.failures.length], [0, 1]);
});

Deno.test("a run that cannot even begin answers 500, with a request id for the log", async () => {
  const web = await WebFixture.open();
  web.folder.failing = "write";
  const response = await web.form("/api/runs", { topic: "x" });
  assert.equal(response.status, 500);
  assert.match((await response.json()).detail, /DATA_DIR/);
  assert.equal(web.errors.length, 1);
});
