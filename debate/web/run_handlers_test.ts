import assert from "node:assert/strict";
import { CLOSING, DIAGNOSIS, FixedTool, SHORT_SCRIPT } from "../testing/debate_fixture.ts";
import { call, ScriptedModel } from "../testing/scripted_model.ts";
import { MemoryDirectory } from "../testing/memory_directory.ts";
import {
  GUARDED_TOOL,
  hanging,
  openGuarded,
  openRun,
  OWN_SECRET,
  problemOf,
  twoRounds,
  type Typed,
  WebFixture,
  withTool,
} from "../testing/web_fixture.ts";

Deno.test("DELETE of a run in progress cancels it and keeps its record", async () => {
  const web = await WebFixture.open({ model: hanging() });
  const runId = await web.start();
  assert.deepEqual(await (await web.send("DELETE", `/api/runs/${runId}`)).json(), { status: "cancelling" });
  await web.end(runId);
  const record = await web.record(runId);
  assert.equal(record.status, "cancelled");
  assert.deepEqual(record.events.slice(-2).map((event: Typed) => event.type), [
    "run_cancelled",
    "run_finished",
  ]);
});

class SlowDirectory extends MemoryDirectory {
  readonly written = Promise.withResolvers<void>();

  override async append(name: string, bytes: Uint8Array) {
    await this.written.promise;
    await super.append(name, bytes);
  }
}

Deno.test("all shown events of a live run are already in its journal and survive a kill", async () => {
  const directory = new SlowDirectory();
  const web = await WebFixture.open({ model: hanging(), directory });
  const runId = await web.start();
  let isShown = false;
  const shown = web.record(runId).finally(() => isShown = true);
  await web.settle();
  assert.equal(isShown, false);
  directory.written.resolve();
  const { events } = await shown;
  assert.notEqual(events.length, 0);
  const journal = directory.text(`${runId}.events.jsonl`);
  for (const event of events) assert.ok(journal.includes(`${JSON.stringify(event)}\n`), event.type);
});

Deno.test("a run can be read while the disk hangs", async () => {
  const web = await WebFixture.open({ model: hanging(), directory: new SlowDirectory() });
  const runId = await web.start();
  const [{ events }] = await Promise.all([web.record(runId), web.clock.advance(2_000)]);
  assert.notEqual(events.length, 0);
});

Deno.test("a sensitive tool waits for the operator, and a decision is accepted once", async () => {
  const { web, runId, tool, asked } = await openGuarded();
  assert.equal(tool.runs.length, 0);
  const body = { call_id: asked.call_id, approved: true };
  assert.deepEqual(await (await web.post(`/api/runs/${runId}/approval`, body)).json(), { status: "ok" });
  assert.equal((await problemOf(await web.post(`/api/runs/${runId}/approval`, body))).status, 404);
  await web.end(runId);
  assert.equal(tool.runs.length, 1);
  const { events } = await web.record(runId);
  const resolved = events.find(({ type }: Typed) => type === "tool_approval_resolved");
  assert.equal(resolved.resolution, "approved");
  assert.equal(events.find(({ type }: Typed) => type === "tool_call").call_id, asked.call_id);
});

Deno.test.each([
  {
    name: "rejected",
    act: (web: WebFixture, runId: string, call_id: string) =>
      web.post(`/api/runs/${runId}/approval`, { call_id, approved: false }),
  },
  { name: "timeout", act: (web: WebFixture) => web.clock.advance(300_000) },
])("a tool call without a timely approval never runs: $name", async ({ name, act }) => {
  const { web, runId, tool, asked } = await openGuarded();
  await act(web, runId, asked.call_id);
  await web.end(runId);
  assert.equal(tool.runs.length, 0);
  const { events, status } = await web.record(runId);
  assert.equal(status, "completed");
  assert.equal(
    events.find(({ type }: Typed) => type === "tool_approval_resolved").resolution,
    name,
  );
});

const CONTINUING = '{"status":"continue"}';
const calls = (...args: readonly object[]) => ({
  toolCalls: args.map((each, index) => call(GUARDED_TOOL, each, `c${index}`)),
});

Deno.test("turning approvals on again revokes the approvals for the whole run", async () => {
  const tool = new FixedTool(GUARDED_TOOL);
  const diagnostic_agent = [calls({ a: 1 }), DIAGNOSIS, calls({ a: 1 }), DIAGNOSIS];
  const script = { ...SHORT_SCRIPT, diagnostic_agent, moderator_agent: [CONTINUING, CLOSING] };
  const { web, runId } = await openRun({ model: new ScriptedModel(script), tools: [tool] }, {
    pause_between_rounds: "true",
  });
  const asked = (await web.eventsOf(runId, "tool_approval_request"))[0];
  await web.post(`/api/runs/${runId}/approval`, { call_id: asked.call_id, approved: true, for_run: true });
  await web.settle();
  await web.post(`/api/runs/${runId}/options`, { require_approval: true });
  await web.post(`/api/runs/${runId}/comment`, {});
  await web.settle();
  const { events } = await web.record(runId);
  assert.equal(events.filter(({ type }: Typed) => type === "tool_approval_request").length, 2);
  assert.equal(tool.runs.length, 1);
  await web.stop(runId);
});

Deno.test("a run that is canceled while a tool awaits approval does not run the tool", async () => {
  const { web, runId, tool } = await openGuarded();
  await web.stop(runId);
  assert.equal(tool.runs.length, 0);
  const { status, events } = await web.record(runId);
  assert.equal(status, "cancelled");
  assert.equal(events.find(({ type }: Typed) => type === "tool_approval_resolved").resolution, "rejected");
});

Deno.test("a call waits for approval if its tool needs it, although the settings do not list the tool", async () => {
  const tool = Object.assign(new FixedTool(GUARDED_TOOL), { needsApproval: true });
  const web = await WebFixture.open({
    model: withTool(),
    tools: [tool],
    env: { APPROVAL_REQUIRED_TOOLS: "x" },
  });
  const runId = await web.start();
  await web.settle();
  assert.equal((await web.eventsOf(runId, "tool_approval_request")).length, 1);
  assert.deepEqual(tool.runs, []);
  await web.stop(runId);
});

Deno.test("without require_approval calls run immediately, including pending ones", async () => {
  const tool = new FixedTool(GUARDED_TOOL);
  const web = await WebFixture.open({ model: withTool(), tools: [tool] });
  const open = await web.startAndEnd({ require_approval: "false" });
  assert.ok(
    !(await web.record(open)).events.some(({ type }: Typed) => type === "tool_approval_request"),
  );
  const other = await WebFixture.open({ model: withTool(), tools: [tool] });
  const runId = await other.start();
  await other.settle();
  const changed = await other.post(`/api/runs/${runId}/options`, {
    require_approval: false,
    pause_between_rounds: null,
  });
  assert.deepEqual(await changed.json(), {
    status: "ok",
    require_approval: false,
    pause_between_rounds: false,
  });
  await other.end(runId);
  assert.equal(tool.runs.length, 2);
});

Deno.test("a paused run waits for a comment and adds it to the debate", async () => {
  const model = twoRounds();
  const { web, runId } = await openRun({ model }, { pause_between_rounds: "yes" });
  assert.deepEqual(
    await (await web.post(`/api/runs/${runId}/comment`, { comment: " look at the pool " })).json(),
    { status: "ok" },
  );
  assert.equal((await problemOf(await web.post(`/api/runs/${runId}/comment`, {}))).status, 409);
  await web.end(runId);
  const { events } = await web.record(runId);
  assert.equal(
    events.find(({ type }: Typed) => type === "user_comment").content,
    "look at the pool",
  );
  assert.ok(JSON.stringify(model.requests.at(-1)?.messages).includes("look at the pool"));
});

Deno.test("secrets in a comment are masked for the models, the record, the stream and the report", async () => {
  const model = twoRounds();
  const { web, runId } = await openRun({ model }, { pause_between_rounds: "yes" });
  const comment = `log in with password=hunter2hunter2 or ${OWN_SECRET}, then look at the pool`;
  assert.equal((await web.post(`/api/runs/${runId}/comment`, { comment })).status, 200);
  await web.end(runId);
  const told = [
    JSON.stringify(model.requests.map(({ messages }) => messages)),
    JSON.stringify(await web.record(runId)),
    await (await web.get(`/api/runs/${runId}/events`)).text(),
    await (await web.get(`/api/runs/${runId}/report`)).text(),
    web.directory.text(`${runId}.json`),
  ];
  for (const text of told) {
    assert.match(text, /then look at the pool/);
    assert.doesNotMatch(text, /hunter2|correct-horse/);
  }
});

Deno.test.each([
  { name: "masked for the models, the record and the report", fields: {}, isMasked: true },
  {
    name: "sent unchanged if the operator allows it",
    fields: { no_redact_context: "true" },
    isMasked: false,
  },
])("secrets in a topic are $name", async ({ fields, isMasked }) => {
  const model = twoRounds();
  const web = await WebFixture.open({ model });
  const topic = "checkout is slow, log in with password=hunter2hunter2";
  const runId = await web.startAndEnd({ topic, ...fields });
  const told = [
    JSON.stringify(model.requests.map(({ messages }) => messages)),
    JSON.stringify(await web.record(runId)),
    await (await web.get("/api/runs")).text(),
    await (await web.get(`/api/runs/${runId}/report`)).text(),
  ];
  for (const text of told) {
    assert.match(text, /checkout is slow/);
    assert.equal(text.includes("hunter2"), !isMasked);
  }
});

Deno.test("a pause ends at its time limit or when it is turned off", async () => {
  for (
    const act of [
      (web: WebFixture) => web.clock.advance(600_000),
      (web: WebFixture, runId: string) =>
        web.post(`/api/runs/${runId}/options`, { pause_between_rounds: false }),
    ]
  ) {
    const { web, runId } = await openRun({ model: twoRounds() }, { pause_between_rounds: "1" });
    assert.ok(web.manager.find(runId) !== undefined);
    await act(web, runId);
    await web.end(runId);
    assert.equal((await web.record(runId)).status, "completed");
  }
});

Deno.test.each([
  { name: "approval without a call_id", path: "approval", body: { approved: true }, status: 422 },
  { name: "a string as approval", path: "approval", body: { call_id: "a", approved: "yes" }, status: 422 },
  { name: "a comment with a wrong type", path: "comment", body: { comment: 7 }, status: 422 },
  { name: "an endless comment", path: "comment", body: { comment: "x".repeat(20_001) }, status: 422 },
  { name: "a huge body", path: "comment", body: { comment: "x".repeat(300_000) }, status: 413 },
  { name: "a comment without a pause", path: "comment", body: {}, status: 409 },
  {
    name: "a decision without a pending call",
    path: "approval",
    body: { call_id: "a", approved: true },
    status: 404,
  },
])("a live run rejects $name", async ({ path, body, status }) => {
  const web = await WebFixture.open({ model: hanging() });
  const runId = await web.start();
  assert.equal((await problemOf(await web.post(`/api/runs/${runId}/${path}`, body))).status, status);
  await web.stop(runId);
  for (const each of ["approval", "comment", "options"]) {
    const valid = each === "approval" ? { call_id: "a", approved: true } : {};
    const { status } = await problemOf(await web.post(`/api/runs/${runId}/${each}`, valid));
    assert.equal(status, each === "approval" ? 410 : 404);
  }
});

Deno.test("a decision on a call of an interrupted run is answered with the end of the run", async () => {
  const killed = await WebFixture.open({ model: withTool(), tools: [new FixedTool(GUARDED_TOOL)] });
  const runId = await killed.start();
  await killed.settle();
  const asked = (await killed.eventsOf(runId, "tool_approval_request"))[0];
  const web = await WebFixture.open({ directory: killed.directory });
  const answer = (id: string) =>
    web.post(`/api/runs/${id}/approval`, { call_id: asked.call_id, approved: true });
  const { status, code, detail } = await problemOf(await answer(runId));
  assert.deepEqual([status, code], [410, "gone"]);
  assert.match(detail, /^The run has ended: /);
  assert.equal((await problemOf(await answer("f".repeat(32)))).status, 404);
  assert.equal((await web.record(runId)).status, "interrupted");
  await killed.stop(runId);
});
