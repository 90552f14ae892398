import assert from "node:assert/strict";
import type { EventStore, JSONRPCMessage } from "@modelcontextprotocol/server";
import { isEventId, KeptEvents } from "./user_budget.ts";

const ROOMY = [100_000, 100_000] as const;
const message = (text: string): JSONRPCMessage => ({ jsonrpc: "2.0", id: text, result: {} });
const long = (id: string, length = 20_000): JSONRPCMessage => ({
  jsonrpc: "2.0",
  id,
  result: { text: "x".repeat(length) },
});
/** What one event of these tests costs. */
const COST = costOf(message("a1"));
/** More than a note in the place of an answer costs. */
const NOTE = 600;

function costOf(event: JSONRPCMessage): number {
  const kept = new KeptEvents(...ROOMY);
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

Deno.test("KeptEvents gives what came after an event, of the same stream", async () => {
  const store = new KeptEvents(...ROOMY).open("alice");
  const first = await store.storeEvent("a", message("a1"));
  await store.storeEvent("b", message("b1"));
  const second = await store.storeEvent("a", message("a2"));
  assert.deepEqual(await replay(store, first), { streamId: "a", sent: [[second, "a2"]] });
  assert.deepEqual(await replay(store, second), { streamId: "a", sent: [] });
  assert.ok(isEventId(first));
});

Deno.test("KeptEvents of one session shows nothing to another, whatever id it names", async () => {
  const kept = new KeptEvents(...ROOMY);
  const [mine, other] = [kept.open("alice"), kept.open("bob")];
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

Deno.test("KeptEvents drops the oldest of a user beyond the limit, and an old id still serves", async () => {
  const kept = new KeptEvents(2 * COST, 100 * COST);
  const [store, other] = [kept.open("alice"), kept.open("bob")];
  const others = await other.storeEvent("b", message("b0"));
  await other.storeEvent("b", message("b1"));
  const first = await store.storeEvent("a", message("a1"));
  for (const text of ["a2", "a3", "a4"]) await store.storeEvent("a", message(text));
  assert.deepEqual((await replay(store, first)).sent.map((event) => (event as unknown[])[1]), ["a3", "a4"]);
  assert.equal((await replay(other, others)).sent.length, 1);
});

Deno.test("KeptEvents drops the oldest of all beyond the limit of all", async () => {
  const kept = new KeptEvents(100 * COST, 2 * COST);
  const [one, two] = [kept.open("alice"), kept.open("bob")];
  await one.storeEvent("a", message("a1"));
  await two.storeEvent("b", message("b1"));
  await two.storeEvent("b", message("b2"));
  assert.deepEqual((await replay(one, "a_0")).sent, []);
  assert.equal((await replay(two, "b_0")).sent.length, 2);
});

/** The messages that a client gets that has seen nothing, as `id` or `id!` for a note in its answer's place. */
async function replayed(store: EventStore): Promise<readonly string[]> {
  const sent: string[] = [];
  await store.replayEventsAfter("a_0", {
    send: (_id, event) => {
      const note = "error" in event && /was not kept/.test(event.error.message) ? "!" : "";
      sent.push("id" in event ? `${event.id}${note}` : "");
      return Promise.resolve();
    },
  });
  return sent;
}

Deno.test("KeptEvents keeps a note in the place of an answer that is longer than the limit, and what was there", async () => {
  const kept = new KeptEvents(10_000, 10_000);
  const store = kept.open("alice");
  await store.storeEvent("a", long("a1", 5000));
  await store.storeEvent("a", long("a2"));
  await store.storeEvent("a", message("a3"));
  assert.deepEqual(await replayed(store), ["a1", "a2!", "a3"]);
  assert.ok(kept.length <= costOf(long("a1", 5000)) + NOTE + COST);
});

Deno.test("KeptEvents puts notes in the places of a user's oldest answers, in all sessions of the user", async () => {
  const kept = new KeptEvents(50_000, 1_000_000);
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

Deno.test("KeptEvents keeps no more than its limits, whatever one user or all of them make it keep", async () => {
  const limits = { userLength: 50_000, totalLength: 80_000 };
  const kept = new KeptEvents(limits.userLength, limits.totalLength);
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

Deno.test("KeptEvents takes nothing from other users for one who has the most", async () => {
  const kept = new KeptEvents(50_000, 100_000);
  const [alice, bob] = [kept.open("alice"), kept.open("bob")];
  await bob.storeEvent("a", long("b1", 40_000));
  for (let event = 0; event < 200; event++) await alice.storeEvent("a", long(`a${event}`, 40_000));
  assert.deepEqual(await replayed(bob), ["b1"]);
});

Deno.test("KeptEvents holds nothing of sessions that it has forgotten", async () => {
  const kept = new KeptEvents(...ROOMY);
  const stores = [kept.open("alice"), kept.open("alice")];
  for (const store of stores) {
    await store.storeEvent("a", long("a1"));
    await store.storeEvent("a", message("a2"));
  }
  for (const store of stores) store.close();
  assert.equal(kept.length, 0);
});

Deno.test("KeptEvents forgets a session, also what its calls say after its end", async () => {
  const kept = new KeptEvents(100 * COST, 2 * COST);
  const [gone, other] = [kept.open("alice"), kept.open("bob")];
  await other.storeEvent("b", message("b1"));
  await gone.storeEvent("a", message("a1"));
  gone.close();
  for (const text of ["a2", "a3", "a4"]) await gone.storeEvent("a", message(text));
  assert.deepEqual((await replay(gone, "a_0")).sent, []);
  assert.equal((await replay(other, "b_0")).sent.length, 1);
});
