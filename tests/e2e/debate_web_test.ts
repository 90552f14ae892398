import assert from "node:assert/strict";
import { DebateProcess, sceneEnv, withHome } from "./debate_scene.ts";
import { inFolder, runDebate } from "./debate_program.ts";
import { names } from "../adapters/ctl_fixture.ts";
import { freePort } from "../stage/free_port.ts";
import { ROOT } from "../stage/service_command.ts";

interface Event {
  readonly type: string;
  readonly message?: string;
}

Deno.test("kill -9 interrupts a run, which keeps its events and can be resumed", () =>
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

Deno.test("a stream continues after its last event, also after a restart", () =>
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
      // A stop has the same effect on a run as a kill, and ends the streams.
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

Deno.test("an upload over the limit is rejected early, and a path outside the roots as well", () =>
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

Deno.test("a server without credentials does not start on a public address", () =>
  withHome(async (home) => {
    const env = sceneEnv(home, { WEB_HOST: "0.0.0.0" });
    await assert.rejects(DebateProcess.start(env), /Cannot listen on "0\.0\.0\.0" without credentials/);
    await assert.rejects(DebateProcess.start(sceneEnv(home, { WEB_USERNAME: "ann" })), /WEB_PASSWORD/);
  }));

Deno.test("MONITOR_LISTEN serves metrics to any client, and the page needs its password for every other route", () =>
  withHome(async (home) => {
    const listen = `127.0.0.1:${freePort()}`;
    const more = { MONITOR_LISTEN: listen, WEB_USERNAME: "ann", WEB_PASSWORD: "long-password" };
    await using server = await DebateProcess.start(sceneEnv(home, more));
    const headers = { origin: "https://evil.example" };
    for (const query of ["", `?${"a".repeat(10_000)}`]) {
      const response = await fetch(`http://${listen}/metrics${query}`, { headers });
      const text = await response.text();
      assert.match(text, /^debate_runs_in_progress 0$/m);
      assert.match(text, /^gateway_build_info\{service="debate",/m);
      assert.doesNotMatch(text, /long-password/);
    }
    const head = await fetch(`http://${listen}/metrics`, { method: "HEAD" });
    assert.deepEqual([head.status, await head.text()], [200, ""]);
    assert.equal((await fetch(`http://${listen}/api/runs`)).status, 404);
    for (const method of ["GET", "HEAD", "POST"]) {
      for (const path of ["/metrics", "/api/schema/run", `/api/openapi.json?${"a".repeat(10_000)}`]) {
        const response = await fetch(`${server.url}${path}`, { method, headers });
        await response.body?.cancel();
        assert.equal(response.status, 401, `${method} ${path.slice(0, 40)}`);
      }
    }
    assert.equal((await server.stop()).code, 0);
  }));

Deno.test("a second server on the same directory does not start", () =>
  withHome(async (home) => {
    await using server = await DebateProcess.start(sceneEnv(home));
    await assert.rejects(DebateProcess.start(sceneEnv(home)), /another server is using it/);
    assert.equal((await server.stop()).code, 0);
  }));

const lab = (args: readonly string[], folder: string, env: Readonly<Record<string, string>> = {}) =>
  runDebate(args, folder, env, "debate/lab/main.ts");

const MODEL = "replay/memory_leak";
const MODELS = { DIAGNOSTIC_MODEL: MODEL, SKEPTIC_MODEL: MODEL, MODERATOR_MODEL: MODEL };
const SHORT = ["--runs", "1", "--only", "public_holiday", "--only", "poison_message"];

Deno.test("debate:lab runs a registered protocol and no other, and writes the result", () =>
  inFolder(async (folder) => {
    const registered = await lab([...SHORT, "--register"], folder, MODELS);
    const { protocol_sha256: hash, protocol } = JSON.parse(registered.out);
    assert.equal(protocol.runs, 1);
    assert.equal(registered.err, "");
    const run = [...SHORT, "--run", "--expect", hash];
    assert.equal((await lab([...run, "--arm", "single"], folder, MODELS)).code, 2);
    const other = await lab(run, folder, { ...MODELS, MAX_TOOL_CALLS_PER_AGENT: "3" });
    assert.match(other.err, /The SHA-256 of the protocol is [0-9a-f]{64}, not the expected one/);
    const { code, out, err } = await lab([...run, "--output", "r.json"], folder, MODELS);
    assert.equal(code, 0, err);
    assert.match(out, /^(?:Note: .*\n)+2 incidents, 1 run each/);
    assert.match(out, /debate_three against single: right 0 points \(0 to 0\), no difference shown$/m);
    assert.match(err, /\n12\/12 public_holiday blind 1: wrong at 0\./);
    const { arms, trials } = JSON.parse(await Deno.readTextFile(`${folder}/r.json`));
    assert.deepEqual([arms.length, trials.length], [6, 12]);
  }));

/** The command line of the demo. */
function demoOf(args: readonly string[]): string[] {
  const permissions = "read write net=127.0.0.1 run env sys".split(" ").map((name) => `--allow-${name}`);
  const words = ["run", "-q", "--no-prompt", "--cached-only", ...permissions];
  return [...words, `${ROOT}tests/demo_debate/main.ts`, ...args];
}

/** Starts the demo with its temporary directory in the given directory. */
async function play(args: readonly string[], folder: string) {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: demoOf(args),
    env: { TMPDIR: folder },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).output();
  return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
}

// An adapter test runs the other scenarios with their tools.
Deno.test("the demo plays memory_leak with working tools and removes its files", () =>
  inFolder(async (folder) => {
    const { code, out, err } = await play(["--scenario", "memory_leak"], folder);
    assert.equal(code, 0, err);
    assert.match(out, /^Final result\n/);
    assert.match(out, /debate:demo --serve --scenario memory_leak\n$/);
    assert.match(err, /< ok, \d+ ms\n/);
    assert.doesNotMatch(err, /< failed/);
    assert.deepEqual(await names(folder), []);
  }));

Deno.test("the demo lists the scenarios", () =>
  inFolder(async (folder) => {
    const { code, err } = await play(["--scenario", "gone"], folder);
    assert.equal(code, 2);
    assert.match(
      err,
      /cannot play scenario "gone": choose one of certificate_expired, memory_leak, slow_query/,
    );
  }));

Deno.test("the demo in a browser shows the run and removes its files", () =>
  inFolder(async (folder) => {
    const port = freePort();
    const demo = new Deno.Command(Deno.execPath(), {
      args: demoOf(["--serve"]),
      env: { TMPDIR: folder, WEB_PORT: String(port) },
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const reader = demo.stdout.pipeThrough(new TextDecoderStream()).getReader();
    let out = "";
    const link = /http:\/\/127\.0\.0\.1:\d+\/#\/runs\/([0-9a-f]{32})\n/;
    while (!link.test(out)) {
      const { value, done } = await reader.read();
      assert.equal(done, false, out);
      out += value ?? "";
    }
    const [, id = ""] = link.exec(out) ?? [];
    const run = await (await fetch(`http://127.0.0.1:${port}/api/runs/${id}`)).json();
    assert.match(run.topic, /checkout-api|memory/i);
    demo.kill("SIGTERM");
    assert.equal((await demo.status).code, 0);
    await reader.cancel();
    assert.deepEqual(await names(folder), []);
  }));
