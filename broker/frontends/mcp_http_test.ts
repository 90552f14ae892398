import assert from "node:assert/strict";
import type { ErrorCode } from "@gateway/shared/errors";
import { escapeKey } from "@gateway/shared/testing";
import { hangUntilAborted } from "../testing/fake_runner.ts";
import {
  CALL,
  CALL_RPC,
  initialize,
  INITIALIZED,
  LIST,
  McpHttpFixture,
  parseEvents,
  rpc,
  statelessHeaders,
  statelessRpc,
  type TestRequest,
} from "../testing/mcp_http_fixture.ts";
import { until } from "../testing/raw_mcp_client.ts";
import { MAX_BODY_BYTES } from "./mcp_http.ts";
import { USER_BOUNDS } from "./user_budget.ts";

Deno.test.each<[status: number, name: string, request: TestRequest, detail: string]>([
  [401, "no token", { body: LIST }, "no bearer token"],
  [401, "a bad token", { token: "bad", body: LIST }, "invalid token: token expired"],
  [403, "a token without the scopes", { token: "poor", body: LIST }, "insufficient scope"],
  [401, "a token in the URL only", { path: "/mcp?access_token=alice", body: LIST }, "no bearer token"],
  [
    400,
    "a token in the URL as well",
    { token: "alice", path: "/mcp?access_token=alice", body: LIST },
    "a token must not be in the URL",
  ],
  [401, "no token and a body that is too large", { body: "x".repeat(MAX_BODY_BYTES + 1) }, "no bearer token"],
  [401, "a browser's question", { method: "OPTIONS" }, "no bearer token"],
  [401, "another path without token", { path: "/" }, "no bearer token"],
])("createMcpHttp() returns %s with a challenge on %s", async (status, _name, request, detail) => {
  await using frontend = new McpHttpFixture();
  const response = await frontend.send(request);
  assert.equal(response.status, status);
  assert.match(
    response.headers.get("www-authenticate") ?? "",
    /^Bearer resource_metadata="https:[^"]+\/mcp"/,
  );
  assert.equal(response.headers.get("access-control-allow-origin"), null);
  assert.equal((await response.json()).detail, detail);
});

Deno.test.each<{ name: string; request: TestRequest; code?: ErrorCode; message: string | RegExp }>([
  {
    name: "an oversized body",
    request: { body: "x".repeat(MAX_BODY_BYTES + 1) },
    code: "payload_too_large",
    message: /larger than 1048576 bytes$/,
  },
  {
    name: "another content type",
    request: { headers: { "content-type": "text/plain" }, body: LIST },
    code: "unsupported_media_type",
    message: /application\/json$/,
  },
  {
    name: "invalid JSON",
    request: { body: "{" },
    message: "Request body is not valid JSON, or repeats a key",
  },
  {
    name: "a client that accepts only JSON",
    request: { headers: { accept: "application/json" }, body: LIST },
    message: "Accept must allow application/json and text/event-stream",
  },
  {
    name: "a batch in a version without batches",
    request: { headers: { "mcp-protocol-version": "2025-11-25" }, body: [LIST] },
    message: /have no batches$/,
  },
  {
    name: "a request without a session",
    request: { body: LIST },
    message: "Mcp-Session-Id header is required",
  },
  {
    name: "a stream without a session",
    request: { token: "alice" },
    message: "Mcp-Session-Id header is required",
  },
  {
    name: "a stream that accepts only text/html",
    request: { session: "x", headers: { accept: "text/html" } },
    message: "Accept must allow text/event-stream",
  },
  {
    name: "an invalid Last-Event-ID",
    request: { session: "x", headers: { "last-event-id": "x" } },
    message: "Last-Event-ID is not from this server",
  },
  {
    name: "an unknown session ID",
    request: { session: "x", body: LIST },
    code: "not_found",
    message: "session not found",
  },
])("createMcpHttp() rejects $name", async ({ request, code = "invalid_request", message }) => {
  await using frontend = new McpHttpFixture();
  const refusal = await frontend.refusalOf({ token: "alice", ...request });
  assert.equal(refusal.code, code);
  if (message instanceof RegExp) assert.match(refusal.message, message);
  else assert.equal(refusal.message, message);
});

Deno.test.each([{ method: "PUT" }, { method: "PATCH" }, { method: "OPTIONS" }, { method: "HEAD" }])(
  "createMcpHttp() returns 405 on $method",
  async ({ method }) => {
    await using frontend = new McpHttpFixture();
    const response = await frontend.send({ method, token: "alice" });
    assert.equal(response.status, 405);
    assert.equal(response.headers.get("allow"), "GET, POST, DELETE");
  },
);

Deno.test.each([
  { path: "/.well-known/oauth-protected-resource" },
  { path: "/.well-known/oauth-protected-resource/mcp" },
  { path: "/mcp/.well-known/oauth-protected-resource" },
])("createMcpHttp() returns the metadata at $path without a token", async ({ path }) => {
  await using frontend = new McpHttpFixture();
  const response = await frontend.send({ path, headers: { origin: "https://any.example" } });
  assert.equal(response.status, 200);
  assert.equal((await response.json()).resource, "https://gateway.example/mcp");
});

Deno.test.each([
  { protocolVersion: "2024-11-05" },
  { protocolVersion: "2025-03-26" },
  { protocolVersion: "2025-06-18" },
  { protocolVersion: "2025-11-25" },
])("createMcpHttp() serves a session of version $protocolVersion", async ({ protocolVersion }) => {
  await using frontend = new McpHttpFixture();
  const opened = await frontend.send({ token: "alice", body: initialize(protocolVersion) });
  const [answer] = parseEvents(await opened.text()).filter(({ data }) => data !== undefined);
  assert.deepEqual(
    (answer?.data as { result: { protocolVersion: string } }).result.protocolVersion,
    protocolVersion,
  );
  const session = opened.headers.get("mcp-session-id") ?? "";
  assert.match(session, /^[0-9a-f]{40}$/);
  const noted = await frontend.send({ token: "alice", session, body: INITIALIZED });
  assert.equal(noted.status, 202);
  assert.equal(await noted.text(), "");
  const called = await frontend.send({ token: "alice", session, body: CALL_RPC });
  assert.equal(called.headers.get("content-type"), "text/event-stream");
  assert.equal(called.headers.get("cache-control"), "no-cache, no-transform");
  assert.match(await called.text(), /"exit_code":0,"serial":18446744073709551615\}/);
});

Deno.test("createMcpHttp() returns 400 on an unknown protocol version in the header", async () => {
  await using frontend = new McpHttpFixture();
  const session = await frontend.open("alice");
  const headers = { "mcp-protocol-version": "2023-01-01" };
  const response = await frontend.send({ token: "alice", session, headers, body: LIST });
  assert.equal(response.status, 400);
  await response.text();
});

Deno.test("createMcpHttp() opens no session if initialize is rejected", async () => {
  await using frontend = new McpHttpFixture();
  const body = rpc(0, "initialize", { protocolVersion: 7 });
  assert.equal((await frontend.refusalOf({ token: "alice", body })).code, "invalid_request");
});

Deno.test.each(["no/such", "prompts/list", "resources/list"].map((method) => ({ method })))(
  "createMcpHttp() returns 404 for the undeclared method $method in version 2026-07-28",
  async ({ method }) => {
    await using frontend = new McpHttpFixture();
    const headers = statelessHeaders(method);
    const response = await frontend.send({ token: "alice", headers, body: statelessRpc(1, method) });
    assert.equal(response.status, 404);
    assert.match(await response.text(), /-32601/);
  },
);

Deno.test.each([{ era: "stateful" as const }, { era: "stateless" as const }])(
  "createMcpHttp() uses the identity, groups and token of each single request, $era",
  async ({ era }) => {
    await using frontend = new McpHttpFixture();
    const session = era === "stateful" ? await frontend.open("alice:web,db") : undefined;
    for (const token of ["alice:web", "alice:", "alice"]) {
      const request = session === undefined
        ? {
          headers: statelessHeaders("tools/call", "ssh_execute"),
          body: statelessRpc(1, "tools/call", CALL),
        }
        : { session, body: CALL_RPC };
      const response = await frontend.send({ token, ...request });
      assert.equal(response.status, 200);
      assert.equal(response.headers.has("mcp-session-id"), era === "stateful");
      assert.match(await response.text(), /"exit_code":0,"serial":18446744073709551615\}/);
    }
    const requests = frontend.broker.authority.requests.map((request) => [
      request.end_user,
      request.end_user_groups,
      request.bearer_token,
    ]);
    assert.deepEqual(requests, [
      ["alice", ["web"], "alice:web"],
      ["alice", [], "alice:"],
      ["alice", null, "alice"],
    ]);
  },
);

Deno.test("createMcpHttp() limits the unanswered requests of each user separately", async () => {
  await using frontend = new McpHttpFixture();
  frontend.broker.runner.answer = hangUntilAborted;
  const session = await frontend.open("alice");
  const streams: Response[] = [];
  for (let call = 0; call < USER_BOUNDS.requests; call++) {
    const body = rpc(call, "tools/call", CALL);
    streams.push(await frontend.send({ token: "alice", session, body }));
    const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: call } };
    if (streams.length < USER_BOUNDS.requests) await frontend.send({ token: "alice", session, body: cancel });
  }
  assert.equal((await frontend.refusalOf({ token: "alice", session, body: LIST })).code, "rate_limited");
  await (await frontend.send({ token: "bob", body: initialize() })).text();
  for (const stream of streams) await stream.body?.cancel();
  assert.equal((await frontend.send({ token: "alice", session, body: INITIALIZED })).status, 202);
});

Deno.test("createMcpHttp() counts a rejected request as ended", async () => {
  await using frontend = new McpHttpFixture();
  for (let request = 0; request <= USER_BOUNDS.requests; request++) {
    assert.equal((await frontend.refusalOf({ token: "alice", session: "x" })).code, "not_found");
  }
});

Deno.test("createMcpHttp() on DELETE returns 204, ends the session and cancels its calls", async () => {
  await using frontend = new McpHttpFixture();
  frontend.broker.runner.answer = hangUntilAborted;
  const session = await frontend.open("alice");
  const answer = await frontend.send({ token: "alice", session, body: CALL_RPC });
  await until(() => frontend.broker.runner.runs.length === 1);
  assert.equal((await frontend.refusalOf({ method: "DELETE", token: "bob", session })).code, "forbidden");
  const ended = await frontend.send({ method: "DELETE", token: "alice", session });
  assert.equal(ended.status, 204);
  await answer.text();
  await until(() => frontend.broker.counted.includes("error"));
  assert.equal((await frontend.refusalOf({ token: "alice", session, body: LIST })).code, "not_found");
});

Deno.test("createMcpHttp() cancels all calls on close and opens no further session", async () => {
  const frontend = new McpHttpFixture();
  // Like a remote command, which takes time to end.
  frontend.broker.runner.answer = (options) =>
    hangUntilAborted(options).catch(async (error) => {
      await frontend.clock.advance(0);
      throw error;
    });
  const session = await frontend.open("alice");
  const answers = [
    frontend.send({ token: "alice", session, body: CALL_RPC }).then((response) => response.text()),
    frontend.send({
      token: "bob",
      headers: statelessHeaders("tools/call", "ssh_execute"),
      body: statelessRpc(1, "tools/call", CALL),
    }),
  ];
  await until(() => frontend.broker.runner.runs.length === 2);
  await frontend.frontend.close();
  await until(() => frontend.broker.counted.length === 2);
  assert.deepEqual(frontend.broker.counted, ["error", "error"]);
  await Promise.all(answers);
  assert.equal((await frontend.refusalOf({ token: "alice", body: initialize() })).code, "canceled");
});

Deno.test("createMcpHttp() reports rejected tokens without their content", async () => {
  await using frontend = new McpHttpFixture();
  await (await frontend.send({ token: "bad", body: LIST })).text();
  await (await frontend.send({ body: LIST })).text();
  assert.deepEqual(frontend.refusals, ["token expired"]);
});

Deno.test.each([
  { generation: "2025-11-25", body: () => CALL_RPC },
  { generation: "2026-07-28", body: () => statelessRpc(7, "tools/call", CALL) },
])(
  "createMcpHttp() parses each body independently of earlier bodies: $generation",
  async (row) => {
    await using frontend = new McpHttpFixture();
    const where = row.generation === "2025-11-25"
      ? { session: await frontend.open("alice") }
      : { headers: statelessHeaders("tools/call", "ssh_execute") };
    const escaped = escapeKey(JSON.stringify(row.body()), "command");
    for (const body of [escaped.before, escaped.text]) {
      await (await frontend.send({ token: "alice", ...where, body })).text();
    }
    assert.deepEqual(frontend.broker.authority.requests.map(({ command }) => command), ["uptime"]);
  },
);
