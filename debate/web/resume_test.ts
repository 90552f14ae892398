import assert from "node:assert/strict";
import { SHORT_SCRIPT } from "../testing/debate_fixture.ts";
import { ScriptedModel } from "../testing/scripted_model.ts";
import { hanging, problemOf, WebFixture } from "../testing/web_fixture.ts";

const UNKNOWN = "f".repeat(32);

interface Typed {
  readonly type: string;
}

Deno.test("a run is resumed with new evidence, from its history and hypotheses", async () => {
  const model = new ScriptedModel(SHORT_SCRIPT);
  const web = await WebFixture.open({ model });
  const parent = await web.startAndEnd({ incident_file: new File(["it hangs"], "incident.md") });
  const before = model.requests.length;
  const response = await web.form(`/api/runs/${parent}/resume`, {
    new_evidence: "the pool was full; token=abcdef123456",
    evidence_file: new File(["graph"], "graph.txt"),
  });
  const { run_id } = await response.json();
  await web.end(run_id);
  const record = await web.record(run_id);
  assert.equal(record.parent_run_id, parent);
  assert.equal(record.parent_topic, "checkout answers slowly");
  assert.match(record.context, /it hangs[^]*the pool was full[^]*graph\.txt/);
  assert.doesNotMatch(record.context, /abcdef123456/);
  assert.deepEqual(record.events.slice(0, 2).map(({ type }: Typed) => type), [
    "run_resumed",
    "run_started",
  ]);
  assert.ok(JSON.stringify(model.requests[before]?.messages).includes("Measure the pool."));
});

Deno.test("a resume is refused: 400 without evidence, 404 for no run, 409 for a live one", async () => {
  const web = await WebFixture.open();
  const parent = await web.startAndEnd();
  const status = async (path: string, fields: Record<string, string>) =>
    (await problemOf(await web.form(path, fields))).status;
  assert.equal(await status(`/api/runs/${parent}/resume`, { new_evidence: " " }), 400);
  assert.equal(await status(`/api/runs/${UNKNOWN}/resume`, { new_evidence: "x" }), 404);
  const live = await WebFixture.open({ model: hanging() });
  const runId = await live.start();
  assert.equal(
    (await problemOf(await live.form(`/api/runs/${runId}/resume`, { new_evidence: "x" }))).status,
    409,
  );
  await live.send("DELETE", `/api/runs/${runId}`);
  await live.end(runId);
});

Deno.test("two runs with the same evidence at once are two runs", async () => {
  const web = await WebFixture.open();
  const parent = await web.startAndEnd();
  const answers = await Promise.all(
    [1, 2].map(async () =>
      await (await web.form(`/api/runs/${parent}/resume`, { new_evidence: "same" })).json()
    ),
  );
  const [one, two] = answers.map(({ run_id }) => run_id);
  assert.notEqual(one, two);
  await Promise.all([web.end(one), web.end(two)]);
  for (const id of [one, two]) assert.equal((await web.record(id)).status, "completed");
  assert.equal((await (await web.get("/api/runs")).json()).runs.length, 3);
});

Deno.test("a run does not expire while it is being resumed", async () => {
  const web = await WebFixture.open();
  const parent = await web.startAndEnd();
  const { folder, store } = web;
  const read = folder.read.bind(folder);
  const tried: boolean[] = [];
  folder.read = async (name) => {
    tried.push(await store.expire(parent, Infinity));
    return await read(name);
  };
  const response = await web.form(`/api/runs/${parent}/resume`, { new_evidence: "more" });
  await web.end((await response.json()).run_id);
  assert.deepEqual([response.status, tried], [200, [false]]);
  assert.equal(await store.expire(parent, Infinity), true);
});
