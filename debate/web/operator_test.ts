import assert from "node:assert/strict";
import { CLOSING, CONTINUE, DIAGNOSIS, FixedTool, SHORT_SCRIPT } from "../testing/debate_fixture.ts";
import { createTools } from "../tools/catalogue.ts";
import { BARE_SETTINGS, FakePorts } from "../tools/testing/tool_bench.ts";
import { call, ScriptedModel } from "../testing/scripted_model.ts";
import {
  GUARDED_TOOL,
  openGuarded,
  openRun,
  OWN_SECRET,
  problemOf,
  twoRounds,
  WebFixture,
  withTool,
} from "../testing/web_fixture.ts";

Deno.test("an operator can change the arguments of a call, for that call only", async () => {
  const tool = new FixedTool(GUARDED_TOOL);
  const asks = { toolCalls: [call(GUARDED_TOOL, { args: ["get", "pods"] })] };
  const script = {
    ...SHORT_SCRIPT,
    diagnostic_agent: [asks, DIAGNOSIS, asks, DIAGNOSIS],
    moderator_agent: [CONTINUE, CLOSING],
  };
  const { web, runId } = await openRun({ model: new ScriptedModel(script), tools: [tool] });
  const [asked] = await web.eventsOf(runId, "tool_approval_request");
  const args = { args: ["get", "nodes"] };
  const path = `/api/runs/${runId}/approval`;
  assert.equal((await web.post(path, { call_id: asked.call_id, approved: true, args })).status, 200);
  await web.settle();
  assert.deepEqual(tool.runs, [args]);
  const [resolved] = await web.eventsOf(runId, "tool_approval_resolved");
  assert.deepEqual(resolved.args, args);
  const [called] = await web.eventsOf(runId, "tool_call");
  assert.deepEqual([called.args, called.proposed_args], [args, { args: ["get", "pods"] }]);
  const [, again] = await web.eventsOf(runId, "tool_approval_request");
  assert.deepEqual(again.args, { args: ["get", "pods"] }, "the same call is asked again");
  await web.post(path, { call_id: again.call_id, approved: true, args: { args: ["get", "pods"] } });
  await web.end(runId);
  const [, unchanged] = await web.eventsOf(runId, "tool_call");
  assert.ok(!("proposed_args" in unchanged), "the same arguments are no change");
});

Deno.test("edited arguments are masked for everyone except the tool", async () => {
  const tool = new FixedTool(GUARDED_TOOL);
  const model = withTool();
  const { web, runId } = await openRun({ model, tools: [tool] });
  const [{ call_id }] = await web.eventsOf(runId, "tool_approval_request");
  const args = { args: ["get", OWN_SECRET], header: { password: "hunter2pass" } };
  await web.post(`/api/runs/${runId}/approval`, { call_id, approved: true, args });
  await web.end(runId);
  assert.deepEqual(tool.runs, [args]);
  const shown = { args: ["get", "[REDACTED]"], header: { password: "[REDACTED]" } };
  for (const type of ["tool_approval_resolved", "tool_call_started", "tool_call"]) {
    assert.deepEqual((await web.eventsOf(runId, type))[0].args, shown, type);
  }
  assert.deepEqual(web.audited.map((line) => line.args), [shown]);
  const stored = web.directory.text(`${runId}.json`);
  const told = JSON.stringify(model.requests.map(({ messages }) => messages));
  for (const text of [stored, told]) assert.doesNotMatch(text, /hunter2pass|correct-horse/);
});

Deno.test.each([
  { name: "a program that is not listed", edited: { command: "rm -rf ." } },
  { name: "a file of secrets", edited: { command: "cat .env" } },
  { name: "other arguments than the tool has", edited: { command: "uptime", shell: true } },
])("an operator cannot approve arguments that the tool rejects: $name", async ({ edited }) => {
  const ports = new FakePorts();
  ports.files = { "/srv/app/.env": "/srv/app/.env" };
  const tools = createTools({ ...BARE_SETTINGS }, ports);
  const asks = { toolCalls: [call("run_local_command", { command: "uptime" })] };
  const model = new ScriptedModel({ ...SHORT_SCRIPT, diagnostic_agent: [asks, DIAGNOSIS] });
  const { web, runId } = await openRun({ model, tools });
  const [{ call_id }] = await web.eventsOf(runId, "tool_approval_request");
  await web.post(`/api/runs/${runId}/approval`, { call_id, approved: true, args: edited });
  await web.end(runId);
  const [called] = await web.eventsOf(runId, "tool_call");
  assert.deepEqual([called.error, called.args, ports.runs], [true, edited, []]);
});

Deno.test("an approval for the whole run covers one call, is reported, and is revocable", async () => {
  const tool = new FixedTool(GUARDED_TOOL, { ok: false, text: "not now" });
  const asks = (args: object) => ({ toolCalls: [call(GUARDED_TOOL, args)] });
  const pods = { args: ["get", "pods"], all: true };
  const reordered = { all: true, args: ["get", "pods"] };
  const script = {
    ...SHORT_SCRIPT,
    diagnostic_agent: [
      asks(pods),
      asks(reordered),
      asks({ args: ["get", "pods", "-A"] }),
      asks(pods),
      DIAGNOSIS,
    ],
  };
  const web = await WebFixture.open({
    model: new ScriptedModel(script),
    tools: [tool],
    env: { MAX_CONSECUTIVE_ERRORS: "10" },
  });
  const runId = await web.start();
  await web.settle();
  const answer = (body: object) => web.post(`/api/runs/${runId}/approval`, body);
  const asked = async () => await web.eventsOf(runId, "tool_approval_request");
  const [{ call_id }] = await asked();
  assert.equal((await answer({ call_id, approved: true, for_run: true })).status, 200);
  await web.settle();
  assert.equal(tool.runs.length, 2, "the same call is not asked again");
  const [first, second] = await web.eventsOf(runId, "tool_approval_resolved");
  assert.deepEqual([first.for_run, first.remembered, second.for_run, second.remembered], [
    true,
    undefined,
    undefined,
    true,
  ]);
  const [, wider] = await asked();
  assert.deepEqual(wider.args, { args: ["get", "pods", "-A"] });
  assert.equal((await answer({ call_id: "unknown", approved: false, for_run: true })).status, 404);
  assert.equal((await answer({ call_id, approved: false, for_run: true })).status, 200);
  assert.equal((await answer({ call_id, approved: false, for_run: true })).status, 404, "only once");
  const [revoked] = await web.eventsOf(runId, "tool_approval_revoked");
  assert.deepEqual([revoked.call_id, revoked.tool_name, revoked.args], [call_id, GUARDED_TOOL, pods]);
  assert.equal((await answer({ call_id: wider.call_id, approved: false, for_run: true })).status, 200);
  await web.settle();
  const [, , again] = await asked();
  assert.deepEqual([again.args, tool.runs.length], [pods, 2], "it is asked again");
  await answer({ call_id: again.call_id, approved: false });
  await web.end(runId);
  assert.match(
    await (await web.get(`/api/runs/${runId}/report`)).text(),
    /approved \(by an earlier approval for the whole run\) at/,
  );
});

const deep = () => JSON.parse(`${'{"a":'.repeat(40)}1${"}".repeat(40)}`);

Deno.test.each([
  { name: "with a rejection", body: { approved: false, args: {} } },
  { name: "for the whole run", body: { approved: true, for_run: true, args: {} } },
  { name: "that nest deeply", body: { approved: true, args: deep() } },
  { name: "that are a list", body: { approved: true, args: [] } },
])("changed arguments are rejected $name, and the call stays pending", async ({ body }) => {
  const { web, runId, tool, asked: { call_id } } = await openGuarded();
  const path = `/api/runs/${runId}/approval`;
  assert.equal((await problemOf(await web.post(path, { call_id, ...body }))).status, 422);
  assert.deepEqual([tool.runs, await web.eventsOf(runId, "tool_approval_resolved")], [[], []]);
  assert.equal((await web.post(path, { call_id, approved: false })).status, 200);
  await web.end(runId);
});

Deno.test("an operator drops, pins and adds hypotheses, and agents are notified", async () => {
  const model = twoRounds();
  const { web, runId } = await openRun({ model }, { pause_between_rounds: "true" });
  const waitsFor = async () => (await (await web.get("/api/runs")).json()).runs[0].waits_for;
  assert.equal(await waitsFor(), "comment");
  const path = `/api/runs/${runId}/comment`;
  const unknown = await web.post(path, { changes: [{ kind: "drop", id: "H-9" }] });
  assert.deepEqual((await problemOf(unknown)).detail, 'Field changes: unknown hypothesis "H-9"');
  assert.equal(
    (await problemOf(await web.post(path, { changes: [{ kind: "confirm", id: "1" }] }))).status,
    422,
  );
  const changes = [{ kind: "drop", id: "1" }, { kind: "add", text: `the disk of ${OWN_SECRET}` }];
  assert.equal((await web.post(path, { comment: "look again", changes })).status, 200);
  await web.end(runId);
  assert.equal(await waitsFor(), null);
  const [comment] = await web.eventsOf(runId, "user_comment");
  assert.match(
    comment.content,
    /^look again\ndropped by the operator: 1\nadded by the operator: H-2: the disk of \[/,
  );
  const updates = await web.eventsOf(runId, "hypothesis_update");
  const own = updates.find(({ node }: { readonly node: string }) => node === "user_input_gate");
  const states = own.hypotheses.map(({ id, state }: { id: string; state: string }) => [id, state]);
  assert.deepEqual(states, [["1", "rejected"], ["H-2", "active"]]);
  const told = model.requests.filter(({ round }) => round === 2).map(({ messages }) =>
    messages.at(-1)?.content
  );
  assert.ok(told.every((text) => text?.includes("dropped by the operator: 1")));
  assert.ok(!told.some((text) => text?.includes(OWN_SECRET)));
});

Deno.test("the report of a stopped run contains hypotheses and decision and states that it was stopped", async () => {
  const { web, runId } = await openRun({ model: twoRounds() }, { pause_between_rounds: "true" });
  await web.stop(runId);
  const report = await (await web.get(`/api/runs/${runId}/report`)).text();
  for (
    const said of [
      /\*\*Status:\*\* Stopped/,
      /stopped by the operator/,
      /## Moderator|### .*Moderator/,
      /The connection pool is exhausted/,
    ]
  ) {
    assert.match(report, said);
  }
});
