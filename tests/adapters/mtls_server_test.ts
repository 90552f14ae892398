import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { startMtlsServer } from "@gateway/shared/http";
import {
  broker,
  ca,
  hello,
  RawConnection,
  REQUEST,
  serverIdentity,
  startServer,
  withFetch,
} from "./mtls_fixture.ts";

/** Timeouts for clients that must be disconnected. */
const SHORT = { headersMs: 1_000, requestMs: 2_000, idleMs: 1_000, drainMs: 1_000 };
/** For clients that must stay connected on a busy machine. Their connections are closed soon after. */
const PATIENT = { headersMs: 60_000, requestMs: 60_000, idleMs: 300 };

const head = (target: string, ...lines: string[]) =>
  [`${target} HTTP/1.1`, "Host: x", ...lines].map((line) => `${line}\r\n`).join("");
const CLOSE = "Connection: close";

Deno.test.each<[status: number, name: string, text: string]>([
  [400, "a target that is not a path", `${head("GET http://other/", CLOSE)}\r\n`],
  [400, "an asterisk target", `${head("OPTIONS *", CLOSE)}\r\n`],
  [400, "no HTTP at all", "\0\x01\x02\r\n\r\n"],
  [400, "HTTP/2 without agreement", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
  [400, "two lengths", `${head("POST /", "Content-Length: 1", "Content-Length: 2")}\r\nab`],
  [
    400,
    "a length and chunks",
    `${head("POST /", "Content-Length: 5", "Transfer-Encoding: chunked")}\r\n0\r\n\r\n`,
  ],
  [
    400,
    "chunks over HTTP/1.0",
    "POST / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" +
    `0\r\n\r\n${REQUEST}`,
  ],
  [400, "headers of 20 KB", `${head("GET /", `X: ${"a".repeat(20_000)}`)}\r\n`],
  [408, "headers that do not end (R1)", `${head("GET /")}X: `],
])("startMtlsServer() answers %d to %s, exactly once", async (status, _name, text) => {
  const timeouts = status === 408 ? SHORT : PATIENT;
  await using server = await startServer(hello, { timeouts });
  using connection = await RawConnection.open(server.port);
  await connection.write(text);
  const answer = await connection.read();
  assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `));
  assert.match(answer, /^content-type: application\/problem\+json\r$/im);
  assert.equal(answer.split("HTTP/1.1 ").length, 2, "exactly one answer");
});

Deno.test.each([
  { name: "CONNECT", text: "CONNECT db:5432 HTTP/1.1\r\nHost: db:5432\r\n\r\n", answer: /^$/ },
  {
    name: "Upgrade",
    text: `${head("GET /", "Connection: Upgrade", "Upgrade: websocket")}\r\n`,
    answer: /^HTTP\/1\.1 200 .*hello broker-1\n$/s,
  },
  {
    name: "Expect: 100-continue",
    text: `${head("POST /", "Expect: 100-continue", "Content-Length: 2", CLOSE)}\r\n{}`,
    answer: /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 .*hello broker-1\n$/s,
  },
  {
    name: "pipelining",
    text: `${head("GET /1")}\r\n${head("GET /2", CLOSE)}\r\n`,
    answer: /^HTTP\/1\.1 200 .*hello broker-1\nHTTP\/1\.1 200 .*hello broker-1\n$/s,
  },
])("startMtlsServer() handles $name", async ({ text, answer }) => {
  await using server = await startServer(hello, { timeouts: PATIENT });
  using connection = await RawConnection.open(server.port);
  await connection.write(text);
  assert.match(await connection.read(), answer);
});

Deno.test("startMtlsServer() closes a connection that starts no TLS or sends no request (R1)", async () => {
  await using server = await startServer(hello, { timeouts: SHORT });
  using silent = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
  assert.equal(await silent.read(new Uint8Array(1)).catch(() => null), null);
  using quiet = await RawConnection.open(server.port);
  await quiet.read();
});

Deno.test("startMtlsServer() closes connections above the limit (R1)", async () => {
  await using server = await startServer(hello, { limits: { authenticated: 1, unauthenticated: 1 } });
  using first = await RawConnection.open(server.port);
  await first.get();
  await assert.rejects(async () => {
    using second = await RawConnection.open(server.port);
    assert.equal(await second.get(), "an answer");
  });
});

Deno.test("startMtlsServer() closes a connection with too many unanswered requests (R1)", async () => {
  let handled = 0;
  const finish = Promise.withResolvers<void>();
  await using server = await startServer(async () => {
    handled += 1;
    await finish.promise;
    return new Response("late");
  });
  using connection = await RawConnection.open(server.port);
  await connection.write(REQUEST.repeat(1000)).catch(() => {});
  assert.equal(await connection.read(), "");
  finish.resolve();
  assert.equal(handled, 16);
});

Deno.test("startMtlsServer() answers any number of consecutive requests on a connection", async () => {
  await using server = await startServer(hello);
  using connection = await RawConnection.open(server.port);
  for (let count = 0; count < 40; count++) {
    assert.match(await connection.get("hello broker-1\n"), /^HTTP\/1\.1 200 /);
  }
});

Deno.test("startMtlsServer() aborts the request's signal when the client disconnects", async () => {
  const started = Promise.withResolvers<void>();
  const aborted = Promise.withResolvers<unknown>();
  await using server = await startServer((request) => {
    request.signal.addEventListener("abort", () => aborted.resolve(request.signal.reason));
    started.resolve();
    return new Promise(() => {});
  });
  {
    using connection = await RawConnection.open(server.port);
    await connection.write(REQUEST);
    await started.promise;
  }
  const reason = await aborted.promise;
  assert.ok(reason instanceof AppError && reason.code === "canceled");
});

Deno.test("startMtlsServer() gives a handler more time than a client gets for its request", async () => {
  const finish = Promise.withResolvers<void>();
  await using server = await startServer(async (request) => {
    await request.text();
    await finish.promise;
    return new Response("finished");
  }, { timeouts: SHORT });
  using patient = await RawConnection.open(server.port);
  await patient.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
  for (let slow = 0; slow < 2; slow++) {
    using connection = await RawConnection.open(server.port);
    await connection.write("GET / HTTP/1.1\r\n");
    assert.match(await connection.read(), /^HTTP\/1\.1 408 /);
  }
  finish.resolve();
  assert.match(await patient.read("finished"), /^HTTP\/1\.1 200 /);
});

Deno.test("startMtlsServer() does not abort the signal of an answered request", async () => {
  const signals: AbortSignal[] = [];
  await using server = await startServer((request) => {
    signals.push(request.signal);
    return new Response("done");
  });
  await withFetch(broker, async (fetch) => await (await fetch(server.url)).text());
  await server.server.close();
  assert.deepEqual(signals.map(({ aborted }) => aborted), [false]);
});

Deno.test("startMtlsServer() answers 500 with a request ID and without the error that a handler throws", async () => {
  await using server = await startServer(() => {
    throw new Error("cannot open /etc/gateway/ca_key");
  });
  await withFetch(broker, async (fetch) => {
    const response = await fetch(server.url);
    const text = await response.text();
    assert.equal(response.status, 500);
    assert.doesNotMatch(text, /ca_key/);
    assert.match(JSON.parse(text).request_id, /^[0-9a-f-]{36}$/);
  });
  assert.equal(server.errors.length, 1);
});

Deno.test("startMtlsServer() answers with the status of an AppError and reports only faults", async () => {
  await using server = await startServer(() => {
    throw new AppError("rate_limited", "Too many", { retryAfterSeconds: 2 });
  });
  await withFetch(broker, async (fetch) => {
    const response = await fetch(server.url);
    await response.body?.cancel();
    assert.equal(response.status, 429);
    assert.equal(response.headers.get("retry-after"), "2");
  });
  assert.deepEqual(server.errors, []);
});

Deno.test("startMtlsServer() passes a standard Request to handlers", async () => {
  await using server = await startServer(async (request) => {
    assert.ok(request instanceof Request);
    const copy = request.clone();
    return Response.json({
      method: request.method,
      path: new URL(request.url).pathname,
      header: request.headers.get("x-test"),
      text: await request.text(),
      copy: await copy.text(),
      used: request.bodyUsed,
    });
  });
  await withFetch(broker, async (fetch) => {
    const headers = { "x-test": "1" };
    const response = await fetch(`${server.url}/a/../b//c?d=%2F`, { method: "PUT", headers, body: "äöü" });
    const texts = { text: "äöü", copy: "äöü" };
    assert.deepEqual(await response.json(), {
      method: "PUT",
      path: "/b//c",
      header: "1",
      ...texts,
      used: true,
    });
  });
});

Deno.test("startMtlsServer() streams events immediately and stops when the client disconnects", async () => {
  const stopped = Promise.withResolvers<void>();
  let send: (text: string) => void = () => {};
  await using server = await startServer(() => {
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start: (controller) => {
        send = (text) => controller.enqueue(new TextEncoder().encode(text));
        send("data: 1\n\n");
      },
      cancel: () => stopped.resolve(),
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  });
  {
    using connection = await RawConnection.open(server.port);
    await connection.get("data: 1");
    send("data: 2\n\n");
    await connection.read("data: 2");
  }
  await stopped.promise;
});

Deno.test("startMtlsServer() completes running requests on close and accepts no new ones", async () => {
  const started = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  const server = await startServer(async () => {
    started.resolve();
    await finish.promise;
    return new Response("finished");
  });
  using idle = await RawConnection.open(server.port);
  using busy = await RawConnection.open(server.port);
  await busy.write(REQUEST);
  await started.promise;
  const closed = server.server.close();
  await assert.rejects(async () => {
    using late = await RawConnection.open(server.port);
    await late.write(REQUEST);
    assert.equal(await late.read(), "an answer");
  });
  await idle.read();
  finish.resolve();
  assert.match(await busy.read("finished"), /^HTTP\/1\.1 200 /);
  await closed;
});

Deno.test("startMtlsServer() closes requests that do not finish within the drain time", async () => {
  const started = Promise.withResolvers<void>();
  const server = await startServer(() => {
    started.resolve();
    return new Promise(() => {});
  }, { timeouts: { drainMs: 100 } });
  using connection = await RawConnection.open(server.port);
  await connection.write(REQUEST);
  await started.promise;
  await server.server.close();
  assert.equal(await connection.read(), "");
});

Deno.test.each([
  { name: "a port in use", change: (port: number) => ({ listen: `127.0.0.1:${port}` }) },
  { name: "a malformed address", change: () => ({ listen: "9443" }) },
  { name: "an invalid certificate", change: () => ({ cert: "no PEM" }) },
  { name: "an invalid CA", change: () => ({ clientCa: "no PEM" }) },
  { name: "no CA", change: () => ({ clientCa: "" }) },
  { name: "another certificate's key", change: () => ({ key: broker.key }) },
])("startMtlsServer() rejects $name", async ({ change }) => {
  await using server = await startServer(hello);
  const options = { listen: "127.0.0.1:0", ...serverIdentity, clientCa: ca, handler: hello, onError() {} };
  const starting = startMtlsServer({ ...options, ...change(server.port) });
  await assert.rejects(starting.then((started) => started.close()), {
    name: "AppError",
    code: "invalid_config",
  });
});
