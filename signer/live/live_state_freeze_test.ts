import assert from "node:assert/strict";
import type { LiveState } from "./live_state.ts";
import { failingStore } from "../testing/failing_store.ts";
import {
  CALLER,
  GRANT,
  IDENTITY,
  openLiveState,
  recorded,
  restart,
  USER,
} from "../testing/live_state_scene.ts";

Deno.test("freeze() takes exactly the active grants and waivers of its subject (K4)", async () => {
  const store = failingStore();
  const { live, clock, ids, create, learn, freeze } = await openLiveState(store);
  await create({ caller: "broker-1", ttlSeconds: 1 });
  const any = await create();
  const other = await create({ caller: "broker-2", endUser: "alice" });
  await create({ caller: "broker-1" });
  await learn();
  await clock.advance(1_000);
  assert.equal((await freeze(CALLER)).grantsRevoked, 2, "the expired one is not counted");
  assert.deepEqual(ids(), [any.id, other.id]);
  assert.deepEqual((await restart(store)).ids(), [any.id, other.id]);
  assert.equal((await freeze(USER)).grantsRevoked, 1);
  await live.unfreeze(CALLER, recorded);
  await live.unfreeze(USER, recorded);
  assert.deepEqual(ids(), [any.id], "nothing comes back with its subject (K4)");
});

Deno.test("freeze() and unfreeze() take a name however it is written, also after a restart; grants are exact", async () => {
  const store = failingStore();
  const { live, ids, create, freeze } = await openLiveState(store);
  const [any, , bob] = [await create(), await create({ endUser: "Alice" }), await create({ endUser: "bob" })];
  assert.deepEqual(await freeze({ kind: "end_user", value: "ALICE." }), {
    newlyFrozen: true,
    grantsRevoked: 1,
    kept: "durable",
  });
  assert.equal((await freeze(USER)).newlyFrozen, false);
  assert.deepEqual(ids(), [any.id, bob.id]);
  const later = await restart(store);
  assert.equal(later.live.findFreeze(IDENTITY)?.value, "alice");
  assert.equal(await live.unfreeze({ kind: "end_user", value: "AlicE" }, recorded), true);
  const last = await restart(store);
  assert.equal(last.live.findFreeze(IDENTITY), undefined);
  assert.deepEqual(last.ids(), [any.id, bob.id]);
});

Deno.test("freeze() is in force and in the store before it resolves, in this order: memory, store, checkpoint (K2)", async () => {
  const store = failingStore();
  const { live, freeze } = await openLiveState(store);
  const { promise: slow, resolve } = Promise.withResolvers<void>();
  store.held.set("checkpoint", slow);
  let acknowledged = false;
  const freezing = freeze(CALLER).then(() => acknowledged = true);
  await new Promise((done) => setTimeout(done, 0));
  assert.deepEqual(store.calls, ["putFreeze", "checkpoint"]);
  assert.deepEqual([live.findFreeze(IDENTITY)?.kind, acknowledged], ["caller", false]);
  resolve();
  await freezing;
  assert.equal((await restart(store)).live.findFreeze(IDENTITY)?.kind, "caller");
});

Deno.test("freeze() does not wait for other freezes if the database hangs", async () => {
  const store = failingStore();
  const { live, freeze } = await openLiveState(store);
  const { promise: hung, resolve } = Promise.withResolvers<void>();
  store.held.set("putFreeze", hung);
  const freezing = Array.from({ length: 5 }, (_, n) => freeze({ kind: "caller", value: `broker-${n}` }));
  await new Promise((done) => setTimeout(done, 0));
  assert.equal(store.calls.length, 5, "all are asked at the same time");
  assert.equal(live.findFreeze(IDENTITY)?.value, "broker-1");
  const lifting = live.unfreeze({ kind: "caller", value: "broker-4" }, recorded);
  resolve();
  assert.ok((await Promise.all(freezing)).every(({ kept }) => kept === "durable"));
  await lifting;
  const later = await restart(store);
  assert.equal(later.live.findFreeze(IDENTITY)?.value, "broker-1");
  assert.equal(later.live.findFreeze({ ...IDENTITY, caller: "broker-4", peer: "broker-4" }), undefined);
});

Deno.test("freeze() that the store can't keep is in force all the same, takes the grants, and says so", async () => {
  const store = failingStore();
  const { live, counts, ids, create, freeze } = await openLiveState(store);
  await create({ caller: "broker-1" });
  store.failing.add("putFreeze");
  assert.deepEqual(await freeze(CALLER), { newlyFrozen: true, grantsRevoked: 1, kept: "memory" });
  assert.deepEqual([live.findFreeze(IDENTITY)?.kind, ids(), counts.errors], ["caller", [], 1]);
  const later = await restart(store);
  assert.deepEqual(
    [later.live.findFreeze(IDENTITY), later.ids().length],
    [undefined, 1],
    "a restart undoes it",
  );
});

Deno.test.each<{ name: string; retry: (live: LiveState) => Promise<void> }>([
  { name: "at the next look", retry: (live) => live.storeFreezes() },
  { name: "at the end", retry: (live) => live.close() },
])("a freeze that the store could not keep is stored once it can be: $name", async ({ retry }) => {
  const store = failingStore();
  const { live, create, freeze } = await openLiveState(store);
  await create({ caller: "broker-1" });
  store.failing.add("putFreeze");
  await freeze(CALLER);
  await freeze(USER);
  await live.storeFreezes();
  store.failing.clear();
  await live.unfreeze(USER, recorded);
  store.calls.length = 0;
  await retry(live);
  assert.deepEqual(store.calls, ["putFreeze", "checkpoint"], "what was lifted meanwhile stays lifted");
  const later = await restart(store);
  assert.deepEqual([later.live.findFreeze(IDENTITY)?.kind, later.ids()], ["caller", []]);
  store.calls.length = 0;
  await live.storeFreezes();
  assert.deepEqual(store.calls, [], "once is enough");
});

Deno.test("freeze() whose checkpoint fails is enforced, says that it is not durable, and is tried again (K3)", async () => {
  const store = failingStore();
  const { live, counts, ids, create, freeze } = await openLiveState(store);
  await create({ caller: "broker-1" });
  store.failing.add("checkpoint");
  assert.deepEqual(await freeze(CALLER), { newlyFrozen: true, grantsRevoked: 1, kept: "memory" });
  assert.deepEqual([live.findFreeze(IDENTITY)?.kind, ids(), counts.errors], ["caller", [], 1]);
  await live.storeFreezes();
  store.failing.clear();
  store.calls.length = 0;
  await live.storeFreezes();
  await live.storeFreezes();
  assert.deepEqual(store.calls, ["putFreeze", "checkpoint"], "until it is durable, and once");
});

Deno.test("unfreeze() lets requests pass again, also after a restart, and tells whether there was a freeze", async () => {
  const store = failingStore();
  const { live, freeze } = await openLiveState(store);
  await freeze(CALLER);
  const facts: boolean[] = [];
  const made = ({ wasFrozen }: { wasFrozen: boolean }) => Promise.resolve(void facts.push(wasFrozen));
  assert.equal(await live.unfreeze(CALLER, { ...recorded, made }), true);
  assert.equal(await live.unfreeze(CALLER, { ...recorded, made }), false);
  assert.deepEqual(facts, [true, false]);
  assert.equal(live.findFreeze(IDENTITY), undefined);
  assert.equal((await restart(store)).live.findFreeze(IDENTITY), undefined);
});

Deno.test("unfreeze() of a subject that is not frozen leaves its grants alone", async () => {
  const store = failingStore();
  const { live, ids, create } = await openLiveState(store);
  const { id } = await create({ caller: "broker-1" });
  assert.equal(await live.unfreeze(CALLER, recorded), false);
  assert.deepEqual([ids(), (await restart(store)).ids()], [[id], [id]]);
});

// K5, A13: whichever is asked for first, after both the subject is frozen and has nothing.
Deno.test.each<{ name: string; first: "freeze" | "grant" | "waiver" }>([
  { name: "a freeze", first: "freeze" },
  { name: "a grant", first: "grant" },
  { name: "a waiver", first: "waiver" },
])("changes that meet run one after another: $name first", async ({ first }) => {
  const store = failingStore();
  const { live, ids, learn, freeze } = await openLiveState(store);
  for (const method of ["putFreeze", "insertGrant"] as const) {
    store.held.set(method, new Promise((done) => setTimeout(done, 0)));
  }
  const changes = {
    freeze: () => freeze(CALLER),
    grant: () => live.createGrant({ ...GRANT, caller: "broker-1" }, recorded),
    waiver: () => learn(),
  };
  const rest = (["freeze", "grant", "waiver"] as const).filter((name) => name !== first);
  await Promise.all([first, ...rest].map((name) => changes[name]()));
  assert.deepEqual([live.findFreeze(IDENTITY)?.kind, ids()], ["caller", []]);
  await live.unfreeze(CALLER, recorded);
  assert.deepEqual([ids(), (await restart(store)).ids()], [[], []]);
});

Deno.test("a view that was read stays as it was", async () => {
  const { live, create, freeze } = await openLiveState();
  await create({ caller: "broker-1" });
  const before = live.view;
  await freeze(CALLER);
  assert.deepEqual([before.grants.byId.size, before.freezes.caller.size], [1, 0]);
  assert.deepEqual([live.view.grants.byId.size, live.view.freezes.caller.size], [0, 1]);
});
