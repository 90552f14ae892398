import assert from "node:assert/strict";
import {
  Exchange,
  isEventId,
  ResumableEvents,
  SHORT_LENGTH,
  textLength,
  USER_BOUNDS,
  UserBudget,
} from "./user_budget.ts";
import type { EventStore, JSONRPCMessage } from "@modelcontextprotocol/server";
import { OpenRequests, type RequestId } from "./open_requests.ts";

const NEVER = new AbortController().signal;
/** Two messages of this length exceed the limit. */
const LONG = USER_BOUNDS.sending / 2 + 1;
const HALF = USER_BOUNDS.sending / 2;

/** Returns which promises are fulfilled. */
async function fulfilled(promises: readonly Promise<unknown>[]): Promise<readonly boolean[]> {
  await new Promise((resolve) => setTimeout(resolve, 0));
  const pending = Symbol();
  return await Promise.all(
    promises.map(async (promise) => await Promise.race([promise, Promise.resolve(pending)]) !== pending),
  );
}

Deno.test("UserBudget delays a long answer until earlier exchanges of the same user end", async () => {
  const budget = new UserBudget();
  const [first, second, third] = [new Exchange(), new Exchange(), new Exchange()];
  await budget.hold("alice", first, LONG, NEVER);
  const waiting = budget.hold("alice", second, LONG, NEVER);
  await budget.hold("bob", new Exchange(), LONG, NEVER);
  assert.deepEqual(await fulfilled([waiting]), [false]);
  await budget.hold("alice", third, SHORT_LENGTH, NEVER);
  first[Symbol.dispose]();
  await waiting;
  second[Symbol.dispose]();
  await budget.hold("alice", new Exchange(), 2 * USER_BOUNDS.sending, NEVER);
});

Deno.test("UserBudget frees the room of an ended exchange, even room granted after its end", async () => {
  const budget = new UserBudget();
  const [one, two] = [new Exchange(), new Exchange()];
  await budget.hold("alice", one, HALF, NEVER);
  await budget.hold("alice", one, HALF, NEVER);
  const late = budget.hold("alice", two, LONG, NEVER);
  two[Symbol.dispose]();
  one[Symbol.dispose]();
  one[Symbol.dispose]();
  await late;
  await budget.hold("alice", new Exchange(), USER_BOUNDS.sending, NEVER);
});

Deno.test("UserBudget rejects an answer that cannot fit next to other answers of its exchange", async () => {
  const budget = new UserBudget();
  const exchange = new Exchange();
  await budget.hold("alice", exchange, LONG, NEVER);
  await assert.rejects(budget.hold("alice", exchange, LONG, NEVER), { code: "rate_limited" });
  await budget.hold("alice", exchange, HALF - 1, NEVER);
});

Deno.test("UserBudget rejects an answer while another answer of the same exchange waits", async () => {
  const budget = new UserBudget();
  const [others, exchange] = [new Exchange(), new Exchange()];
  await budget.hold("alice", others, USER_BOUNDS.sending, NEVER);
  const first = budget.hold("alice", exchange, LONG, NEVER);
  await assert.rejects(budget.hold("alice", exchange, LONG, NEVER), { code: "rate_limited" });
  others[Symbol.dispose]();
  await first;
});

Deno.test("UserBudget rejects a waiting answer if its call is canceled", async () => {
  const budget = new UserBudget();
  const [others, exchange] = [new Exchange(), new Exchange()];
  await budget.hold("alice", others, LONG, NEVER);
  const canceled = new AbortController();
  const first = assert.rejects(budget.hold("alice", exchange, LONG, canceled.signal), { code: "canceled" });
  canceled.abort();
  await first;
  await assert.rejects(budget.hold("alice", exchange, LONG, canceled.signal), { code: "canceled" });
  const second = budget.hold("alice", exchange, LONG, NEVER);
  others[Symbol.dispose]();
  await second;
});

function watch(response: Response) {
  const exchange = new Exchange();
  const ends: string[] = [];
  exchange.add({ [Symbol.dispose]: () => void ends.push("end") });
  return { watched: exchange.endWith(response), ends };
}

Deno.test("Exchange ends after the body is read and forwards status, headers and bytes", async () => {
  const { watched, ends } = watch(new Response("text", { status: 201, headers: { "x-a": "b" } }));
  assert.deepEqual(ends, []);
  assert.equal(await watched.text(), "text");
  assert.deepEqual([watched.status, watched.headers.get("x-a")], [201, "b"]);
  assert.deepEqual(ends, ["end"]);
});

Deno.test("Exchange ends immediately without a body", () => {
  assert.deepEqual(watch(new Response(null, { status: 202 })).ends, ["end"]);
});

Deno.test.each([{ readFirst: true }, { readFirst: false }])(
  "Exchange ends if the client cancels and cancels the body (after a part: $readFirst)",
  async ({ readFirst }) => {
    let reason: unknown;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new Uint8Array(1)),
      cancel: (why) => void (reason = why),
    });
    const { watched, ends } = watch(new Response(body));
    const reader = watched.body?.getReader();
    if (readFirst) await reader?.read();
    await reader?.cancel("enough");
    assert.deepEqual([ends, reason], [["end"], "enough"]);
  },
);

Deno.test("Exchange ends if the body fails and passes the error to the reader", async () => {
  const body = new ReadableStream<Uint8Array>({ pull: () => Promise.reject(new Error("broken")) });
  const { watched, ends } = watch(new Response(body));
  await assert.rejects(watched.text(), /^Error: broken$/);
  assert.deepEqual(ends, ["end"]);
});

Deno.test("Exchange stays open until a slow reader reads the end of the body", async () => {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(new Uint8Array(1));
      controller.close();
    },
  });
  const { watched, ends } = watch(new Response(body));
  const reader = watched.body?.getReader();
  await reader?.read();
  await new Promise((resolve) => setTimeout(resolve, 0));
  assert.deepEqual(ends, []);
  assert.equal((await reader?.read())?.done, true);
  assert.deepEqual(ends, ["end"]);
});

Deno.test.each([
  ["counts the characters of strings", "x".repeat(1000), 1000, 1050],
  ["counts nested values", { a: [{ b: "x".repeat(1000) }] }, 1000, 1100],
  ["counts names", { ["x".repeat(1000)]: 1 }, 1000, 1050],
  ["counts values without text", new Array(1000).fill(null), 4000, 30_000],
  ["counts a repeated value twice", ["x".repeat(500), "x".repeat(500)], 1000, 1100],
  ["accepts numbers that JSON does not have", 1n, 1, 50],
])("textLength() %s", (_name, value, least, most) => {
  const length = textLength(value);
  assert.ok(length >= least && length <= most, `${length}`);
});

const ROOMY = [100_000, 100_000] as const;
const message = (text: string): JSONRPCMessage => ({ jsonrpc: "2.0", id: text, result: {} });
const long = (id: string, length = 20_000): JSONRPCMessage => ({
  jsonrpc: "2.0",
  id,
  result: { text: "x".repeat(length) },
});
/** The cost of one event in these tests. */
const COST = costOf(message("a1"));
/** More than the cost of a note that replaces an answer. */
const NOTE = 600;

function costOf(event: JSONRPCMessage): number {
  const kept = new ResumableEvents(...ROOMY);
  kept.open("alice").storeEvent("a", event);
  return kept.length;
}

async function replay(store: EventStore, lastId: string) {
  const sent: unknown[] = [];
  const streamId = await store.replayEventsAfter(lastId, {
    send: (id, event) => {
      sent.push([id, "id" in event ? event.id : null]);
      return Promise.resolve();
    },
  });
  return { streamId, sent };
}

Deno.test("ResumableEvents replays the later events of the same stream", async () => {
  const store = new ResumableEvents(...ROOMY).open("alice");
  const first = await store.storeEvent("a", message("a1"));
  await store.storeEvent("b", message("b1"));
  const second = await store.storeEvent("a", message("a2"));
  assert.deepEqual(await replay(store, first), { streamId: "a", sent: [[second, "a2"]] });
  assert.deepEqual(await replay(store, second), { streamId: "a", sent: [] });
  assert.ok(isEventId(first));
});

Deno.test("ResumableEvents replays no events of another session for any event ID", async () => {
  const kept = new ResumableEvents(...ROOMY);
  const [mine, other] = [kept.open("alice"), kept.open("bob")];
  const first = await mine.storeEvent("a", message("a1"));
  await mine.storeEvent("a", message("a2"));
  assert.deepEqual((await replay(other, first)).sent, []);
  assert.deepEqual((await replay(other, "a_0")).sent, []);
});

for (const id of ["", "a", "_1", "a_", "a_x", "a_1e9"]) {
  Deno.test(`isEventId() rejects '${id}'`, () => assert.equal(isEventId(id), false));
}

Deno.test("ResumableEvents drops a user's oldest events above the user limit and still accepts their IDs", async () => {
  const kept = new ResumableEvents(2 * COST, 100 * COST);
  const [store, other] = [kept.open("alice"), kept.open("bob")];
  const others = await other.storeEvent("b", message("b0"));
  await other.storeEvent("b", message("b1"));
  const first = await store.storeEvent("a", message("a1"));
  for (const text of ["a2", "a3", "a4"]) await store.storeEvent("a", message(text));
  assert.deepEqual((await replay(store, first)).sent.map((event) => (event as unknown[])[1]), ["a3", "a4"]);
  assert.equal((await replay(other, others)).sent.length, 1);
});

Deno.test("ResumableEvents drops the oldest events of all users above the total limit", async () => {
  const kept = new ResumableEvents(100 * COST, 2 * COST);
  const [one, two] = [kept.open("alice"), kept.open("bob")];
  await one.storeEvent("a", message("a1"));
  await two.storeEvent("b", message("b1"));
  await two.storeEvent("b", message("b2"));
  assert.deepEqual((await replay(one, "a_0")).sent, []);
  assert.equal((await replay(two, "b_0")).sent.length, 2);
});

/** The messages that a new client receives, as `id`, or as `id!` for a note that replaces an answer. */
async function replayed(store: EventStore): Promise<readonly string[]> {
  const sent: string[] = [];
  await store.replayEventsAfter("a_0", {
    send: (_id, event) => {
      const note = "error" in event && /was too long to keep/.test(event.error.message) ? "!" : "";
      sent.push("id" in event ? `${event.id}${note}` : "");
      return Promise.resolve();
    },
  });
  return sent;
}

Deno.test("ResumableEvents replaces an answer above the limit with a note and keeps the other events", async () => {
  const kept = new ResumableEvents(10_000, 10_000);
  const store = kept.open("alice");
  await store.storeEvent("a", long("a1", 5000));
  await store.storeEvent("a", long("a2"));
  await store.storeEvent("a", message("a3"));
  assert.deepEqual(await replayed(store), ["a1", "a2!", "a3"]);
  assert.ok(kept.length <= costOf(long("a1", 5000)) + NOTE + COST);
});

Deno.test("ResumableEvents replaces a user's oldest answers with notes across the user's sessions", async () => {
  const kept = new ResumableEvents(50_000, 1_000_000);
  const [one, two] = [kept.open("alice"), kept.open("alice")];
  const other = kept.open("bob");
  await other.storeEvent("a", long("b1"));
  await one.storeEvent("a", long("a1"));
  await one.storeEvent("a", message("a2"));
  await two.storeEvent("a", long("a3"));
  await two.storeEvent("a", long("a4"));
  assert.deepEqual(await replayed(one), ["a1!", "a2"]);
  assert.deepEqual(await replayed(two), ["a3", "a4"]);
  assert.deepEqual(await replayed(other), ["b1"]);
});

Deno.test("ResumableEvents stays within its limits for one user and for all users", async () => {
  const limits = { userLength: 50_000, totalLength: 80_000 };
  const kept = new ResumableEvents(limits.userLength, limits.totalLength);
  for (const user of ["alice", "bob", "carol"]) {
    const before = kept.length;
    for (let session = 0; session < 4; session++) {
      const store = kept.open(user);
      for (let event = 0; event < 100; event++) {
        await store.storeEvent("a", long(`${event}`, event % 3 * 10_000));
        assert.ok(kept.length <= limits.totalLength);
        assert.ok(user !== "alice" || kept.length - before <= limits.userLength);
      }
    }
  }
});

Deno.test("ResumableEvents drops no events of other users to make room for the largest user", async () => {
  const kept = new ResumableEvents(50_000, 100_000);
  const [alice, bob] = [kept.open("alice"), kept.open("bob")];
  await bob.storeEvent("a", long("b1", 40_000));
  for (let event = 0; event < 200; event++) await alice.storeEvent("a", long(`a${event}`, 40_000));
  assert.deepEqual(await replayed(bob), ["b1"]);
});

Deno.test("ResumableEvents has length 0 after all sessions are closed", async () => {
  const kept = new ResumableEvents(...ROOMY);
  const stores = [kept.open("alice"), kept.open("alice")];
  for (const store of stores) {
    await store.storeEvent("a", long("a1"));
    await store.storeEvent("a", message("a2"));
  }
  for (const store of stores) store.close();
  assert.equal(kept.length, 0);
});

Deno.test("ResumableEvents drops the events of a closed session, including later events", async () => {
  const kept = new ResumableEvents(100 * COST, 2 * COST);
  const [gone, other] = [kept.open("alice"), kept.open("bob")];
  await other.storeEvent("b", message("b1"));
  await gone.storeEvent("a", message("a1"));
  gone.close();
  for (const text of ["a2", "a3", "a4"]) await gone.storeEvent("a", message(text));
  assert.deepEqual((await replay(gone, "a_0")).sent, []);
  assert.equal((await replay(other, "b_0")).sent.length, 1);
});

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
  { name: "an id of a batch that was partly answered", first: [call(7), call(8)], then: [call(8)] },
])("OpenRequests rejects $name and everything in the same message", ({ first, then }) => {
  const requests = new OpenRequests();
  requests.begin(first);
  assert.throws(() => requests.begin(then), IN_USE);
  requests.begin([call(9), call("8")]);
});

Deno.test("OpenRequests accepts an ID again after its answer", () => {
  const requests = new OpenRequests();
  requests.begin([call(7)]);
  requests.sent(answer(7));
  requests.begin([call(7)]);
});

Deno.test("OpenRequests keeps the IDs of a batch until the whole batch is answered", () => {
  const requests = new OpenRequests();
  requests.begin([call(7), call(8)]);
  requests.sent(answer(7));
  assert.throws(() => requests.begin([call(7)]), IN_USE);
  requests.sent({ jsonrpc: "2.0", id: 8, error: { code: 1, message: "" } });
  requests.begin([call(7), call(8)]);
});

Deno.test("OpenRequests keeps the ID of a canceled call until the call has ended", async () => {
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

Deno.test("OpenRequests frees the ID of an ended call that is canceled before its answer", async () => {
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
  { name: "null", message: null },
])("OpenRequests accepts $name twice", ({ message }) => {
  const requests = new OpenRequests();
  requests.begin([message, message]);
  requests.begin([message]);
});

Deno.test("OpenRequests frees the IDs of requests that were rejected or canceled early", () => {
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
