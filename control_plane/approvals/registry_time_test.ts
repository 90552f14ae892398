import assert from "node:assert/strict";
import {
  openParked,
  openRegistry,
  park,
  parkApart,
  poll,
  take,
  TIMEOUT_MS,
} from "../testing/registry_scene.ts";
import { EVER } from "../testing/sample_approval.ts";

const HOUR_MS = 3_600_000;

Deno.test.each([
  { name: "pending" },
  { name: "denied", verdict: { approve: false } },
  { name: "approved", verdict: {} },
  { name: "consumed", verdict: {} },
])("a $name approval is known until twice the timeout and then deleted (A7)", async ({ name, verdict }) => {
  const { scene, registry, approval } = await openParked();
  if (verdict !== undefined) await scene.decide(registry, approval, verdict);
  if (name === "consumed") await take(registry, approval).consume(scene.granted);
  const kind = poll(registry, approval);
  await scene.clock.advance(2 * TIMEOUT_MS);
  assert.equal(poll(registry, approval), ["pending", "approved"].includes(name) ? "expired" : kind);
  assert.equal(registry.list().length, 1);
  await scene.clock.advance(1);
  // A lookup of one approval does not wait for a list.
  assert.deepEqual([poll(registry, approval), registry.find(approval.id)], ["unknown", undefined]);
  assert.equal((await scene.decide(registry, approval)).kind, "unknown");
  assert.deepEqual(registry.list(), []);
});

Deno.test("a decided approval that is never collected uses no slot and is deleted (A7)", async () => {
  const { scene, registry } = await openRegistry({ maxPendingPerCaller: 2 });
  for (let round = 0; round < 50; round++) {
    for (const approve of [true, false]) {
      await scene.decide(registry, await park(registry), { approve });
    }
    await scene.clock.advance(TIMEOUT_MS);
    assert.ok(registry.list().length <= 6, String(registry.list().length));
  }
  await scene.clock.advance(3 * TIMEOUT_MS);
  assert.equal(registry.list().length, 0);
  await registry.close();
  assert.deepEqual(await scene.store.loadApprovals(EVER), []);
});

Deno.test("the store is purged at intervals", async () => {
  const { scene, registry } = await openRegistry();
  for (let n = 0; n < 100; n++) {
    await parkApart(registry);
    await scene.clock.advance(TIMEOUT_MS / 10);
  }
  await registry.close();
  // The store keeps approvals for two timeouts and until the next purge.
  const { length } = await scene.store.loadApprovals(EVER);
  assert.ok(length >= 20 && length <= 24, `${length}`);
  const purges = scene.store.calls.filter((call) => call === "deleteApprovals").length;
  assert.ok(purges >= 20 && purges <= 41, `${purges}`);
});

Deno.test("a purge of many approvals runs in parts and lets requests run in between", async () => {
  const { scene, registry } = await openRegistry({ maxPendingPerCaller: 500 });
  for (let n = 0; n < 450; n++) await park(registry);
  await scene.clock.advance(3 * TIMEOUT_MS);
  const purges = () => scene.store.calls.filter((call) => call === "deleteApprovals").length;
  assert.deepEqual(registry.list(), []);
  while (scene.clock.sleeping === 0) await Promise.resolve();
  assert.equal(purges(), 1);
  await park(registry);
  const closed = registry.close();
  await scene.clock.advance(0);
  await closed;
  assert.deepEqual([purges(), (await scene.store.loadApprovals(EVER)).length], [3, 1]);
});

Deno.test("a failed purge is logged and counted, and the registry keeps working", async () => {
  const { scene, registry } = await openRegistry();
  scene.store.failing.add("deleteApprovals");
  await park(registry);
  await scene.clock.advance(3 * TIMEOUT_MS);
  await park(registry);
  await registry.close();
  assert.deepEqual([registry.list().length, scene.storeErrors, scene.warnings.length], [1, 1, 1]);
});

Deno.test("an approval that is being collected is not purged from the store", async () => {
  const { scene, registry, approval } = await openParked();
  await scene.decide(registry, approval);
  const claim = take(registry, approval);
  await scene.clock.advance(5 * TIMEOUT_MS);
  await park(registry);
  await registry.close();
  await claim.consume(scene.granted);
  assert.equal((await scene.store.loadApprovals(EVER))[0]?.state.kind, "consumed");
});

Deno.test("a clock that is set back does not revive expired approvals", async () => {
  const { scene, registry } = await openRegistry();
  const [pending, approved] = [await park(registry), await park(registry)];
  await scene.decide(registry, approved);
  await scene.clock.advance(TIMEOUT_MS + 1);
  assert.deepEqual([pending, approved].map((approval) => poll(registry, approval)), ["expired", "expired"]);
  await scene.clock.advance(-HOUR_MS);
  assert.deepEqual([pending, approved].map((approval) => poll(registry, approval)), ["expired", "expired"]);
  assert.equal((await scene.decide(registry, pending)).kind, "not_pending");
  assert.deepEqual([...new Set(registry.list().map((a) => registry.describe(a).status))], ["expired"]);
  assert.equal(registry.pendingCount(), 0);
});

Deno.test("a clock that is set back does not extend the lifetime of approvals", async () => {
  const { scene, registry } = await openRegistry();
  const pending = await parkApart(registry);
  const approved = await parkApart(registry);
  await scene.clock.advance(1000);
  await scene.decide(registry, approved);
  await scene.clock.advance(-HOUR_MS);
  const later = await parkApart(registry);
  await scene.clock.advance(TIMEOUT_MS - 1000);
  assert.deepEqual([pending, approved].map((approval) => poll(registry, approval)), ["pending", "claimed"]);
  await scene.clock.advance(1);
  assert.equal(poll(registry, pending), "expired");
  await scene.clock.advance(999);
  assert.deepEqual([poll(registry, approved), poll(registry, later)], ["claimed", "pending"]);
  await scene.clock.advance(1);
  assert.deepEqual([poll(registry, approved), poll(registry, later)], ["expired", "expired"]);
});

Deno.test("an approval created after the clock is set back has its full lifetime", async () => {
  const { scene, registry } = await openRegistry();
  await parkApart(registry);
  await scene.clock.advance(-HOUR_MS);
  const approval = await parkApart(registry);
  assert.equal(approval.createdAt, scene.clock.now());
  await scene.clock.advance(TIMEOUT_MS);
  assert.equal((await scene.decide(registry, approval)).kind, "decided");
  const decided = registry.find(approval.id);
  assert.ok(decided?.state.kind === "approved");
  assert.equal(decided.state.at, scene.clock.now());
  const expires = new Date(scene.clock.now() + TIMEOUT_MS).toISOString();
  assert.equal(registry.describe(decided).expires_at, expires);
  await scene.clock.advance(TIMEOUT_MS);
  assert.equal(poll(registry, approval), "claimed");
});

Deno.test("approvals are still deleted if the clock is set back many times", async () => {
  const { scene, registry } = await openRegistry();
  for (let n = 0; n < 50; n++) {
    await park(registry);
    await scene.clock.advance(TIMEOUT_MS);
    await park(registry);
    await scene.clock.advance(-TIMEOUT_MS / 2);
  }
  assert.ok(registry.list().length <= 6, `${registry.list().length}`);
  await scene.clock.advance(3 * TIMEOUT_MS);
  assert.deepEqual(registry.list(), []);
  await registry.close();
  assert.deepEqual(await scene.store.loadApprovals(EVER), []);
});

Deno.test("after a clock error of a day, old approvals stay expired and new approvals work", async () => {
  const { scene, registry } = await openRegistry();
  const old = await park(registry);
  await scene.clock.advance(24 * HOUR_MS);
  assert.equal(registry.pendingCount(), 0);
  await scene.clock.advance(-24 * HOUR_MS);
  const young = await park(registry);
  await scene.clock.advance(TIMEOUT_MS);
  assert.deepEqual([poll(registry, old), poll(registry, young)], ["unknown", "pending"]);
});
