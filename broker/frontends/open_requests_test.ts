import assert from "node:assert/strict";
import { OpenRequests, type RequestId } from "./open_requests.ts";

const call = (id: unknown) => ({ jsonrpc: "2.0", id, method: "tools/call", params: {} });
const ping = (id: unknown) => ({ jsonrpc: "2.0", id, method: "ping" });
const answer = (id: RequestId) => ({ jsonrpc: "2.0", id, result: {} });
const cancel = (requestId: unknown) => ({
  jsonrpc: "2.0",
  method: "notifications/cancelled",
  params: { requestId },
});
const IN_USE = { code: "invalid_request", message: /^the id .* belongs to a request/ };

Deno.test.each<{ name: string; first: readonly unknown[]; then: readonly unknown[] }>([
  { name: "a call of the same id", first: [call(7)], then: [call(7)] },
  { name: "any other request of the same id", first: [call(7)], then: [ping(7)] },
  { name: "a batch with the id in it", first: [call(7)], then: [call(8), call(7)] },
  { name: "a batch that has an id twice", first: [], then: [call("x"), ping("x")] },
  { name: "an id of a batch that is answered in part", first: [call(7), call(8)], then: [call(8)] },
])("OpenRequests refuses $name, and all that came with it", ({ first, then }) => {
  const requests = new OpenRequests();
  requests.begin(first);
  assert.throws(() => requests.begin(then), IN_USE);
  requests.begin([call(9), call("8")]);
});

Deno.test("OpenRequests takes an id again that has been answered", () => {
  const requests = new OpenRequests();
  requests.begin([call(7)]);
  requests.sent(answer(7));
  requests.begin([call(7)]);
});

Deno.test("OpenRequests keeps the ids of a batch until all of it is answered, as the library does", () => {
  const requests = new OpenRequests();
  requests.begin([call(7), call(8)]);
  requests.sent(answer(7));
  assert.throws(() => requests.begin([call(7)]), IN_USE);
  requests.sent({ jsonrpc: "2.0", id: 8, error: { code: 1, message: "" } });
  requests.begin([call(7), call(8)]);
});

Deno.test("OpenRequests keeps the id of a call that is cancelled until the call has ended", async () => {
  const requests = new OpenRequests();
  requests.begin([call(7)]);
  const stop = new AbortController();
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  requests.watch({ id: 7, signal: stop.signal, ended });
  requests.begin([cancel(7)]);
  stop.abort();
  assert.throws(() => requests.begin([call(7)]), IN_USE);
  resolve();
  await ended;
  await Promise.resolve();
  requests.begin([call(7)]);
});

Deno.test("OpenRequests gives an id free of a call that is cancelled when its answer is ready", async () => {
  const requests = new OpenRequests();
  requests.begin([call(7)]);
  const stop = new AbortController();
  requests.watch({ id: 7, signal: stop.signal, ended: Promise.resolve() });
  await Promise.resolve();
  assert.throws(() => requests.begin([call(7)]), IN_USE);
  stop.abort();
  requests.begin([call(7)]);
});

Deno.test.each<{ name: string; message: unknown }>([
  { name: "a notification", message: { jsonrpc: "2.0", method: "x" } },
  { name: "an answer of the client", message: answer(7) },
  { name: "no id", message: call(null) },
  { name: "no message", message: "x" },
  { name: "nothing", message: null },
])("OpenRequests has nothing against $name twice", ({ message }) => {
  const requests = new OpenRequests();
  requests.begin([message, message]);
  requests.begin([message]);
});

Deno.test("OpenRequests forgets what the library did not take, and what is cancelled before it was one", () => {
  const requests = new OpenRequests();
  const abandon = requests.begin([call(7)]);
  abandon[Symbol.dispose]();
  requests.begin([call(7)]);
  abandon[Symbol.dispose]();
  assert.throws(() => requests.begin([call(7)]), IN_USE, "it is another one's by now");
  requests.begin([ping(8)]);
  requests.begin([cancel(8), cancel("no"), cancel(null), { method: "notifications/cancelled" }]);
  requests.begin([ping(8)]);
});
