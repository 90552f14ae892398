import assert from "node:assert/strict";
import { CLOSING, DIAGNOSIS, FixedTool, SHORT_SCRIPT } from "../testing/debate_fixture.ts";
import {
  openGuarded,
  openRun,
  OWN_SECRET,
  readFrames,
  twoRounds,
  WebFixture,
} from "../testing/web_fixture.ts";
import { FakeClock } from "@gateway/shared/testing";
import { EventLog } from "../runs/event_log.ts";
import { Subscribers } from "./subscribers.ts";
import { call, ScriptedModel } from "../testing/scripted_model.ts";

const UNKNOWN = "f".repeat(32);

Deno.test("events of a finished run are replayed once with their IDs", async () => {
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

Deno.test("the stream of an unknown run is one error event", async () => {
  const web = await WebFixture.open();
  const response = await web.get(`/api/runs/${UNKNOWN}/events`);
  assert.equal(response.status, 200);
  const frames = readFrames(await response.text());
  assert.deepEqual(frames.map(({ data }) => data), [{ type: "error", message: "No such run" }]);
  assert.equal((await web.get(`/api/runs/${UNKNOWN}/events`, { "last-event-id": "1" })).status, 204);
});

Deno.test("a late subscriber receives all events of a live run, including ephemeral ones", async () => {
  const { web, runId } = await openGuarded();
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

Deno.test("the record is stored before the last event is sent", async () => {
  const web = await WebFixture.open();
  const runId = await web.start();
  const reader = (await web.get(`/api/runs/${runId}/events`)).body!.getReader();
  let text = "";
  while (!text.includes("run_finished")) {
    await web.clock.advance(30);
    text += new TextDecoder().decode((await reader.read()).value);
  }
  assert.equal(JSON.parse(web.directory.text(`${runId}.json`)).status, "completed");
  assert.equal((await web.form(`/api/runs/${runId}/resume`, { new_evidence: "x" })).status, 200);
  await reader.cancel();
});

Deno.test("a record that cannot be stored is reported and stays readable in memory", async () => {
  const { web, runId } = await openRun({ model: twoRounds() }, { pause_between_rounds: "true" });
  web.directory.failing = "write";
  await web.post(`/api/runs/${runId}/comment`, {});
  const text = (await web.get(`/api/runs/${runId}/events`)).text();
  await web.end(runId);
  await web.clock.advance(100);
  assert.match(await text, /Cannot store the record of this run: export its report/);
  assert.equal((await web.record(runId)).status, "completed");
  assert.match(await (await web.get(`/api/runs/${runId}/report`)).text(), /Completed/);
  assert.deepEqual([web.warnings.length, web.failures.length], [0, 1]);
});

Deno.test("POST /api/runs returns 500 with a request ID if a run cannot start", async () => {
  const web = await WebFixture.open();
  web.directory.failing = "write";
  const response = await web.form("/api/runs", { topic: "x" });
  assert.equal(response.status, 500);
  assert.match((await response.json()).detail, /DATA_DIR/);
  assert.equal(web.errors.length, 1);
});

function open() {
  const clock = new FakeClock();
  const stopping = new AbortController();
  const subscribers = new Subscribers(clock, stopping.signal);
  const log = new EventLog(clock);
  const append = (json = "{}") => log.append({ type: "agent_completed", json });
  const follow = () => {
    const reader = subscribers.follow(log, null).body!.getReader();
    const read = async () => new TextDecoder().decode((await reader.read()).value);
    return { reader, read };
  };
  return { clock, stopping, subscribers, log, append, follow };
}

Deno.test("a stream sends a greeting, stored events in one chunk, then new events", async () => {
  const { clock, append, follow, log } = open();
  append();
  append();
  const { read, reader } = follow();
  assert.equal(await read(), "retry: 1000\n\n");
  assert.match(await read(), /^id: 1\n[^]*id: 2\n/);
  append();
  await clock.advance(25);
  assert.match(await read(), /^id: 3\n/);
  log.end();
  assert.equal((await reader.read()).done, true);
});

Deno.test("a stream without events sends keep-alive comments", async () => {
  const { clock, follow } = open();
  const stream = follow();
  await stream.read();
  const next = stream.read();
  await clock.advance(20_000);
  assert.equal(await next, ": keep-alive\n\n");
  await stream.reader.cancel();
});

Deno.test("a subscriber that does not read for a minute is disconnected", async () => {
  const { clock, follow, append, subscribers } = open();
  const stream = follow();
  for (let count = 0; count < 1000; count++) append("x".repeat(1000));
  await clock.advance(55_000);
  assert.equal(subscribers.size, 1);
  await clock.advance(20_000);
  assert.equal(subscribers.size, 0);
  await assert.rejects(async () => {
    for (;;) if ((await stream.reader.read()).done) return;
  }, /does not read/);
});

Deno.test("a closed connection is removed", async () => {
  const { follow, subscribers, append } = open();
  const stream = follow();
  await stream.reader.cancel();
  assert.equal(subscribers.size, 0);
  append();
});

Deno.test("all streams end when the server stops", async () => {
  const { follow, stopping, subscribers } = open();
  const streams = [follow(), follow()];
  for (const { read } of streams) await read();
  stopping.abort();
  for (const { reader } of streams) assert.equal((await reader.read()).done, true);
  assert.equal(subscribers.size, 0);
});

Deno.test("all subscribers share the same memory", async () => {
  const { clock, append, follow, log } = open();
  const streams = Array.from({ length: 50 }, follow);
  for (const { read } of streams) await read();
  for (let count = 0; count < 20; count++) append();
  await clock.advance(25);
  const pieces = await Promise.all(streams.map(({ reader }) => reader.read()));
  assert.equal(new Set(pieces.map(({ value }) => value?.buffer)).size, 1);
  log.end();
});

Deno.test("a subscriber over the limit is rejected", async () => {
  const { follow } = open();
  const streams = Array.from({ length: 2000 }, follow);
  assert.throws(follow, { code: "rate_limited" });
  for (const { reader } of streams) await reader.cancel();
});

const FOUND = new FixedTool("http_get", { ok: true, text: "GET http://pool\n20 of 20 connections in use" });
const GREW = new FixedTool("query_loki", { ok: true, text: "pool\n431 requests are waiting" });
const PROVEN = [
  DIAGNOSIS,
  '- [tool:http_get#1] "20 of 20 connections in use"',
  '- [tool:query_loki#2] "431 requests are waiting"',
].join("\n");

/** A run that found a cause. */
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

Deno.test("the list contains the conclusion of a run", async () => {
  const { web } = await found();
  const [run] = await listed(web);
  assert.deepEqual(run.conclusion, {
    outcome: "cause",
    confidence: 0.9,
    cause: "1: The connection pool is exhausted",
  });
  assert.deepEqual([run.title, run.imported], [null, false]);
});

Deno.test("the title of a finished run is masked and can be removed", async () => {
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

Deno.test("the HTML report is a download with an empty content security policy", async () => {
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
