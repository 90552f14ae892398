import assert from "node:assert/strict";
import { createServer, type ServerOptions } from "node:https";
import type { RequestListener } from "node:http";
import { createServer as createTlsServer, type TLSSocket } from "node:tls";
import { systemClock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { JsonClient, type JsonClientOptions } from "@gateway/shared/http/json_client";
import { poll } from "../stage/poll.ts";
import { broker, ca, foreignCa, issue, serverIdentity, startServer } from "./mtls_fixture.ts";

/** Only what hangs takes so long, however busy the machine is. */
const HANGS_MS = 60_000;
/** For what is to hang. */
const SHORT_MS = 500;

interface Upstream extends AsyncDisposable {
  readonly url: string;
  readonly connections: () => number;
}

/** A server that does what a test needs, good or bad, without the care of our own. */
async function startUpstream(listener: RequestListener, options: ServerOptions = {}): Promise<Upstream> {
  let connections = 0;
  const server = createServer({ ...serverIdentity, ...options }, listener);
  server.on("secureConnection", () => connections++);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  return {
    url: `https://127.0.0.1:${address.port}`,
    connections: () => connections,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function connect(baseUrl: string, options: Partial<JsonClientOptions> = {}): JsonClient {
  const defaults = { clock: systemClock, what: "the signer", timeoutMs: HANGS_MS };
  return new JsonClient({ ...defaults, baseUrl, ...broker, ca, ...options });
}

const isUpstreamFailure = (message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof AppError, String(error));
  assert.equal(error.code, "upstream_failure");
  assert.match(error.message, message);
  assert.doesNotMatch(error.message, /127\.0\.0\.1|localhost/, "no address in the message");
  return true;
};

Deno.test("JsonClient reads an answer that comes in pieces", async () => {
  const long = () => Response.json({ long: "x".repeat(1_000_000) });
  await using server = await startServer(long, { isPaced: true });
  using client = connect(server.url);
  for (let time = 0; time < 2; time++) {
    const { status, text } = await client.request({ method: "GET", path: "/" });
    assert.deepEqual([status, text.length], [200, 1_000_011]);
  }
});

Deno.test("JsonClient shows its certificate, sends and reads exact JSON, and keeps the connection", async () => {
  await using server = await startServer(async (request, { caller }) => {
    const body = await request.text();
    return new Response(`{"caller":"${caller}","got":${body},"path":"${new URL(request.url).pathname}"}`, {
      headers: { "content-type": "application/json; charset=utf-8" },
    });
  });
  using client = connect(`${server.url}/`);
  for (let attempt = 0; attempt < 3; attempt++) {
    const request = { method: "POST", path: "/v1/sign", body: { serial: 18446744073709551615n } } as const;
    const { status, body } = await client.request(request);
    assert.equal(status, 200);
    assert.deepEqual(body, { caller: "broker-1", got: { serial: 18446744073709551615n }, path: "/v1/sign" });
  }
});

Deno.test("JsonClient frames the body of a DELETE", async () => {
  await using server = await startServer(async (request) =>
    new Response(await request.text(), { headers: { "content-type": "application/json" } })
  );
  using client = connect(server.url);
  for (let attempt = 0; attempt < 2; attempt++) {
    const { status, body } = await client.request({ method: "DELETE", path: "/", body: { pattern: "^ü$" } });
    assert.deepEqual([status, body], [200, { pattern: "^ü$" }]);
  }
});

Deno.test("JsonClient uses one connection for requests in a row", async () => {
  await using upstream = await startUpstream((_request, response) => response.end("{}"));
  using client = connect(upstream.url);
  for (let attempt = 0; attempt < 3; attempt++) await client.request({ method: "GET", path: "/" });
  assert.equal(upstream.connections(), 1);
});

/** Whatever ends an exchange: what was sent is not sent again, on a connection that was used before either. */
Deno.test.each<{
  readonly name: string;
  readonly method: "GET" | "POST";
  readonly end: "cancel" | "time out" | "close";
  readonly queued?: boolean;
}>([
  { name: "a GET that is canceled", method: "GET", end: "cancel" },
  { name: "a POST that is canceled", method: "POST", end: "cancel" },
  {
    name: "a POST that had to wait for its connection and is canceled",
    method: "POST",
    end: "cancel",
    queued: true,
  },
  { name: "a GET that takes too long", method: "GET", end: "time out" },
  { name: "a POST that takes too long", method: "POST", end: "time out" },
  { name: "a GET that the server hangs up on", method: "GET", end: "close" },
  { name: "a POST that the server hangs up on", method: "POST", end: "close" },
])("JsonClient sends once $name", async ({ method, end, queued = false }) => {
  const held = Promise.withResolvers<void>();
  let received = 0;
  await using upstream = await startUpstream((request, response) => {
    if (request.url !== "/held") return void response.end("{}");
    received += 1;
    held.resolve();
    if (end === "close") response.destroy();
  });
  using client = connect(upstream.url, { maxConnections: 1 });
  const before = client.request({ method: "GET", path: "/" });
  if (!queued) await before;
  const leaving = new AbortController();
  const asking = client.request({
    method,
    path: "/held",
    signal: leaving.signal,
    timeoutMs: end === "time out" ? SHORT_MS : HANGS_MS,
  });
  // The time can be over before the request is out, on a machine that is busy enough.
  await (end === "time out" ? asking.catch(() => {}) : held.promise);
  if (end === "cancel") leaving.abort();
  await assert.rejects(asking, AppError);
  // Another exchange, after whatever would have been sent again.
  await before;
  await client.request({ method: "GET", path: "/" });
  assert.ok(received === 1 || (end === "time out" && received === 0), `received ${received} times`);
});

Deno.test("JsonClient opens no more connections than it may, and each request is answered", async () => {
  const waiting: (() => void)[] = [];
  let answered = 0;
  await using upstream = await startUpstream((request, response) => {
    waiting.push(() => response.end(request.url));
    // By twos, and the last alone: each answer waits until another request has come by another connection.
    if (waiting.length < 2 && answered < 8) return;
    answered += waiting.length;
    for (const answer of waiting.splice(0)) answer();
  });
  using client = connect(upstream.url, { maxConnections: 2 });
  const paths = Array.from({ length: 9 }, (_, index) => `/${index}`);
  const answers = await Promise.all(paths.map((path) => client.request({ method: "GET", path })));
  assert.deepEqual(answers.map(({ text }) => text), paths);
  assert.equal(upstream.connections(), 2);
});

Deno.test("JsonClient connects again after a connection that the server closes", async () => {
  await using upstream = await startUpstream((_request, response) =>
    void response.setHeader("connection", "close").end("{}")
  );
  using client = connect(upstream.url);
  for (let attempt = 0; attempt < 3; attempt++) await client.request({ method: "GET", path: "/" });
  assert.equal(upstream.connections(), 3);
});

Deno.test("JsonClient takes no answer that came before its question", async () => {
  const answer = (text: string) => `HTTP/1.1 200 OK\r\ncontent-length: ${text.length}\r\n\r\n${text}`;
  const sockets: TLSSocket[] = [];
  const server = createTlsServer(serverIdentity, (socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
    socket.once("data", () => socket.write(answer("first")));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  try {
    using client = connect(`https://127.0.0.1:${address.port}`);
    const ask = async () => (await client.request({ method: "GET", path: "/" })).text;
    assert.equal(await ask(), "first");
    sockets[0]?.write(answer("forged"));
    await poll(() => sockets[0]?.closed === true, { what: "the client to give that connection up" });
    assert.equal(await ask(), "first");
    assert.equal(sockets.length, 2);
  } finally {
    server.close();
  }
});

Deno.test("JsonClient does not send what was canceled while it waited for a connection", async () => {
  const paths: (string | undefined)[] = [];
  const held = Promise.withResolvers<void>();
  await using upstream = await startUpstream(async (request, response) => {
    paths.push(request.url);
    await held.promise;
    response.end("{}");
  });
  using client = connect(upstream.url, { maxConnections: 1 });
  const first = client.request({ method: "GET", path: "/first" });
  const leaving = new AbortController();
  const second = client.request({ method: "POST", path: "/second", signal: leaving.signal });
  leaving.abort();
  await assert.rejects(second, AppError);
  held.resolve();
  await first;
  await client.request({ method: "GET", path: "/third" });
  assert.deepEqual(paths, ["/first", "/third"]);
});

Deno.test("JsonClient that is closed fails what is under way and what waits", async () => {
  const received = Promise.withResolvers<void>();
  await using upstream = await startUpstream(() => received.resolve());
  const client = connect(upstream.url, { maxConnections: 1 });
  const asking = [1, 2].map(() => client.request({ method: "GET", path: "/" }));
  await received.promise;
  client.close();
  for (const each of asking) await assert.rejects(each, isUpstreamFailure(/^Failed contacting the signer$/));
});

Deno.test.each<{ readonly name: string; readonly path?: string; readonly headers?: Record<string, string> }>([
  { name: "a line break in the path", path: "/ HTTP/1.1\r\nx: y" },
  { name: "a blank in the path", path: "/a b" },
  { name: "a line break in a header", headers: { "x-on-behalf-of": "a\r\nx-admin: 1" } },
  { name: "a character that is not a byte in a header", headers: { "x-on-behalf-of": "\u0416" } },
  { name: "a colon in a header's name", headers: { "a: b": "c" } },
])("JsonClient sends nothing with $name", async ({ path = "/", headers = {} }) => {
  let received = 0;
  await using upstream = await startUpstream((_request, response) => {
    received += 1;
    response.end("{}");
  });
  using client = connect(upstream.url);
  await assert.rejects(
    client.request({ method: "GET", path, headers }),
    isUpstreamFailure(/^Failed contacting/),
  );
  assert.equal(received, 0);
});

Deno.test("JsonClient gives error statuses as answers, with problem bodies parsed", async () => {
  await using server = await startServer(() => {
    throw new AppError("frozen", "Caller is frozen");
  });
  using client = connect(server.url);
  const { status, body } = await client.request({ method: "GET", path: "/" });
  assert.equal(status, 403);
  assert.equal(body !== null && typeof body === "object" && "code" in body && body.code, "frozen");
});

Deno.test.each<{
  readonly name: string;
  readonly listener: RequestListener;
  readonly message: RegExp;
  readonly timeoutMs?: number;
}>([
  {
    name: "an answer larger than allowed",
    listener: (_request, response) => response.end("x".repeat(2000)),
    message: /^The answer of the signer is larger than 1000 bytes$/,
  },
  {
    name: "an answer without end (C10)",
    listener: (_request, response) => {
      const timer = setInterval(() => response.write("x".repeat(400)), 1);
      response.on("close", () => clearInterval(timer));
    },
    message: /^The answer of the signer is larger than 1000 bytes$/,
  },
  {
    name: "text that claims to be JSON",
    listener: (_request, response) => response.setHeader("content-type", "application/json").end("{}x"),
    message: /^The answer of the signer is not valid JSON$/,
  },
  {
    name: "bytes that are not UTF-8",
    listener: (_request, response) => response.end(Uint8Array.of(0xff)),
    message: /^Failed contacting the signer$/,
  },
  {
    name: "an answer that breaks off (R9)",
    listener: (_request, response) => {
      response.writeHead(200, { "content-length": "100" });
      response.write("x", () => response.destroy());
    },
    message: /^(The answer of the signer broke off|Failed contacting the signer)$/,
  },
  {
    name: "no answer",
    listener: (_request, response) => void response.destroy(),
    message: /^Failed contacting the signer$/,
  },
  {
    name: "an answer that never comes",
    listener: () => {},
    message: /^Timed out contacting the signer$/,
    timeoutMs: SHORT_MS,
  },
  {
    name: "a body that never ends",
    listener: (_request, response) => void response.writeHead(200).write("x"),
    message: /^Timed out contacting the signer$/,
    timeoutMs: SHORT_MS,
  },
])("JsonClient fails on $name", async ({ listener, message, timeoutMs = HANGS_MS }) => {
  await using upstream = await startUpstream(listener);
  using client = connect(upstream.url, { maxResponseBytes: 1000, timeoutMs });
  await assert.rejects(client.request({ method: "GET", path: "/" }), isUpstreamFailure(message));
});

Deno.test("JsonClient does not follow redirects", async () => {
  let requests = 0;
  await using upstream = await startUpstream((_request, response) => {
    requests++;
    response.writeHead(307, { location: "/elsewhere" }).end();
  });
  using client = connect(upstream.url);
  const { status } = await client.request({ method: "POST", path: "/", body: {} });
  assert.equal(status, 307);
  assert.equal(requests, 1);
});

Deno.test("JsonClient refuses a server of a foreign CA of the same name, again and again", async () => {
  let requests = 0;
  await using upstream = await startUpstream((_request, response) => {
    requests++;
    response.end("{}");
  });
  using client = connect(upstream.url, { ca: foreignCa });
  for (let attempt = 0; attempt < 3; attempt++) {
    const request = client.request({ method: "GET", path: "/" });
    await assert.rejects(request, isUpstreamFailure(/^Failed contacting the signer$/));
  }
  assert.equal(requests, 0);
});

Deno.test.each([
  { name: "for another host", options: { subjectAltNames: ["signer.example"], usage: "server" as const } },
  { name: "for clients only", options: { subjectAltNames: ["127.0.0.1"], usage: "client" as const } },
  {
    name: "that has expired",
    options: {
      subjectAltNames: ["127.0.0.1"],
      usage: "server" as const,
      notBefore: new Date("2020-01-01"),
      notAfter: new Date("2021-01-01"),
    },
  },
])("JsonClient refuses a certificate $name, again and again", async ({ options }) => {
  let requests = 0;
  const identity = await issue({ subject: "CN=127.0.0.1", ...options });
  await using upstream = await startUpstream((_request, response) => {
    requests++;
    response.end("{}");
  }, identity);
  using client = connect(upstream.url);
  for (let attempt = 0; attempt < 3; attempt++) {
    const request = client.request({ method: "GET", path: "/" });
    await assert.rejects(request, isUpstreamFailure(/^Failed contacting the signer$/));
  }
  assert.equal(requests, 0);
});

Deno.test("JsonClient refuses TLS 1.2 (C10)", async () => {
  await using upstream = await startUpstream((_request, response) => response.end("{}"), {
    maxVersion: "TLSv1.2",
  });
  using client = connect(upstream.url);
  await assert.rejects(client.request({ method: "GET", path: "/" }), isUpstreamFailure(/^Failed contacting/));
});

Deno.test("JsonClient fails when nobody listens, and when nobody speaks TLS", async () => {
  using refused = connect("https://127.0.0.1:1");
  await assert.rejects(
    refused.request({ method: "GET", path: "/" }),
    isUpstreamFailure(/^Failed contacting/),
  );
  using silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  using mute = connect(`https://127.0.0.1:${silent.addr.port}`, { timeoutMs: SHORT_MS });
  await assert.rejects(
    mute.request({ method: "GET", path: "/" }),
    isUpstreamFailure(/^Timed out contacting/),
  );
});

Deno.test("JsonClient stops when the signal is aborted, before and during a request", async () => {
  const received = Promise.withResolvers<void>();
  const disconnected = Promise.withResolvers<void>();
  await using upstream = await startUpstream((_request, response) => {
    received.resolve();
    response.on("close", disconnected.resolve);
  });
  using client = connect(upstream.url);
  const isCanceled = (error: unknown) => error instanceof AppError && error.code === "canceled";
  const early = client.request({ method: "GET", path: "/", signal: AbortSignal.abort() });
  await assert.rejects(early, isCanceled);
  const controller = new AbortController();
  const running = client.request({ method: "GET", path: "/", signal: controller.signal });
  await received.promise;
  controller.abort();
  await assert.rejects(running, isCanceled);
  await disconnected.promise;
});

Deno.test.each([
  { name: "a URL without TLS", change: { baseUrl: "http://127.0.0.1:1" } },
  { name: "no URL", change: { baseUrl: "signer" } },
  { name: "no CA", change: { ca: "" } },
  { name: "another certificate's key", change: { key: serverIdentity.key } },
])("JsonClient refuses $name", ({ change }) => {
  assert.throws(
    () => connect("https://127.0.0.1:1", change).close(),
    (error) => error instanceof AppError && error.code === "invalid_config",
  );
});
