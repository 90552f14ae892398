import assert from "node:assert/strict";
import { createServer, type TLSSocket } from "node:tls";
import { poll } from "../stage/poll.ts";
import { connect, HANGS_MS, isUpstreamFailure, SHORT_MS, startUpstream } from "./json_client_fixture.ts";
import { serverIdentity } from "./mtls_fixture.ts";
import { AppError } from "@gateway/shared/errors";

const OK = "HTTP/1.1 200 OK\r\n";
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`;
const GET = { method: "GET", path: "/" } as const;

interface HostileServer extends Disposable {
  readonly url: string;
  readonly sockets: readonly TLSSocket[];
  /** The requests as received bytes. */
  readonly received: readonly string[];
}

async function startHostile(answer: (socket: TLSSocket, index: number) => void): Promise<HostileServer> {
  const sockets: TLSSocket[] = [];
  const received: string[] = [];
  const server = createServer(serverIdentity, (socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      received.push(bytes.toString("latin1"));
      answer(socket, received.length);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  return {
    url: `https://127.0.0.1:${address.port}`,
    sockets,
    received,
    [Symbol.dispose]() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

Deno.test.each<{ name: string; bytes: string; text?: string; status?: number }>([
  { name: "a body of a length", bytes: `${OK}Content-Length: 2\r\n\r\n{}`, text: "{}" },
  { name: "no content", bytes: "HTTP/1.1 204 No Content\r\n\r\n", status: 204 },
  { name: "chunks before a trailer", bytes: `${CHUNKED}1\r\nx\r\n0\r\ny: z\r\n\r\n`, text: "x" },
  { name: "chunks", bytes: `${CHUNKED}3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n`, text: "abc0123456789" },
])("JsonClient reads $name, whole or byte by byte", async ({ bytes, text = "", status = 200 }) => {
  using server = await startHostile(async (socket, index) => {
    for (const piece of index === 1 ? [bytes] : bytes) {
      await new Promise((resolve) => socket.write(piece, "latin1", resolve));
    }
  });
  using client = connect(server.url);
  for (let attempt = 0; attempt < 2; attempt++) {
    const answer = await client.request(GET);
    assert.deepEqual([answer.status, answer.text], [status, text]);
  }
});

Deno.test("JsonClient returns headers by lowercase name and joins repeated ones", async () => {
  using server = await startHostile((socket) =>
    socket.write(
      `${OK}Retry-After: 7\r\nX-A: 1\r\nx-a: \xe9 2\r\n__proto__: z\r\ncontent-length: 0\r\n\r\n`,
      "latin1",
    )
  );
  using client = connect(server.url);
  const { headers } = await client.request(GET);
  assert.deepEqual([headers["retry-after"], headers["x-a"]], ["7", "1, \xe9 2"]);
  assert.equal(Object.getPrototypeOf(headers), null);
});

Deno.test.each([
  { name: "another protocol", bytes: "SSH-2.0-OpenSSH_9.2\r\n\r\n" },
  { name: "an interim answer", bytes: "HTTP/1.1 100 Continue\r\n\r\n" },
  { name: "early hints", bytes: `HTTP/1.1 103 Early Hints\r\n\r\n${OK}content-length: 0\r\n\r\n` },
  { name: "an upgrade", bytes: "HTTP/1.1 101 S\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n" },
  { name: "no length", bytes: `${OK}\r\nx` },
  {
    name: "a body without length until the connection closes",
    bytes: `${OK}connection: close\r\n\r\nx`,
    closes: true,
  },
  {
    name: "a body truncated by the end of the connection",
    bytes: `${OK}content-length: 2\r\n\r\nx`,
    closes: true,
  },
  { name: "chunks that the end of the connection cuts", bytes: `${CHUNKED}1\r\nx\r\n`, closes: true },
  { name: "two lengths", bytes: `${OK}content-length: 1\r\ncontent-length: 1\r\n\r\nx` },
  {
    name: "both a length and chunks",
    bytes: `${OK}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  },
  { name: "another coding", bytes: `${OK}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n` },
  {
    name: "two chunked headers",
    bytes: `${OK}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  },
  { name: "a chunk that is longer", bytes: `${CHUNKED}1\r\nab\r\n0\r\n\r\n` },
  { name: "a head without end", bytes: `${OK}x: ${"y".repeat(17_000)}` },
  { name: "a head that is too long", bytes: `${OK}x: ${"y".repeat(17_000)}\r\ncontent-length: 0\r\n\r\n` },
])("JsonClient fails on $name", async ({ bytes, closes = false }) => {
  using server = await startHostile((socket) =>
    closes ? socket.end(bytes, "latin1") : socket.write(bytes, "latin1")
  );
  using client = connect(server.url, { timeoutMs: HANGS_MS });
  await assert.rejects(client.request(GET), isUpstreamFailure(/^Failed contacting the signer$/));
  await poll(() => server.sockets[0]?.destroyed === true, { what: "the client to close the connection" });
  assert.equal(server.received.length, 1);
});

Deno.test.each([
  { name: "announced", bytes: `${OK}content-length: 1001\r\n\r\n` },
  { name: "that comes", bytes: `${CHUNKED}3e9\r\n${"x".repeat(1001)}` },
])("JsonClient rejects a body beyond the limit ($name)", async ({ bytes }) => {
  using server = await startHostile((socket) => socket.write(bytes));
  using client = connect(server.url, { maxResponseBytes: 1000 });
  await assert.rejects(client.request(GET), isUpstreamFailure(/is larger than 1000 bytes$/));
});

Deno.test.each([
  { name: "in a header", head: `${OK}x: `, drip: "y" },
  { name: "in the status", head: "HTTP/1.1 200 ", drip: "y" },
  { name: "in the size of a chunk", head: `${CHUNKED}1;`, drip: "x" },
  { name: "in chunks of one byte", head: CHUNKED, drip: "1\r\nx\r\n" },
])("JsonClient times out on a response that sends bytes without end $name", async ({ head, drip }) => {
  using server = await startHostile((socket) => {
    socket.write(head);
    const timer = setInterval(() => socket.write(drip), 1);
    socket.on("close", () => clearInterval(timer));
  });
  using client = connect(server.url, { timeoutMs: SHORT_MS });
  await assert.rejects(client.request(GET), isUpstreamFailure(/^Timed out contacting the signer$/));
  await poll(() => server.sockets[0]?.destroyed === true, { what: "the client to close the connection" });
});

Deno.test.each([
  { name: "after a body", bytes: `${OK}content-length: 1\r\n\r\nx` },
  { name: "after the last chunk", bytes: `${CHUNKED}1\r\nx\r\n0\r\n\r\n` },
  { name: "after no content", bytes: "HTTP/1.1 204 No Content\r\n\r\n" },
])("JsonClient does not use extra bytes $name as the next response", async ({ bytes }) => {
  using server = await startHostile((socket, index) => {
    const forged = `${OK}content-length: 6\r\n\r\nforged`;
    socket.write(index === 1 ? bytes + forged : `${OK}content-length: 5\r\n\r\nright`);
  });
  using client = connect(server.url, { maxConnections: 1 });
  const [, second] = await Promise.allSettled([client.request(GET), client.request(GET)]);
  assert.equal(second.status === "fulfilled" && second.value.text, "right");
  assert.equal(server.sockets.length, 2);
});

Deno.test("JsonClient does not accept a response that came before its request", async () => {
  using server = await startHostile((socket) => socket.write(`${OK}content-length: 5\r\n\r\nright`));
  using client = connect(server.url, { maxConnections: 1 });
  const ask = async () => (await client.request(GET)).text;
  assert.equal(await ask(), "right");
  server.sockets[0]?.write(`${OK}content-length: 6\r\n\r\nforged`);
  await poll(() => server.sockets[0]?.destroyed === true, { what: "the client to close that connection" });
  assert.equal(await ask(), "right");
  assert.equal(server.sockets.length, 2);
});

/** The server closes an idle connection. The next request is sent once, on another connection. */
Deno.test.each([{ end: "end" }, { end: "reset" }] as const)(
  "JsonClient sends a request at most once after the server closed the idle connection ($end)",
  async ({ end }) => {
    using server = await startHostile((socket) => socket.write(`${OK}content-length: 0\r\n\r\n`));
    using client = connect(server.url, { maxConnections: 1 });
    const post = (path: string) => client.request({ method: "POST", path, body: {} });
    await post("/first");
    const [idle] = server.sockets;
    if (end === "end") idle?.end();
    else idle?.resetAndDestroy();
    // The client may notice this before or while it sends. It sends at most once.
    await post("/second").catch(() => {});
    await post("/third");
    for (const path of ["/second", "/third"]) {
      assert.ok(server.received.filter((text) => text.startsWith(`POST ${path} `)).length <= 1);
    }
  },
);

Deno.test("JsonClient ignores proxies of the environment", async () => {
  let isAsked = false;
  using proxy = await startHostile(() => isAsked = true);
  using server = await startHostile((socket) => socket.write(`${OK}content-length: 0\r\n\r\n`));
  const names = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
  for (const name of names) Deno.env.set(name, proxy.url);
  try {
    using client = connect(server.url);
    assert.equal((await client.request(GET)).status, 200);
  } finally {
    for (const name of names) Deno.env.delete(name);
  }
  assert.equal(isAsked, false);
});

/** If a request follows an answer in the same turn of the event loop, the connection is not free yet. */
Deno.test("JsonClient uses at most two connections for consecutive requests", async () => {
  await using upstream = await startUpstream((_request, response) => response.end("{}"));
  using client = connect(upstream.url);
  for (let attempt = 0; attempt < 9; attempt++) await client.request({ method: "GET", path: "/" });
  assert.ok(upstream.connections() <= 2);
});

/** The request is never sent again, however the exchange ends, even on a reused connection. */
Deno.test.each<{
  readonly name: string;
  readonly method: "GET" | "POST";
  readonly end: "cancel" | "time out" | "close";
  readonly queued?: boolean;
}>([
  { name: "a GET that is canceled", method: "GET", end: "cancel" },
  { name: "a POST that is canceled", method: "POST", end: "cancel" },
  {
    name: "a POST that is canceled while it waits for a connection",
    method: "POST",
    end: "cancel",
    queued: true,
  },
  { name: "a GET that takes too long", method: "GET", end: "time out" },
  { name: "a POST that takes too long", method: "POST", end: "time out" },
  { name: "a GET that the server hangs up on", method: "GET", end: "close" },
  { name: "a POST that the server hangs up on", method: "POST", end: "close" },
])("JsonClient sends only once $name", async ({ method, end, queued = false }) => {
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
  // On a busy machine, the timeout can expire before the request is sent.
  await (end === "time out" ? asking.catch(() => {}) : held.promise);
  if (end === "cancel") leaving.abort();
  await assert.rejects(asking, AppError);
  // Another exchange, after any retry would have been sent.
  await before;
  await client.request({ method: "GET", path: "/" });
  assert.ok(received === 1 || (end === "time out" && received === 0), `received ${received} times`);
});

Deno.test("JsonClient opens at most maxConnections connections and answers every request", async () => {
  const waiting: (() => void)[] = [];
  let answered = 0;
  await using upstream = await startUpstream((request, response) => {
    waiting.push(() => response.end(request.url));
    // In pairs, except the last: each answer waits until another request has arrived on another connection.
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

Deno.test("JsonClient does not send a request canceled while it waited for a connection", async () => {
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

Deno.test("closing JsonClient fails running and waiting requests", async () => {
  const received = Promise.withResolvers<void>();
  await using upstream = await startUpstream(() => received.resolve());
  const client = connect(upstream.url, { maxConnections: 1 });
  const asking = [1, 2].map(() => client.request({ method: "GET", path: "/" }));
  await received.promise;
  client.close();
  for (const each of asking) await assert.rejects(each, isUpstreamFailure(/^Failed contacting the signer$/));
});
