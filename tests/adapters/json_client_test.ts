import assert from "node:assert/strict";
import type { RequestListener } from "node:http";
import type { ServerOptions } from "node:https";
import { AppError } from "@gateway/shared/errors";
import { connect, HANGS_MS, isUpstreamFailure, SHORT_MS, startUpstream } from "./json_client_fixture.ts";
import { broker, ca, foreignCa, issue, serverIdentity, startServer } from "./mtls_fixture.ts";
import { fileURLToPath } from "node:url";

const GET = { method: "GET", path: "/" } as const;

const LARGER = /^The answer of the signer is larger than 1000 bytes$/;
const FAILED = /^Failed contacting the signer$/;
const TIMED_OUT = /^Timed out contacting the signer$/;

async function countingUpstream(options: ServerOptions = {}) {
  const counted = { requests: 0 };
  const upstream = await startUpstream((_request, response) => {
    counted.requests += 1;
    response.end("{}");
  }, options);
  return Object.assign(upstream, { counted });
}

Deno.test("JsonClient reads a response that arrives in pieces", async () => {
  const long = () => Response.json({ long: "x".repeat(1_000_000) });
  await using server = await startServer(long, { isPaced: true });
  using client = connect(server.url);
  for (let time = 0; time < 2; time++) {
    const { status, text } = await client.request(GET);
    assert.deepEqual([status, text.length], [200, 1_000_011]);
  }
});

Deno.test("JsonClient sends its certificate and exact JSON, and reuses the connection", async () => {
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

Deno.test.each<{ readonly name: string; readonly path?: string; readonly headers?: Record<string, string> }>([
  { name: "a line break in the path", path: "/ HTTP/1.1\r\nx: y" },
  { name: "a space in the path", path: "/a b" },
  { name: "a line break in a header", headers: { "x-on-behalf-of": "a\r\nx-admin: 1" } },
  { name: "a character that is not a byte in a header", headers: { "x-on-behalf-of": "\u0416" } },
  { name: "a colon in a header's name", headers: { "a: b": "c" } },
])("JsonClient sends no request with $name", async ({ path = "/", headers = {} }) => {
  await using upstream = await countingUpstream();
  using client = connect(upstream.url);
  const request = client.request({ method: "GET", path, headers });
  await assert.rejects(request, isUpstreamFailure(FAILED));
  assert.equal(upstream.counted.requests, 0);
});

Deno.test("JsonClient returns error responses with parsed problem bodies", async () => {
  await using server = await startServer(() => {
    throw new AppError("frozen", "Caller is frozen");
  });
  using client = connect(server.url);
  const { status, body } = await client.request(GET);
  assert.equal(status, 403);
  assert.equal(body !== null && typeof body === "object" && "code" in body && body.code, "frozen");
});

Deno.test.each<[name: string, listener: RequestListener, message: RegExp]>([
  ["an answer larger than allowed", (_request, response) => response.end("x".repeat(2000)), LARGER],
  ["an answer without end (C10)", (_request, response) => {
    const timer = setInterval(() => response.write("x".repeat(400)), 1);
    response.on("close", () => clearInterval(timer));
  }, LARGER],
  [
    "text that claims to be JSON",
    (_request, response) => response.setHeader("content-type", "application/json").end("{}x"),
    /^The answer of the signer is not valid JSON$/,
  ],
  ["bytes that are not UTF-8", (_request, response) => response.end(Uint8Array.of(0xff)), FAILED],
  ["an answer that breaks off (R9)", (_request, response) => {
    response.writeHead(200, { "content-length": "100" });
    response.write("x", () => response.destroy());
  }, /^(The answer of the signer broke off|Failed contacting the signer)$/],
  ["no answer", (_request, response) => void response.destroy(), FAILED],
  ["an answer that never comes", () => {}, TIMED_OUT],
  ["a body that never ends", (_request, response) => void response.writeHead(200).write("x"), TIMED_OUT],
])("JsonClient fails on %s", async (_name, listener, message) => {
  const timeoutMs = message === TIMED_OUT ? SHORT_MS : HANGS_MS;
  await using upstream = await startUpstream(listener);
  using client = connect(upstream.url, { maxResponseBytes: 1000, timeoutMs });
  await assert.rejects(client.request(GET), isUpstreamFailure(message));
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

Deno.test("JsonClient fails if no server listens, and if the server does not speak TLS", async () => {
  using refused = connect("https://127.0.0.1:1");
  await assert.rejects(refused.request(GET), isUpstreamFailure(FAILED));
  using silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  using mute = connect(`https://127.0.0.1:${silent.addr.port}`, { timeoutMs: SHORT_MS });
  await assert.rejects(mute.request(GET), isUpstreamFailure(TIMED_OUT));
});

Deno.test("JsonClient stops when the signal is aborted, before and during a request", async () => {
  const received = Promise.withResolvers<void>();
  const disconnected = Promise.withResolvers<void>();
  await using upstream = await startUpstream((_request, response) => {
    received.resolve();
    response.on("close", disconnected.resolve);
  });
  using client = connect(upstream.url);
  const isCanceled = { name: "AppError", code: "canceled" };
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
])("JsonClient rejects $name", ({ change }) => {
  const refusal = { name: "AppError", code: "invalid_config" };
  assert.throws(() => connect("https://127.0.0.1:1", change).close(), refusal);
});

Deno.test("JsonClient rejects a server of another CA with the same name on every attempt", async () => {
  await using upstream = await countingUpstream();
  using client = connect(upstream.url, { ca: foreignCa });
  for (let attempt = 0; attempt < 3; attempt++) {
    await assert.rejects(client.request(GET), isUpstreamFailure(FAILED));
  }
  assert.equal(upstream.counted.requests, 0);
});

const HERE = ["127.0.0.1"];
const PAST = { notBefore: new Date("2020-01-01"), notAfter: new Date("2021-01-01") };
Deno.test.each(
  [
    { name: "for another host", usage: "server", subjectAltNames: ["signer.example"], dates: {} },
    { name: "for clients only", usage: "client", subjectAltNames: HERE, dates: {} },
    { name: "that has expired", usage: "server", subjectAltNames: HERE, dates: PAST },
  ] as const,
)("JsonClient rejects a certificate $name on every attempt", async ({ dates, usage, subjectAltNames }) => {
  const identity = await issue({ subject: "CN=127.0.0.1", usage, subjectAltNames, ...dates });
  await using upstream = await countingUpstream(identity);
  using client = connect(upstream.url);
  for (let attempt = 0; attempt < 3; attempt++) {
    await assert.rejects(client.request(GET), isUpstreamFailure(FAILED));
  }
  assert.equal(upstream.counted.requests, 0);
});

Deno.test("JsonClient rejects TLS 1.2 (C10)", async () => {
  await using upstream = await startUpstream((_request, response) => response.end("{}"), {
    maxVersion: "TLSv1.2",
  });
  using client = connect(upstream.url);
  await assert.rejects(client.request(GET), isUpstreamFailure(FAILED));
});

Deno.test("JsonClient trusts no CA of the system or the environment", async () => {
  await using upstream = await countingUpstream();
  const roots = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(roots, ca);
    const alone = fileURLToPath(new URL("json_client_alone.ts", import.meta.url));
    const { stdout } = await new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "--quiet", "--no-check", "--cached-only", "--ignore-env", "--allow-net=127.0.0.1", alone],
        ...[upstream.url, JSON.stringify({ ...broker, ca: foreignCa })],
      ],
      env: { DENO_CERT: roots, NODE_EXTRA_CA_CERTS: roots, SSL_CERT_FILE: roots },
    }).output();
    const [fetched, asked] = JSON.parse(new TextDecoder().decode(stdout));
    assert.equal(fetched, 200, "the process itself trusts the CA");
    assert.match(asked, /Failed contacting the service/);
  } finally {
    await Deno.remove(roots);
  }
  assert.equal(upstream.counted.requests, 1);
});
