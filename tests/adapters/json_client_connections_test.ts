import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { connect, HANGS_MS, isUpstreamFailure, SHORT_MS, startUpstream } from "./json_client_fixture.ts";

/** A request that follows an answer in the same turn of the event loop finds its connection not free yet. */
Deno.test("JsonClient uses two connections at most for requests in a row", async () => {
  await using upstream = await startUpstream((_request, response) => response.end("{}"));
  using client = connect(upstream.url);
  for (let attempt = 0; attempt < 9; attempt++) await client.request({ method: "GET", path: "/" });
  assert.ok(upstream.connections() <= 2);
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
