import assert from "node:assert/strict";
import { DebateProcess, sceneEnv, withHome } from "./debate_scene.ts";

interface Event {
  readonly type: string;
  readonly message?: string;
}

Deno.test("kill -9 in the middle of a run: it is interrupted, keeps what it had, and can be resumed", () =>
  withHome(async (home) => {
    const env = sceneEnv(home);
    let runId: string;
    let before: readonly Event[];
    {
      await using server = await DebateProcess.start(env);
      runId = await server.run({ topic: "memory grows" });
      await server.event(runId, "tool_approval_request");
      before = (await server.json(`/api/runs/${runId}`)).events;
      assert.ok(before.length >= 5);
      await server.stop("SIGKILL");
    }
    await using server = await DebateProcess.start(env);
    const record = await server.json(`/api/runs/${runId}`);
    assert.equal(record.status, "interrupted");
    assert.deepEqual(record.events.slice(0, before.length), before);
    assert.deepEqual(record.events.slice(before.length).map(({ type }: Event) => type), [
      "error",
      "run_finished",
    ]);
    assert.equal((await server.json("/api/runs")).runs[0].status, "interrupted");
    const files = [];
    for await (const { name } of Deno.readDir(`${home}/runs`)) files.push(name);
    assert.deepEqual(files.toSorted(), [".lock", `${runId}.json`, "audit.jsonl"].toSorted());

    const body = new FormData();
    body.append("new_evidence", "the heap is full of carts");
    body.append("require_approval", "false");
    const resumed = await server.json(`/api/runs/${runId}/resume`, { method: "POST", body });
    await server.event(resumed.run_id, "run_finished");
    assert.equal((await server.json(`/api/runs/${resumed.run_id}`)).parent_run_id, runId);
    assert.equal((await server.stop()).code, 0);
  }));

Deno.test("a stream is resumed where it broke off, over a restart too", () =>
  withHome(async (home) => {
    const env = sceneEnv(home);
    let runId: string;
    {
      await using server = await DebateProcess.start(env);
      runId = await server.run({ topic: "memory grows" });
      await server.event(runId, "tool_approval_request");
      const response = await fetch(`${server.url}/api/runs/${runId}/events`, {
        headers: { "last-event-id": "2" },
      });
      const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      while (!text.includes("tool_approval_request")) text += (await reader.read()).value;
      assert.match(text, /^retry: 1000\n\nid: (?:2\.1|3)\n/);
      await reader.cancel();
      // A stop leaves the run as a kill does, and ends the streams.
      assert.equal((await server.stop()).code, 0);
    }
    await using server = await DebateProcess.start(env);
    const response = await fetch(`${server.url}/api/runs/${runId}/events`, {
      headers: { "last-event-id": "2" },
    });
    const text = await response.text();
    assert.match(text, /^retry: 1000\n\nid: 3\n/);
    assert.match(text, /"type":"run_finished","status":"interrupted"/);
  }));

Deno.test("an upload over the limit is refused while it comes, and a path outside of the roots", () =>
  withHome(async (home) => {
    await using server = await DebateProcess.start(sceneEnv(home, { MAX_UPLOAD_BYTES: "100000" }));
    const upload = async (bytes: number) => {
      const body = new FormData();
      body.append("topic", "x");
      body.append("incident_file", new File(["x".repeat(bytes)], "big.log"));
      const response = await fetch(`${server.url}/api/runs`, { method: "POST", body });
      return { status: response.status, body: await response.json() };
    };
    for (const bytes of [100_001, 1_400_000, 30_000_000]) {
      const { status, body } = await upload(bytes);
      assert.equal(status, 413);
      assert.match(body.detail, /larger than \d+ bytes/);
    }
    await Deno.symlink("/etc", `${home}/project/link`);
    for (const project_path of ["/etc", `${home}/project/../..`, `${home}/project/link`]) {
      const body = new FormData();
      body.append("topic", "x");
      body.append("project_path", project_path);
      const response = await fetch(`${server.url}/api/runs`, { method: "POST", body });
      assert.equal(response.status, 400);
      await response.body?.cancel();
    }
    assert.deepEqual((await server.json("/api/runs")).runs, []);
    assert.equal((await upload(100_000)).status, 200);
  }));

Deno.test("a server that everybody could use does not start", () =>
  withHome(async (home) => {
    const env = sceneEnv(home, { WEB_HOST: "0.0.0.0" });
    await assert.rejects(DebateProcess.start(env), /Cannot listen on "0\.0\.0\.0" without credentials/);
    await assert.rejects(DebateProcess.start(sceneEnv(home, { WEB_USERNAME: "ann" })), /WEB_PASSWORD/);
  }));

Deno.test("a second server on the same data does not start", () =>
  withHome(async (home) => {
    await using server = await DebateProcess.start(sceneEnv(home));
    await assert.rejects(DebateProcess.start(sceneEnv(home)), /another server is using it/);
    assert.equal((await server.stop()).code, 0);
  }));
