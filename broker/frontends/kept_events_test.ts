import assert from "node:assert/strict";
import type { EventStore, JSONRPCMessage } from "@modelcontextprotocol/server";
import { isEventId, KeptEvents } from "./kept_events.ts";

const ROOMY = { sessionLength: 100_000, totalLength: 100_000 };
const message = (text: string): JSONRPCMessage => ({ jsonrpc: "2.0", id: text, result: {} });
/** What one event of these tests costs. */
const COST = JSON.stringify(message("a1")).length + 200;

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

Deno.test("KeptEvents gives what came after an event, of the same stream", async () => {
  const store = new KeptEvents(ROOMY).storeOf("s");
  const first = await store.storeEvent("a", message("a1"));
  await store.storeEvent("b", message("b1"));
  const second = await store.storeEvent("a", message("a2"));
  assert.deepEqual(await replay(store, first), { streamId: "a", sent: [[second, "a2"]] });
  assert.deepEqual(await replay(store, second), { streamId: "a", sent: [] });
  assert.ok(isEventId(first));
});

Deno.test("KeptEvents of one session shows nothing to another, whatever id it names", async () => {
  const kept = new KeptEvents(ROOMY);
  const [mine, other] = [kept.storeOf("s1"), kept.storeOf("s2")];
  const first = await mine.storeEvent("a", message("a1"));
  await mine.storeEvent("a", message("a2"));
  assert.deepEqual((await replay(other, first)).sent, []);
  assert.deepEqual((await replay(other, "a_0")).sent, []);
});

Deno.test.each([{ id: "" }, { id: "a" }, { id: "_1" }, { id: "a_" }, { id: "a_x" }, { id: "a_1e9" }])(
  "isEventId() does not take '$id' for one",
  ({ id }) => {
    assert.equal(isEventId(id), false);
  },
);

Deno.test("KeptEvents drops the oldest of a session beyond its limit, and an old id still serves", async () => {
  const kept = new KeptEvents({ sessionLength: 2 * COST, totalLength: 100 * COST });
  const [store, other] = [kept.storeOf("s1"), kept.storeOf("s2")];
  const others = await other.storeEvent("b", message("b0"));
  await other.storeEvent("b", message("b1"));
  const first = await store.storeEvent("a", message("a1"));
  for (const text of ["a2", "a3", "a4"]) await store.storeEvent("a", message(text));
  assert.deepEqual((await replay(store, first)).sent.map((event) => (event as unknown[])[1]), ["a3", "a4"]);
  assert.equal((await replay(other, others)).sent.length, 1);
});

Deno.test("KeptEvents drops the oldest of all beyond the limit of all", async () => {
  const kept = new KeptEvents({ sessionLength: 100 * COST, totalLength: 2 * COST });
  const [one, two] = [kept.storeOf("s1"), kept.storeOf("s2")];
  await one.storeEvent("a", message("a1"));
  await two.storeEvent("b", message("b1"));
  await two.storeEvent("b", message("b2"));
  assert.deepEqual((await replay(one, "a_0")).sent, []);
  assert.equal((await replay(two, "b_0")).sent.length, 2);
});

Deno.test("KeptEvents keeps nothing that is larger than the limit, and stays usable", async () => {
  const store = new KeptEvents({ sessionLength: COST, totalLength: COST }).storeOf("s");
  await store.storeEvent("a", message("x".repeat(1000)));
  const [id] = [await store.storeEvent("a", message("a2"))];
  assert.deepEqual((await replay(store, "a_0")).sent, [[id, "a2"]]);
});

Deno.test("KeptEvents forgets a session, also what its calls say after its end", async () => {
  const kept = new KeptEvents({ sessionLength: 100 * COST, totalLength: 2 * COST });
  const [gone, other] = [kept.storeOf("s1"), kept.storeOf("s2")];
  await other.storeEvent("b", message("b1"));
  await gone.storeEvent("a", message("a1"));
  kept.forget("s1");
  for (const text of ["a2", "a3", "a4"]) await gone.storeEvent("a", message(text));
  assert.deepEqual((await replay(gone, "a_0")).sent, []);
  assert.equal((await replay(other, "b_0")).sent.length, 1);
});
