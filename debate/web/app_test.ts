import assert from "node:assert/strict";
import { DEBATE_ROUTES, OPERATIONS } from "./routes.ts";
import { ModelError } from "../engine/ports.ts";
import { MemoryDirectory } from "../testing/memory_directory.ts";
import { hanging, openRun, problemOf, readFrames, type Typed, WebFixture } from "../testing/web_fixture.ts";
import { forDebaters } from "../settings/config.ts";
import runForm from "./run_form.ts" with { type: "text" };
import runHandlers from "./run_handlers.ts" with { type: "text" };
import settingsHandlers from "./settings_handlers.ts" with { type: "text" };
import { gzipSync } from "node:zlib";
import { PAGE_FILES } from "./page_files.ts";

const UNKNOWN = "f".repeat(32);

Deno.test("POST /api/runs starts a debate and stores its record", async () => {
  const web = await WebFixture.open();
  const runId = await web.startAndEnd({ base_context: new File(["password=hunter22x"], "dir/base.txt") });
  assert.match(runId, /^[0-9a-f]{32}$/);
  const record = JSON.parse(web.directory.text(`${runId}.json`));
  assert.deepEqual(await web.record(runId), record);
  assert.deepEqual(
    Object.keys(record),
    ("run_id status conclusion topic timestamp models reasoning_effort template language parent_run_id finished_at " +
      "duration_seconds token_totals cost_estimate schema_version context " +
      "context_redactions context_notes final_result decision hypotheses round_log tool_calls_log " +
      "events").split(" "),
  );
  assert.equal(record.status, "completed");
  assert.match(record.context, /File: base\.txt/);
  assert.doesNotMatch(record.context, /hunter22x/);
  assert.equal(record.events.at(-1).type, "run_finished");
  assert.equal(record.events.at(-1).status, "completed");
  const types = new Set(record.events.map((event: Typed) => event.type));
  assert.ok(!types.has("agent_delta") && !types.has("agent_turn_started"));
  assert.ok(!web.directory.files.has(`${runId}.events.jsonl`));
});

Deno.test("GET /api/runs lists runs, newest first, with every field", async () => {
  const web = await WebFixture.open();
  const first = await web.startAndEnd();
  await web.clock.advance(5000);
  const second = await web.startAndEnd({ topic: "another" });
  const { runs } = await (await web.get("/api/runs")).json();
  assert.deepEqual(runs.map((run: { run_id: string }) => run.run_id), [second, first]);
  assert.deepEqual(
    Object.keys(runs[0]).toSorted(),
    ("conclusion cost_estimate duration_seconds finished_at imported imported_at language models " +
      "parent_run_id problem run_id status template timestamp title token_totals topic waits_for").split(" "),
  );
});

Deno.test.each([
  { name: "without a topic", fields: {}, status: 422, detail: /^Field topic: is required/ },
  { name: "with an empty topic", fields: { topic: "  " }, status: 422, detail: /^Field topic: is required/ },
  {
    name: "with an unknown model",
    fields: { topic: "x", skeptic_model: "gpt" },
    detail: /^Field skeptic_model: .*hub\//,
  },
  {
    name: "with max_files 0",
    fields: { topic: "x", max_files: "0" },
    detail: /^Field max_files: must be/,
  },
  {
    name: "with a malformed number",
    fields: { topic: "x", max_files: "1e3" },
    status: 422,
    detail: /^Field max_files: must be/,
  },
  {
    name: "with an unknown reasoning effort",
    fields: { topic: "x", moderator_reasoning_effort: "huge" },
    detail: /^Field moderator_reasoning_effort: must be none/,
  },
  {
    name: "with a binary file",
    fields: { topic: "x", incident_file: new File([new Uint8Array([0xff, 0xfe])], "core") },
    detail: /"core".*UTF-8/,
  },
  {
    name: "with a project outside the roots",
    fields: { topic: "x", project_path: "/etc" },
    detail: /ALLOWED_PROJECT_ROOTS|root/i,
  },
])("POST /api/runs rejects a form $name", async ({ fields, detail, status = 400 }) => {
  const web = await WebFixture.open();
  const problem = await problemOf(await web.form("/api/runs", fields as Record<string, string>));
  assert.equal(problem.status, status);
  assert.match(problem.detail, detail);
  assert.equal(web.directory.files.size, 0);
});

Deno.test("POST /api/runs returns 413 for a file over the limit", async () => {
  const web = await WebFixture.open({ env: { MAX_UPLOAD_BYTES: "1000" } });
  const fits = await web.form("/api/runs", { topic: "x", incident_file: new File(["x".repeat(1000)], "a") });
  assert.equal(fits.status, 200);
  const problem = await problemOf(
    await web.form("/api/runs", { topic: "x", incident_file: new File(["x".repeat(1001)], "a") }),
  );
  assert.equal(problem.status, 413);
  assert.match(problem.detail, /"a" is larger than 1000 bytes/);
});

Deno.test("POST /api/runs returns 415 for a body that is not a form", async () => {
  const web = await WebFixture.open();
  assert.equal((await problemOf(await web.post("/api/runs", { topic: "x" }))).status, 415);
});

Deno.test.each([
  { name: "GET of a run", method: "GET", path: `/api/runs/${UNKNOWN}` },
  { name: "GET of a report", method: "GET", path: `/api/runs/${UNKNOWN}/report` },
  { name: "a path with ..", method: "GET", path: "/api/runs/..%2F..%2Fetc%2Fpasswd" },
  { name: "an id with a suffix", method: "GET", path: `/api/runs/${UNKNOWN}.json` },
  { name: "an id in capitals", method: "DELETE", path: `/api/runs/${UNKNOWN.toUpperCase()}` },
  { name: "another name of the data directory", method: "DELETE", path: "/api/runs/audit.jsonl" },
  { name: "a path", method: "GET", path: "/api/nothing" },
])("$name returns 404 if it does not exist", async ({ method, path }) => {
  const web = await WebFixture.open();
  assert.equal((await problemOf(await web.send(method, path))).status, 404);
});

Deno.test("every route returns 405 for an unknown method and lists its methods", async () => {
  const web = await WebFixture.open();
  for (const [path, methods] of Object.entries(DEBATE_ROUTES)) {
    const response = await web.send("PUT", path.replace(/:run_id\{.*\}/, UNKNOWN));
    assert.equal(response.status, 405, path);
    assert.equal(response.headers.get("allow"), Object.keys(methods).join(", "), path);
  }
});

Deno.test("DELETE removes a finished run and succeeds if none exists", async () => {
  const web = await WebFixture.open();
  const runId = await web.startAndEnd();
  for (let count = 0; count < 2; count++) {
    assert.deepEqual(await (await web.send("DELETE", `/api/runs/${runId}`)).json(), { status: "deleted" });
  }
  assert.equal(web.directory.files.size, 0);
  assert.deepEqual(await (await web.get("/api/runs")).json(), { runs: [] });
  assert.equal((await web.get(`/api/runs/${runId}`)).status, 404);
});

Deno.test("the report is a Markdown download, also for a live run", async () => {
  const { web, runId } = await openRun({ model: hanging() });
  const response = await web.get(`/api/runs/${runId}/report`);
  assert.equal(response.headers.get("content-type"), "text/markdown; charset=utf-8");
  assert.equal(
    response.headers.get("content-disposition"),
    `attachment; filename="diagnosis-${runId.slice(0, 8)}.md"`,
  );
  assert.match(
    await response.text(),
    /^# Diagnosis report: checkout answers slowly\n[^]*\*\*Status:\*\* Running/,
  );
  await web.stop(runId);
});

Deno.test("damaged and incomplete records never break the list", async () => {
  const directory = new MemoryDirectory({
    [`${"a".repeat(32)}.json`]: '{"run_id": "a',
    [`${"b".repeat(32)}.json`]: "[1, 2]",
    [`${"c".repeat(32)}.json`]: "",
    [`${"d".repeat(32)}.json`]: '{"topic": "by hand", "events": 7, "models": "x"}',
    [`${"e".repeat(32)}.json`]: "null",
    "readme.json": "{}",
  });
  const web = await WebFixture.open({ directory });
  const { runs } = await (await web.get("/api/runs")).json();
  assert.deepEqual(
    runs.map(({ run_id, topic, status }: Record<string, unknown>) => [run_id, topic, status]),
    [
      ["d".repeat(32), "by hand", null],
    ],
  );
  assert.match((await problemOf(await web.get(`/api/runs/${"a".repeat(32)}`))).detail, /damaged/);
  const frames = readFrames(await (await web.get(`/api/runs/${"b".repeat(32)}/events`)).text());
  assert.deepEqual(frames.map(({ data }) => data.type), ["error"]);
  assert.equal((await web.get(`/api/runs/${"d".repeat(32)}/report`)).status, 200);
});

Deno.test("a run without an available model ends with an error message", async () => {
  const web = await WebFixture.open({ model: new ModelError("auth", "There is no token: set HUB_TOKEN") });
  const runId = await web.startAndEnd();
  const { status, events } = await web.record(runId);
  assert.equal(status, "error");
  assert.deepEqual(events.map(({ type }: Typed) => type), ["error", "run_finished"]);
  assert.equal(events[0].message, "There is no token: set HUB_TOKEN");
  const { runs: [listed] } = await (await web.get("/api/runs")).json();
  assert.equal(listed.problem, "There is no token: set HUB_TOKEN");
  assert.deepEqual(web.failures, [`run ${runId} failed: There is no token: set HUB_TOKEN`]);
});

Deno.test("an unexpected error is reported only to the operator", async () => {
  const web = await WebFixture.open({ model: new TypeError("secret inside") });
  const { events } = await web.record(await web.startAndEnd());
  assert.equal(events[0].message, "The run failed unexpectedly");
  assert.deepEqual(web.warnings, []);
  assert.match(
    web.failures.join("\n"),
    /^run [0-9a-f]{32} failed: TypeError\nrun [0-9a-f]{32} failed: The run failed unexpectedly$/,
  );
  assert.doesNotMatch(web.failures.join(), /secret inside/);
});

const LOGIN = { WEB_USERNAME: "ann", WEB_PASSWORD: "se:cret ü" };

function basic(text: string): string {
  return `Basic ${new TextEncoder().encode(text).toBase64()}`;
}

Deno.test.each([
  { name: "the page", method: "GET", path: "/" },
  { name: "a file of the page", method: "GET", path: "/static/app.js" },
  { name: "the list", method: "GET", path: "/api/runs" },
  { name: "a start", method: "POST", path: "/api/runs" },
  { name: "events", method: "GET", path: `/api/runs/${UNKNOWN}/events` },
  { name: "a report", method: "GET", path: `/api/runs/${UNKNOWN}/report` },
  { name: "an unknown path", method: "GET", path: "/nothing" },
])("$name requires credentials", async ({ method, path }) => {
  const web = await WebFixture.open({ env: LOGIN });
  for (
    const authorization of [
      "",
      basic("ann:wrong"),
      basic("ann:"),
      "Basic %%%",
      "Bearer x",
      basic("bob:se:cret ü"),
    ]
  ) {
    const response = await web.send(method, path, authorization === "" ? {} : { headers: { authorization } });
    assert.match(response.headers.get("www-authenticate") ?? "", /^Basic realm=/);
    assert.equal((await problemOf(response)).status, 401);
  }
  const response = await web.send(method, path, { headers: { authorization: basic("ann:se:cret ü") } });
  assert.notEqual(response.status, 401);
  await response.body?.cancel();
});

Deno.test("GET /healthz needs no credentials and no host name", async () => {
  const web = await WebFixture.open({ env: LOGIN });
  const response = await web.get("/healthz", { host: "10.0.0.7" });
  assert.equal(response.status, 200);
  assert.equal(await response.text(), "ok\n");
  assert.equal((await web.send("HEAD", "/healthz")).status, 200);
  const refused = await web.send("POST", "/healthz");
  assert.deepEqual([refused.status, refused.headers.get("allow")], [405, "GET"]);
});

Deno.test.each([
  { name: "loopback by address", host: "127.0.0.1:8000", status: 200 },
  { name: "loopback by name", host: "localhost:8000", status: 200 },
  { name: "loopback in IPv6", host: "[::1]:8000", status: 200 },
  { name: "another name for our address", host: "evil.example:8000", status: 403 },
  { name: "a name with loopback as its prefix", host: "127.0.0.1.evil.example", status: 403 },
  { name: "loopback as a user", host: "localhost@evil.example", status: 403 },
])("without credentials, $name receives $status", async ({ host, status }) => {
  const web = await WebFixture.open();
  assert.equal((await web.get("/api/runs", { host })).status, status);
  const open = await WebFixture.open({ env: { WEB_ALLOW_OPEN: "true" } });
  assert.equal((await open.get("/api/runs", { host })).status, 200);
});

Deno.test.each([
  { name: "a program", headers: {}, status: 200 },
  {
    name: "our page",
    headers: { origin: "http://127.0.0.1:8000", "sec-fetch-site": "same-origin" },
    status: 200,
  },
  { name: "our page behind a proxy", headers: { origin: "https://127.0.0.1:8000" }, status: 200 },
  { name: "a page of another site", headers: { origin: "http://evil.example" }, status: 403 },
  { name: "a page of another port", headers: { origin: "http://127.0.0.1:9000" }, status: 403 },
  { name: "a page of nowhere", headers: { origin: "null" }, status: 403 },
  { name: "a form of another site", headers: { "sec-fetch-site": "cross-site" }, status: 403 },
])("a change by $name returns $status", async ({ headers, status }) => {
  const web = await WebFixture.open();
  assert.equal(
    (await web.send("DELETE", `/api/runs/${UNKNOWN}`, { headers: headers as HeadersInit })).status,
    status,
  );
});

Deno.test("every response has the security headers", async () => {
  const web = await WebFixture.open();
  for (const path of ["/", "/static/app.js", "/api/runs", "/nothing", `/api/runs/${UNKNOWN}/events`]) {
    const { headers, body } = await web.get(path);
    assert.equal(headers.get("x-content-type-options"), "nosniff");
    assert.equal(headers.get("x-frame-options"), "DENY");
    assert.equal(headers.get("referrer-policy"), "no-referrer");
    const policy = headers.get("content-security-policy") ?? "";
    assert.match(policy, /^default-src 'none';.*frame-ancestors 'none'$/);
    assert.doesNotMatch(policy, /unsafe/);
    await body?.cancel();
  }
});

Deno.test("the OpenAPI document describes exactly the form fields that the handlers read", () => {
  const read = [runForm, runHandlers, settingsHandlers].flatMap((source) =>
    [...source.matchAll(/\bread\w+\(\s*form,\s*["`]([\w${}]+)["`]|form\.files\.get\("(\w+)"\)/g)].flatMap((
      [, one, other = ""],
    ) => Object.values(forDebaters((role) => (one ?? other).replace("${role}", role))))
  );
  const described = Object.values(OPERATIONS).flatMap(({ form = {} }) => Object.keys(form));
  assert.deepEqual([...new Set(described)].toSorted(), [...new Set(read)].toSorted());
});

Deno.test("GET /api/openapi.json is an OpenAPI 3.1 document with the checked schemas", async () => {
  const web = await WebFixture.open();
  const response = await web.get("/api/openapi.json");
  assert.equal(response.status, 200);
  const { openapi, paths } = await response.json();
  assert.equal(openapi, "3.1.0");
  for (
    const [path, { parameters = [] }] of Object.entries<{ parameters?: readonly { name: string }[] }>(paths)
  ) {
    assert.deepEqual(parameters.map(({ name }) => `{${name}}`), path.match(/\{\w+\}/g) ?? [], path);
  }
  const approval = paths["/api/runs/{run_id}/approval"].post;
  const { schema } = approval.requestBody.content["application/json"];
  assert.deepEqual(schema.required, ["call_id", "approved"]);
  assert.deepEqual(Object.keys(approval.responses).join(" "), "200 401 403 404 410 413 415 422 429 500");
  const start = paths["/api/runs"].post.requestBody.content["multipart/form-data"].schema;
  assert.deepEqual(start.required, ["topic"]);
});

Deno.test("the page and all its files have less than 150 KB in compressed form", () => {
  const sizes = [...PAGE_FILES.values()].map(({ text }) => gzipSync(text).length);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  assert.ok(total < 150_000, `${total} bytes`);
});

Deno.test("every module and style of the page exists", () => {
  const named = [...PAGE_FILES].flatMap(([path, { text }]) =>
    path.startsWith("/static/") && !path.endsWith("markdown-it.js")
      // A type import in a comment names a module that no browser requests.
      ? [...text.replace(/\/\*[^]*?\*\//g, "").matchAll(/from "\.\/([\w-]+\.js)"/g)].map(([, name]) =>
        `/static/${name}`
      )
      : path === "/"
      ? [...text.matchAll(/(?:href|src)="(\/static\/[^"]+)"/g)].map(([, name]) => name ?? "")
      : []
  );
  assert.deepEqual(named.filter((path) => !PAGE_FILES.has(path)), []);
});
