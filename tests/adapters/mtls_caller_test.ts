import assert from "node:assert/strict";
import { connect } from "node:tls";
import { loadSsh2 } from "../../broker/ssh/ssh2_library.ts";
import {
  broker,
  ca,
  foreignCa,
  hello,
  type Identity,
  issue,
  RawConnection,
  renewed,
  REQUEST,
  serverIdentity,
  startServer,
  statusOf,
  withFetch,
} from "./mtls_fixture.ts";
import * as z from "@zod/zod";
import { AppError } from "@gateway/shared/errors";
import { FRESH_SECONDS, keepListenerFresh, readJsonBody } from "@gateway/shared/http";
import { join } from "node:path";
import { FakeClock } from "@gateway/shared/testing";
import { poll } from "../stage/poll.ts";

const client = (cn: string) => ({ subject: [{ CN: [cn] }], usage: "client" as const });

Deno.test.each<{ readonly name: string; readonly identity: () => Promise<Identity | undefined> }>([
  { name: "no certificate", identity: () => Promise.resolve(undefined) },
  { name: "a foreign CA of the same name", identity: () => issue(client("broker-1"), "foreign") },
  {
    name: "an expired certificate",
    identity: () =>
      issue({ ...client("broker-1"), notBefore: new Date("2020-01-01"), notAfter: new Date("2021-01-01") }),
  },
  {
    name: "a certificate that is not valid yet",
    identity: () => issue({ ...client("broker-1"), notBefore: new Date(Date.now() + 3_600_000) }),
  },
  { name: "a server's certificate", identity: () => issue({ subject: "CN=broker-1", usage: "server" }) },
  { name: "two CNs", identity: () => issue({ subject: "CN=broker-1,CN=admin", usage: "client" }) },
  { name: "no CN", identity: () => issue({ subject: "O=gateway", usage: "client" }) },
  { name: "an empty subject (I8)", identity: () => issue({ subject: "", usage: "client" }) },
  { name: "a line break in the CN (I8)", identity: () => issue(client("broker-1\nadmin")) },
])("startMtlsServer() answers 401 to $name, also when the TLS session is resumed", async ({ identity }) => {
  let handled = 0;
  await using server = await startServer((request, peer) => {
    handled++;
    return hello(request, peer);
  });
  await withFetch(await identity(), async (fetch) => {
    // The second and third connection resume the session of the first.
    for (let attempt = 0; attempt < 3; attempt++) {
      const response = await fetch(server.url, { method: "POST", body: "{" });
      assert.equal(response.status, 401);
      assert.equal((await response.json()).code, "unauthenticated");
    }
  });
  assert.equal(handled, 0);
});

Deno.test("startMtlsServer() passes the CN of a verified certificate to the handler, also in a resumed TLS session", async () => {
  await using server = await startServer(hello);
  await withFetch(broker, async (fetch) => {
    for (let attempt = 0; attempt < 3; attempt++) {
      const response = await fetch(server.url);
      assert.deepEqual([response.status, await response.text()], [200, "hello broker-1\n"]);
    }
  });
});

Deno.test("startMtlsServer() rejects a TLS session of a listener with a different CA", async () => {
  const stranger = await issue(client("broker-1"), "foreign");
  await using lenient = await startServer(hello, { clientCa: foreignCa });
  await using strict = await startServer(hello);
  await withFetch(stranger, async (fetch) => {
    assert.equal((await fetch(lenient.url)).status, 200);
    assert.equal((await fetch(strict.url)).status, 401);
    assert.equal((await fetch(strict.url)).status, 401);
  });
});

Deno.test("startMtlsServer() rejects TLS 1.2", async () => {
  await using server = await startServer(hello);
  const socket = connect({ port: server.port, host: "127.0.0.1", ca, ...broker, maxVersion: "TLSv1.2" });
  const outcome = await new Promise<string>((resolve) => {
    socket.on("error", () => resolve("refused"));
    socket.on("secureConnect", () => resolve(`accepted ${socket.getProtocol()}`));
  });
  socket.destroy();
  assert.equal(outcome, "refused");
});

Deno.test("startMtlsServer() answers 401 instead of 400 to malformed HTTP of an unknown caller", async () => {
  await using server = await startServer(hello);
  using connection = await RawConnection.open(server.port, await issue(client("broker-1"), "foreign"));
  await connection.write("\0\r\n\r\n");
  assert.match(await connection.read(), /^HTTP\/1\.1 401 /);
});

Deno.test("startMtlsServer() answers malformed HTTP without another caller's request ID", async () => {
  // With a lazy import within a request, Deno 2.9.6 assigns later node events to that request.
  await using server = await startServer(async (request, caller) => {
    await loadSsh2();
    return hello(request, caller);
  });
  using first = await RawConnection.open(server.port);
  await first.get();
  using second = await RawConnection.open(server.port);
  await second.write("\0\r\n\r\n");
  const answer = await second.read();
  assert.match(answer, /^HTTP\/1\.1 400 /);
  assert.doesNotMatch(answer, /request_id/);
});

const SHORT = { headersMs: 1_000, requestMs: 2_000 };
const LIMIT = 65_536;
const echoLength = async (request: Request) => {
  const { text } = await readJsonBody(request, { maxBytes: LIMIT, schema: z.object({ text: z.string() }) });
  return Response.json({ length: text.length });
};
const bodyOf = (bytes: number) => JSON.stringify({ text: "a".repeat(bytes - '{"text":""}'.length) });

Deno.test.each([
  { name: "64 KiB", body: () => bodyOf(LIMIT), status: 200 },
  { name: "64 KiB and one byte", body: () => bodyOf(LIMIT + 1), status: 413 },
  { name: "64 KiB and one byte of unknown length", body: () => streamOf(bodyOf(LIMIT + 1)), status: 413 },
  { name: "64 KiB in pieces", body: () => streamOf(bodyOf(LIMIT)), status: 200 },
  { name: "8 MiB", body: () => bodyOf(8 << 20), status: 413 },
])("startMtlsServer() with readJsonBody() answers $status to $name", async ({ body, status }) => {
  await using server = await startServer(echoLength);
  await withFetch(broker, async (fetch) => {
    const headers = { "content-type": "application/json; charset=utf-8" };
    const response = await fetch(server.url, { method: "POST", headers, body: body() });
    await response.body?.cancel();
    assert.equal(response.status, status);
  });
  assert.deepEqual(server.errors, []);
});

function streamOf(text: string): ReadableStream<Uint8Array<ArrayBuffer>> {
  const bytes = new TextEncoder().encode(text);
  return ReadableStream.from([0, 1, 2].map((third) => {
    const size = Math.ceil(bytes.length / 3);
    return bytes.slice(third * size, (third + 1) * size);
  }));
}

const HEAD = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";

Deno.test("startMtlsServer() answers 408 to a body that stops halfway", async () => {
  const outcome = Promise.withResolvers<unknown>();
  await using server = await startServer((request) => {
    const answer = echoLength(request);
    answer.catch(outcome.resolve);
    return answer;
  }, { timeouts: SHORT });
  using connection = await RawConnection.open(server.port);
  await connection.write(`${HEAD}Content-Length: 100\r\n\r\n{"text":`);
  assert.match(await connection.read(), /^HTTP\/1\.1 408 .*"code":"timeout"/s);
  const error = await outcome.promise;
  assert.ok(error instanceof AppError && error.code === "invalid_request", String(error));
});

Deno.test.each([
  { name: "with a length", text: `${HEAD}Content-Length: 100\r\n\r\n{"text":` },
  { name: "in chunks", text: `${HEAD}Transfer-Encoding: chunked\r\n\r\n8\r\n{"text":\r\n` },
])("readJsonBody() fails if the client truncates a body $name", async ({ text }) => {
  const started = Promise.withResolvers<void>();
  const outcome = Promise.withResolvers<unknown>();
  await using server = await startServer((request) => {
    started.resolve();
    const answer = echoLength(request);
    answer.catch(outcome.resolve);
    return answer;
  });
  {
    using connection = await RawConnection.open(server.port);
    await connection.write(text);
    await started.promise;
  }
  const error = await outcome.promise;
  assert.ok(error instanceof AppError && error.code === "invalid_request", String(error));
  assert.deepEqual(server.errors, []);
});

const LIST = "the list of denied callers";

/** A listener that accepts the certificates of a directory and reports rejections. */
async function startFresh() {
  const folder = await Deno.makeTempDir();
  const at = (name: string) => join(folder, name);
  const put = (name: string, text: string) => Deno.writeTextFile(at(name), text);
  await put("server.crt", serverIdentity.cert);
  await put("server.key", serverIdentity.key);
  await put("ca.crt", ca);
  await put("denied", "");
  const server = await startServer(hello);
  const clock = new FakeClock();
  const stop = new AbortController();
  const lines: string[] = [];
  const say = (text: string) => void lines.push(text);
  const current = { ...serverIdentity, clientCa: ca, denied: new Set<string>() };
  const files = {
    ...{ server_cert: at("server.crt"), server_key: at("server.key") },
    ...{ client_ca: at("ca.crt"), denied_callers: at("denied") },
  };
  const options = { clock, signal: stop.signal, logger: { info: say, warn: say }, current };
  const running = keepListenerFresh(options, files, server.server);
  return {
    ...server,
    lines,
    put,
    remove: (name: string) => Deno.remove(at(name)),
    async look() {
      // Certificates and the list are checked separately. Each check reads the disk and then sleeps.
      const rest = () => poll(() => clock.sleeping === 2, { what: "both to have looked", intervalMs: 1 });
      await rest();
      await clock.advance(FRESH_SECONDS * 1000);
      await rest();
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
      await server.server.close();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

Deno.test(`${LIST} takes effect although a renewal failed, and closes open connections`, async () => {
  await using listener = await startFresh();
  using open = await RawConnection.open(listener.port);
  assert.match(await open.get(), /200/);
  await listener.put("server.crt", renewed.cert);
  await listener.put("denied", "broker-1\n");
  await listener.look();
  await open.write(REQUEST).catch(() => undefined);
  assert.equal(await open.read(), "");
  assert.equal(await statusOf(listener.url), 401);
});

Deno.test(`${LIST} keeps its last valid version if broken or missing, and certificates still renew`, async () => {
  await using listener = await startFresh();
  await listener.put("denied", "broker-1\n");
  await listener.look();
  for (const breakIt of [() => listener.put("denied", "broker-1\nbrok"), () => listener.remove("denied")]) {
    await breakIt();
    await listener.look();
    assert.equal(await statusOf(listener.url), 401);
    assert.equal(listener.lines.at(-1), "denied_callers not reloaded, keeping the previous version");
  }
  await listener.put("server.key", renewed.key);
  await listener.put("server.crt", renewed.cert);
  await listener.look();
  assert.equal(listener.lines.at(-1), "the listener's certificates reloaded");
  assert.equal(await statusOf(listener.url), 401);
});

Deno.test("a caller denied during a response receives no more of it", async () => {
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  const { promise: asked, resolve: arrive } = Promise.withResolvers<void>();
  await using server = await startServer(async () => {
    arrive();
    await held;
    return new Response("a secret");
  });
  using open = await RawConnection.open(server.port);
  await open.write(REQUEST);
  await asked;
  server.server.deny(new Set(["broker-1"]));
  release();
  assert.equal(await open.read(), "");
});
