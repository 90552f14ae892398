import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { callerFromCertificate, parseListenAddress } from "./listener.ts";
import { FRESH_SECONDS, keepFresh, parseDeniedCallers } from "./tls_files.ts";
import { createMetrics } from "../service/metrics.ts";
import { respondToMonitor } from "./monitor.ts";
import { FakeClock } from "../testing/fake_clock.ts";
import { refusedMethods } from "../testing/refused_methods.ts";
import { createRouter, routesFor } from "./routes.ts";

Deno.test.each(["broker-1", "a", "Ops Broker", "brøker", "host:web01", "_default", "\u00a0"])(
  "callerFromCertificate() accepts '%s'",
  (name) => {
    assert.equal(callerFromCertificate(true, name), name);
    assert.equal(callerFromCertificate(false, name), undefined);
  },
);

Deno.test.each<{ readonly name: string; readonly commonName: unknown }>([
  { name: "none", commonName: undefined },
  { name: "null", commonName: null },
  { name: "an empty one", commonName: "" },
  { name: "two", commonName: ["broker-1", "admin"] },
  { name: "a list of one", commonName: ["broker-1"] },
  { name: "an object", commonName: { toString: () => "broker-1" } },
  { name: "a String object", commonName: new String("broker-1") },
  { name: "a NUL", commonName: "broker-1\0" },
  { name: "a line feed", commonName: "broker-1\nadmin" },
  { name: "a tab", commonName: "broker\t1" },
  { name: "DEL", commonName: "broker\x7f" },
  { name: "the first C1 control", commonName: "broker\x80" },
  { name: "the last C1 control", commonName: "broker\x9f" },
  { name: "a zero-width space", commonName: "broker\u200b-1" },
  { name: "a bidi override", commonName: "\u202e1-rekorb" },
  { name: "a tag", commonName: "broker-1\u{e0041}" },
  { name: "a variation selector", commonName: "broker-1\ufe0f" },
  { name: "private use", commonName: "broker-1\ue000" },
  { name: "half of a surrogate pair", commonName: "broker\ud800" },
])("callerFromCertificate() rejects $name (I8)", ({ commonName }) => {
  assert.equal(callerFromCertificate(true, commonName), undefined);
});

Deno.test.each([
  { name: "no names of an empty file", text: "", names: [] },
  { name: "a name a line, without comments and spaces", text: "# lost\na\n\n b c \n", names: ["a", "b c"] },
])("parseDeniedCallers() returns $name", ({ text, names }) => {
  assert.deepEqual([...parseDeniedCallers(text)], names);
});

Deno.test.each([
  { name: "a last line without newline", text: "agent-1\nage", why: /may be incomplete/ },
  { name: "a control character", text: "a\nb\0c\n", why: /^line 2/ },
])("parseDeniedCallers() rejects $name", ({ text, why }) => {
  assert.throws(() => parseDeniedCallers(text), { code: "invalid_config", message: why });
});

Deno.test.each([
  { text: ":9443", hostname: "0.0.0.0", port: 9443 },
  { text: "127.0.0.1:0", hostname: "127.0.0.1", port: 0 },
  { text: "localhost:65535", hostname: "localhost", port: 65535 },
  { text: "signer.example:1", hostname: "signer.example", port: 1 },
  { text: "[::]:9443", hostname: "::", port: 9443 },
  { text: "[fe80::1%eth0]:1", hostname: "fe80::1%eth0", port: 1 },
])("parseListenAddress() reads $text", ({ text, hostname, port }) => {
  assert.deepEqual(parseListenAddress(text), { hostname, port });
});

Deno.test.each([
  "",
  ":",
  "9443",
  "localhost",
  "localhost:",
  "localhost:http",
  "localhost:65536",
  "localhost:-1",
  "localhost:+1",
  "::1:9443",
  "[::1]",
  "[]:1",
  "[localhost]:1",
  "a b:1",
  "https://localhost:1",
  "localhost:1/",
  "localhost:1\n",
  ":１",
].map((text) => ({ text })))("parseListenAddress() refuses '$text'", ({ text }) => {
  const message = `Cannot use listen address ${JSON.stringify(text)}: expected host:port`;
  assert.throws(() => parseListenAddress(text), { name: "AppError", code: "invalid_config", message });
});

const ask = (path: string, isReady: boolean, method = "GET") =>
  respondToMonitor(new Request(`http://localhost${path}`, { method }), {
    isReady: () => isReady,
    metrics: createMetrics(),
  });

Deno.test.each([
  { path: "/healthz", isReady: true, status: 200, body: "ok\n" },
  { path: "/healthz", isReady: false, status: 200, body: "ok\n" },
  { path: "/healthz?x", isReady: true, status: 200, body: "ok\n" },
  { path: "/readyz", isReady: true, status: 200, body: "ready\n" },
  { path: "/readyz", isReady: false, status: 503, body: "not ready\n" },
  { path: "/metrics", isReady: false, status: 200, body: "" },
  { path: "/", isReady: true, status: 404, body: "not found\n" },
  { path: "/healthz/", isReady: true, status: 404, body: "not found\n" },
  { path: "/v1/sign", isReady: true, status: 404, body: "not found\n" },
])(
  "respondToMonitor() returns $status for $path if ready is $isReady",
  async ({ path, isReady, status, body }) => {
    for (const method of ["GET", "POST", "DELETE"]) {
      const response = await ask(path, isReady, method);
      assert.equal(response.status, status);
      assert.equal(await response.text(), body);
    }
  },
);

Deno.test.each([
  { isReady: true, body: "not ready: no answer from the signer for 12 s\n" },
  { isReady: false, body: "not ready\n" },
])(
  "respondToMonitor() reports the problem of a service whether ready or not: $isReady",
  async ({ isReady, body }) => {
    const response = await respondToMonitor(new Request("http://localhost/readyz"), {
      isReady: () => isReady,
      problem: () => "no answer from the signer for 12 s",
      metrics: createMetrics(),
    });
    assert.deepEqual([response.status, await response.text()], [503, body]);
  },
);

Deno.test("respondToMonitor() sets the content type of metrics", async () => {
  const response = await ask("/metrics", true);
  assert.equal(response.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
});

Deno.test("keepFresh() loads changed valid files and logs a failure once", async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  const lines: string[] = [];
  const logger = {
    info: (text: string) => void lines.push(`info ${text}`),
    warn: (text: string) => void lines.push(`warn ${text}`),
  };
  let found: string | Error = "a";
  const taken: string[] = [];
  const running = keepFresh({ clock, signal: stop.signal, logger, what: "it", current: { cert: "a" } }, {
    load: () => found instanceof Error ? Promise.reject(found) : Promise.resolve({ cert: found }),
    take: ({ cert }) => {
      if (cert === "refused") throw new Error("refused");
      taken.push(cert);
    },
  });
  for (const next of ["a", "b", "b", new Error("torn"), new Error("torn"), "refused", "refused", "b", "c"]) {
    found = next;
    await clock.advance(FRESH_SECONDS * 1000);
  }
  stop.abort();
  await running;
  assert.deepEqual(taken, ["b", "c"]);
  assert.deepEqual(lines, [
    "info it reloaded",
    "warn it not reloaded, keeping the previous version",
    "warn it not reloaded, keeping the previous version",
    "info it reloaded",
  ]);
});

const ROUTES = routesFor<string, { readonly caller: string }>()({
  "/things": {
    GET: (ports, { caller, request }) => new Response(`${ports} ${caller} ${request.method} list`),
    POST: (_ports, { request }) => new Response(request.body),
  },
  "/things/:id": {
    POST: () => new Response("changed"),
    GET: (_ports, { param }) => new Response(`thing ${param("id")}`),
  },
  "/things/:id/parts/:part": {
    DELETE: (_ports, { param }) => new Response(`${param("id")} without ${param("part")}`),
  },
  "/once/:id{[0-9a-f]{4}}": { GET: (_ports, { param }) => new Response(param("id")), HEAD: "refused" },
  "/broken": {
    GET: () => {
      throw new AppError("denied", "no");
    },
    POST: () => Promise.reject(new AppError("frozen", "no")),
  },
});

async function send(method: string, path: string, body?: string) {
  const answer = createRouter(ROUTES, "ports", { noRoute: "no such thing", noMethod: "not so" });
  const request = new Request(`https://localhost${path}`, { method, ...(body !== undefined && { body }) });
  const response = await answer(request, { caller: "ann" });
  return { status: response.status, allow: response.headers.get("allow"), text: await response.text() };
}

Deno.test.each([
  { method: "GET", path: "/things", text: "ports ann GET list" },
  { method: "POST", path: "/things", body: "a body", text: "a body" },
  { method: "GET", path: "/things?id=1", text: "ports ann GET list" },
  { method: "GET", path: "/things/7", text: "thing 7" },
  { method: "GET", path: "/things/a%20b", text: "thing a b" },
  { method: "GET", path: "/things/a%2Fb", text: "thing a/b" },
  { method: "POST", path: "/things/7", text: "changed" },
  { method: "DELETE", path: "/things/7/parts/8", text: "7 without 8" },
  { method: "GET", path: "/once/12ab", text: "12ab" },
])("$method $path is routed to its handler", async ({ method, path, body, text }) => {
  assert.deepEqual(await send(method, path, body), { status: 200, allow: null, text });
});

Deno.test("HEAD returns the response of GET without the body", async () => {
  assert.deepEqual(await send("HEAD", "/things"), { status: 200, allow: null, text: "" });
});

Deno.test.each(refusedMethods(ROUTES).map((row) => ({ ...row, path: row.path.replace(/x\{.*/, "12ab") })))(
  "$method $path is 405 and says $allow",
  async ({ method, path, allow }) => {
    const answer = await send(method, path);
    assert.deepEqual([answer.status, answer.allow], [405, allow]);
    if (method === "HEAD") assert.equal(answer.text, "");
    else assert.equal(JSON.parse(answer.text).detail, "not so");
  },
);

Deno.test.each([
  { method: "PUT", path: "/things", allow: "GET, POST" },
  { method: "PUT", path: "/things/7", allow: "POST, GET" },
  { method: "HEAD", path: "/things/7/parts/8", allow: "DELETE" },
  { method: "HEAD", path: "/once/12ab", allow: "GET" },
  { method: "PROPFIND", path: "/once/12ab", allow: "GET" },
])("$method $path gets 405 with the methods in table order: $allow", async ({ method, path, allow }) => {
  const answer = await send(method, path);
  assert.deepEqual([answer.status, answer.allow], [405, allow]);
});

Deno.test.each([
  "/",
  "/things/",
  "/things//",
  "/things/7/",
  "/things/7/parts",
  "/things/7/parts/8/9",
  "/Things",
  "/once/12abc",
  "/once/xyzw",
  "/%2Fthings",
])("%s is not a route for any method", async (path) => {
  for (const method of ["GET", "POST", "PUT"]) {
    const { status, allow, text } = await send(method, path);
    assert.deepEqual([status, allow, JSON.parse(text).detail], [404, null, "no such thing"]);
  }
});

Deno.test("a router rejects with the error that a handler throws", async () => {
  await assert.rejects(send("GET", "/broken"), { code: "denied" });
  await assert.rejects(send("POST", "/broken"), { code: "frozen" });
});

Deno.test("a handler that requests a parameter missing from its path fails with a TypeError", async () => {
  const routes = routesFor<undefined, object>()({
    // @ts-expect-error: the parameter is called id
    "/things/:id": { GET: (_ports, { param }) => new Response(param("name")) },
  });
  const answer = createRouter(routes, undefined, { noRoute: "no such thing" });
  await assert.rejects(answer(new Request("https://localhost/things/7"), {}), TypeError);
});
