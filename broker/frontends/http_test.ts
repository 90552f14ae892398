import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { callerFromCertificate, problemResponse } from "@gateway/shared/http";
import { escapeKey, refusedMethods } from "@gateway/shared/testing";
import type { SignAnswer } from "../authority/authority.ts";
import { atBastion, connectionFailure, executionFailure, socketFailure } from "../ssh/failures.ts";
import { BrokerFixture } from "../testing/broker_fixture.ts";
import { ISSUED_UPTIME, SERIAL } from "../testing/fake_authority.ts";
import { hangUntilAborted, printed } from "../testing/fake_runner.ts";
import { BROKER_ROUTES, createHttpFrontend } from "./http.ts";
import { LIST, McpHttpFixture } from "../testing/mcp_http_fixture.ts";
import { accepts } from "./mcp_http.ts";

const caller = callerFromCertificate(true, "agent-1");

/** Sends a request as the listener does: a thrown error becomes a response. */
async function send(
  broker: BrokerFixture,
  path: string,
  init: RequestInit,
  runCallers?: readonly string[],
): Promise<Response> {
  if (caller === undefined) throw new TypeError("agent-1 is a good CN");
  try {
    const answer = createHttpFrontend({ ...broker, runCallers });
    return await answer(new Request(`https://localhost${path}`, init), { caller });
  } catch (error) {
    return problemResponse(error);
  }
}

function post(body: unknown, init: RequestInit = {}): RequestInit {
  return {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: typeof body === "string" || body instanceof Blob ? body : JSON.stringify(body),
    ...init,
  };
}

async function problemOf(response: Response) {
  assert.equal(response.headers.get("content-type"), "application/problem+json");
  const { status, detail, code } = await response.json();
  assert.equal(status, response.status);
  return { status, detail, code };
}

Deno.test("POST /v1/ssh_run returns the output and the exact serial", async () => {
  const broker = new BrokerFixture();
  broker.runner.answer = () => printed("o\n", { stderr: "e", exitCode: 3 });
  const response = await send(broker, "/v1/ssh_run", post({ host: "web01", command: "uptime", unknown: 1 }));
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "application/json");
  assert.equal(await response.text(), `{"stdout":"o\\n","stderr":"e","exit_code":3,"serial":${SERIAL}}`);
  assert.equal(broker.authority.requests[0]?.end_user, "agent-1");
  assert.equal(broker.log.entries[0]?.caller, "agent-1");
});

Deno.test.each<{ name: string; runCallers: readonly string[]; status: number }>([
  { name: "runs for a caller in run_callers", runCallers: ["agent-1"], status: 200 },
  { name: "answers 403 to a caller in another spelling", runCallers: ["Agent-1"], status: 403 },
  { name: "answers 403 to every caller if run_callers is empty", runCallers: [], status: 403 },
])("POST /v1/ssh_run $name", async ({ runCallers, status }) => {
  const broker = new BrokerFixture();
  const response = await send(broker, "/v1/ssh_run", post({ host: "web01", command: "id" }), runCallers);
  assert.equal(response.status, status);
  assert.equal(broker.authority.requests.length, status === 200 ? 1 : 0);
  if (status === 200) return;
  const err = "caller is not in run_callers of the broker's config";
  assert.deepEqual(await problemOf(response), { status, detail: err, code: "forbidden" });
  const [record] = broker.log.entries;
  const { caller, host, command, outcome } = record ?? {};
  assert.deepEqual({ caller, host, command, outcome, err: record?.err }, {
    ...{ caller: "agent-1", host: "web01", command: "id" },
    ...{ outcome: "denied", err },
  });
});

Deno.test("POST /v1/ssh_run forwards ttl_seconds, sudo, sudo_user and pty to the authority", async () => {
  const broker = new BrokerFixture();
  const body = { host: "web01", command: "id", ttl_seconds: 30, sudo: true, sudo_user: "app", pty: true };
  assert.equal((await send(broker, "/v1/ssh_run", post(body))).status, 200);
  const [request] = broker.authority.requests;
  assert.deepEqual(
    [request?.ttl_seconds, request?.sudo, request?.sudo_user, request?.pty],
    [30, true, "app", true],
  );
});

Deno.test("POST /v1/ssh_run forwards the reason and rejects more than 500 characters", async () => {
  const broker = new BrokerFixture();
  const run = (reason: string) => send(broker, "/v1/ssh_run", post({ host: "web01", command: "id", reason }));
  assert.equal((await run("ticket 42")).status, 200);
  assert.equal(broker.authority.requests[0]?.reason, "ticket 42");
  const { status, detail } = await problemOf(await run("x".repeat(501)));
  assert.deepEqual([status, detail], [400, "invalid reason: more than 500 characters"]);
});

Deno.test("POST /v1/ssh_run parses each body independently of earlier bodies", async () => {
  const broker = new BrokerFixture();
  const text = JSON.stringify({ ...body, sudo: true, sudo_user: "app" });
  const escaped = escapeKey(text, "sudo_user");
  assert.equal((await send(broker, "/v1/ssh_run", post(escaped.before))).status, 200);
  assert.equal((await send(broker, "/v1/ssh_run", post(escaped.text))).status, 200);
  assert.deepEqual(broker.authority.requests.map(({ sudo_user }) => sudo_user), [undefined, "app"]);
});

Deno.test("POST /v1/ssh_run returns the warnings of an audit-mode policy", async () => {
  const broker = new BrokerFixture();
  const decision = { allowed: true, warning: "w" };
  broker.authority.answer = () => ({ ...ISSUED_UPTIME, serial: 7n, decision });
  const response = await send(broker, "/v1/ssh_run", post({ host: "web01", command: "id" }));
  assert.deepEqual((await response.json()).warnings, ["w"]);
});

const body = { host: "web01", command: "uptime" };

Deno.test.each<[name: string, status: number, init: RequestInit, code: string, more: { detail?: string }]>([
  ["broken JSON", 400, post("{"), "invalid_request", {}],
  ["a truncated body", 400, post('{"host":"web01","comm'), "invalid_request", {}],
  ["an empty body", 400, post(""), "invalid_request", {}],
  ["a list", 400, post([]), "invalid_request", {}],
  ["no host", 400, post({ command: "x" }), "invalid_request", {}],
  ["no command", 400, post({ host: "web01" }), "invalid_request", {}],
  ["a command of another type", 400, post({ ...body, command: 7 }), "invalid_request", {}],
  ["bytes that are not UTF-8", 400, post(new Blob([Uint8Array.of(0x7b, 0xff)])), "invalid_request", {}],
  ["an empty command", 400, post({ ...body, command: "" }), "invalid_request", {
    detail: "bad request: command is required",
  }],
  ["a NUL in the host", 400, post({ ...body, host: "web01\0" }), "invalid_request", {
    detail: 'field "host" contains null bytes',
  }],
  ["a NUL in the command (R5)", 400, post({ ...body, command: "id\0" }), "invalid_request", {
    detail: 'field "command" contains null bytes',
  }],
  ["a NUL in the account", 400, post({ ...body, sudo_user: "\0" }), "invalid_request", {
    detail: 'field "sudo_user" contains null bytes',
  }],
  ["64 KiB and one byte (R1)", 413, post(JSON.stringify(body).padEnd(65537)), "payload_too_large", {}],
  ["two equal keys", 400, post('{"host":"web01","command":"uptime","command":"id"}'), "invalid_request", {}],
  ["an unknown host", 404, post({ ...body, host: "nope" }), "unknown_host", {
    detail: 'unknown host: "nope"',
  }],
  ["an unknown host before an empty command", 404, post({ host: "nope", command: "" }), "unknown_host", {}],
])("POST /v1/ssh_run rejects %s with %s", async (_name, status, init, code, { detail }) => {
  const broker = new BrokerFixture();
  const problem = await problemOf(await send(broker, "/v1/ssh_run", init));
  assert.deepEqual({ status: problem.status, code: problem.code }, { status, code });
  if (detail !== undefined) assert.equal(problem.detail, detail);
  assert.deepEqual(broker.authority.requests, []);
  assert.deepEqual(broker.runner.runs, []);
});

Deno.test("POST /v1/ssh_run accepts a body of exactly 64 KiB", async () => {
  const broker = new BrokerFixture();
  const init = post(JSON.stringify(body).padEnd(65536));
  assert.equal((await send(broker, "/v1/ssh_run", init)).status, 200);
});

Deno.test.each<{ name: string; answer: SignAnswer; code: string; detail: RegExp }>([
  {
    name: "a denial",
    answer: { kind: "rejected", status: 403, detail: "command denied" },
    code: "denied",
    detail: /^signing cert for "web01": signing rejected \(403\): command denied$/,
  },
  {
    name: "a required approval",
    answer: { kind: "needs_approval", rule: "require_approval:x" },
    code: "approval_required",
    detail: /^command on "web01" requires human approval \(require_approval:x\)/,
  },
])("POST /v1/ssh_run returns 403 on $name", async ({ answer, code, detail }) => {
  const broker = new BrokerFixture();
  broker.authority.answer = () => answer;
  const problem = await problemOf(await send(broker, "/v1/ssh_run", post(body)));
  assert.deepEqual({ status: problem.status, code: problem.code }, { status: 403, code });
  assert.match(problem.detail, detail);
});

Deno.test.each<{ name: string; hook: (broker: BrokerFixture, fail: () => never) => unknown }>([
  { name: "the hosts can't be refreshed", hook: (broker, fail) => broker.authority.list = fail },
  { name: "the signer is down", hook: (broker, fail) => broker.authority.answer = fail },
  { name: "the host can't be reached", hook: (broker, fail) => broker.runner.answer = fail },
])("POST /v1/ssh_run returns 502 without any detail if $name (I19)", async ({ hook }) => {
  const broker = new BrokerFixture();
  hook(broker, () => {
    throw new AppError("upstream_failure", "connection: 10.0.0.1:22 refused");
  });
  const problem = await problemOf(await send(broker, "/v1/ssh_run", post(body)));
  assert.deepEqual(problem, { status: 502, detail: "upstream failure", code: "upstream_failure" });
});

Deno.test.each([
  [
    "certificate refused",
    connectionFailure("the host refused the certificate", undefined, "certificate refused"),
  ],
  ["host key", atBastion("b", connectionFailure("host key mismatch", undefined, "host key"))],
  ["unreachable", socketFailure(Object.assign(new Error("10.0.0.1:22"), { code: "ECONNREFUSED" }))],
  ["timeout", executionFailure("SSH execution timeout", undefined, "timeout")],
])("POST /v1/ssh_run returns 502 with the failure class %s and no other detail", async (said, failure) => {
  const broker = new BrokerFixture();
  broker.runner.answer = () => {
    throw failure;
  };
  const problem = await problemOf(await send(broker, "/v1/ssh_run", post(body)));
  assert.deepEqual(problem, { status: 502, detail: `upstream failure: ${said}`, code: "upstream_failure" });
});

Deno.test("POST /v1/ssh_run withholds the result with 500 if the audit log fails", async () => {
  const broker = new BrokerFixture();
  broker.log.failing = true;
  const problem = await problemOf(await send(broker, "/v1/ssh_run", post(body)));
  assert.deepEqual(problem, { status: 500, detail: "audit unavailable", code: "audit_unavailable" });
  assert.equal(broker.runner.runs.length, 1);
});

Deno.test("POST /v1/ssh_run returns 500 with a fixed text on an internal error", async () => {
  const broker = new BrokerFixture();
  broker.runner.answer = () => {
    throw new TypeError("/etc/gateway/secret");
  };
  const problem = await problemOf(await send(broker, "/v1/ssh_run", post(body)));
  assert.equal(problem.status, 500);
  assert.ok(!problem.detail.includes("secret"));
});

Deno.test("POST /v1/ssh_run cancels the command if the client disconnects", async () => {
  const broker = new BrokerFixture();
  broker.runner.answer = hangUntilAborted;
  const client = new AbortController();
  const running = send(broker, "/v1/ssh_run", post(body, { signal: client.signal }));
  while (broker.runner.runs.length === 0) await new Promise((resolve) => setImmediate(resolve));
  client.abort();
  assert.equal((await running).status, 503);
  assert.deepEqual(broker.log.entries.map(({ outcome, err }) => ({ outcome, err })), [
    { outcome: "error", err: "canceled" },
  ]);
});

Deno.test.each(refusedMethods(BROKER_ROUTES))("$method $path returns 405 with Allow: $allow", async (row) => {
  const { method, path, allow } = row;
  const response = await send(new BrokerFixture(), path, { method });
  assert.deepEqual([response.status, response.headers.get("allow")], [405, allow]);
});

Deno.test.each(["/", "/v1", "/v1/ssh_run/", "/v1/ssh_run/x", "/v1/SSH_RUN", "/v2/ssh_run"])(
  "POST %s returns 404",
  async (path) => {
    const broker = new BrokerFixture();
    assert.equal((await send(broker, path, post(body))).status, 404);
    assert.equal(broker.authority.fetches, 0);
  },
);

/** The challenge for a missing token comes after the checks of Host and Origin. */
async function statusOf(headers: Record<string, string>): Promise<number | string> {
  await using frontend = new McpHttpFixture();
  return await frontend.send({ headers, body: LIST }).then(({ status }) => status, ({ message }) => message);
}

Deno.test.each([
  { headers: { host: "gateway.example" } },
  { headers: { host: "gateway.example:8443" } },
  { headers: { host: "GATEWAY.example" } },
  { headers: { host: "localhost:8443" } },
  { headers: { host: "127.0.0.1:8443" } },
  { headers: { host: "[::1]:8443" } },
  { headers: { origin: "https://gateway.example:8443" } },
  { headers: { origin: "http://localhost:6274" } },
])("createMcpHttp() accepts the headers $headers", async ({ headers }) => {
  assert.equal(await statusOf(headers), 401);
});

Deno.test.each([
  { host: "evil.example" },
  { host: "gateway.example.evil.example" },
  { host: "evil.example@gateway.example.evil" },
  { host: "127.0.0.1.nip.example" },
  { host: "gateway.example, evil.example" },
  { host: "" },
])("createMcpHttp() rejects the Host '$host'", async ({ host }) => {
  assert.equal(await statusOf({ host }), "Forbidden: invalid Host header");
});

Deno.test.each([
  { origin: "https://evil.example" },
  { origin: "null" },
  { origin: "https://gateway.example.evil.example" },
  { origin: "chrome-extension://abcdef" },
  { origin: "not a URL" },
])("createMcpHttp() rejects the Origin $origin", async ({ origin }) => {
  assert.equal(await statusOf({ origin }), "Forbidden: invalid Origin header");
});

const BOTH = ["application/json", "text/event-stream"];
Deno.test.each([
  { header: "application/json, text/event-stream", expected: true },
  { header: "text/event-stream;q=0.5,APPLICATION/JSON", expected: true },
  { header: "*/*", expected: true },
  { header: "application/*, text/*", expected: true },
  { header: "application/json", expected: false },
  { header: "text/event-stream", expected: false },
  { header: "application/jsonx, text/event-stream", expected: false },
  { header: null, expected: false },
])("accepts() of '$header' returns $expected for JSON and SSE", ({ header, expected }) => {
  assert.equal(accepts(header, BOTH), expected);
});

Deno.test.each([
  { version: undefined, refused: false },
  { version: "2025-03-26", refused: false },
  { version: "2025-06-18", refused: true },
  { version: "2025-11-25", refused: true },
  { version: "2026-07-28", refused: true },
])("createMcpHttp() reports no batches in version $version: $refused", async ({ version, refused }) => {
  await using frontend = new McpHttpFixture();
  const headers = version === undefined ? {} : { "mcp-protocol-version": version };
  const { code, message } = await frontend.refusalOf({ token: "alice", headers, body: [LIST] });
  assert.equal(code, "invalid_request");
  assert.equal(/have no batches$/.test(message), refused, message);
});
