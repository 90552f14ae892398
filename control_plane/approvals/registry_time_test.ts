import assert from "node:assert/strict";
import { park, parkApart, poll, RegistryScene, take, TIMEOUT_MS } from "../testing/registry_scene.ts";
import { EVER } from "../testing/sample_approval.ts";

const HOUR_MS = 3_600_000;

Deno.test.each([
  { name: "at the timeout itself", waited: TIMEOUT_MS, kind: "pending" },
  { name: "just after", waited: TIMEOUT_MS + 1, kind: "expired" },
])("a pending approval $name is $kind", async ({ waited, kind }) => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await park(registry);
  await scene.clock.advance(waited);
  assert.deepEqual([poll(registry, approval), registry.describe(approval).status], [kind, kind]);
});

Deno.test.each([
  { name: "at the timeout of its decision itself", waited: TIMEOUT_MS, kind: "claimed" },
  { name: "just after (A5)", waited: TIMEOUT_MS + 1, kind: "expired" },
])("an approved one, decided at the last moment, $name is $kind", async ({ waited, kind }) => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await park(registry);
  await scene.clock.advance(TIMEOUT_MS);
  await scene.decide(registry, approval);
  await scene.clock.advance(waited);
  registry.list();
  assert.equal(poll(registry, approval), kind === "expired" ? "unknown" : kind);
});

Deno.test("an approved one that was decided early expires before it is forgotten (A5)", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await park(registry);
  await scene.decide(registry, approval);
  await scene.clock.advance(TIMEOUT_MS + 1);
  assert.equal(poll(registry, approval), "expired");
  assert.deepEqual(await scene.decide(registry, approval), { kind: "not_pending", status: "expired" });
});

Deno.test.each([
  { name: "pending" },
  { name: "denied", verdict: { approve: false } },
  { name: "approved", verdict: {} },
  { name: "consumed", verdict: {} },
])("a $name one is known until twice the timeout, and forgotten then (A7)", async ({ name, verdict }) => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await park(registry);
  if (verdict !== undefined) await scene.decide(registry, approval, verdict);
  if (name === "consumed") await take(registry, approval).consume(scene.granted);
  const kind = poll(registry, approval);
  await scene.clock.advance(2 * TIMEOUT_MS);
  assert.equal(poll(registry, approval), ["pending", "approved"].includes(name) ? "expired" : kind);
  assert.equal(registry.list().length, 1);
  await scene.clock.advance(1);
  // A lookup by itself does not have to wait for a list.
  assert.deepEqual([poll(registry, approval), registry.find(approval.id)], ["unknown", undefined]);
  assert.equal((await scene.decide(registry, approval)).kind, "unknown");
  assert.deepEqual(registry.list(), []);
});

Deno.test("a decided approval that is never collected takes no place and is removed (A7)", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open({ maxPendingPerCaller: 2 });
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

Deno.test("the store is purged too, now and then", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  for (let n = 0; n < 100; n++) {
    await parkApart(registry);
    await scene.clock.advance(TIMEOUT_MS / 10);
  }
  await registry.close();
  // Two timeouts of approvals, and what is due since the last purge.
  const { length } = await scene.store.loadApprovals(EVER);
  assert.ok(length >= 20 && length <= 24, `${length}`);
  const purges = scene.store.calls.filter((call) => call === "deleteApprovals").length;
  assert.ok(purges >= 20 && purges <= 41, `${purges}`);
});

Deno.test("a purge of many is done in parts, and requests come in between", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open({ maxPendingPerCaller: 500 });
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

Deno.test("a purge that fails is logged and counted, and the registry keeps working", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  scene.store.failing.add("deleteApprovals");
  await park(registry);
  await scene.clock.advance(3 * TIMEOUT_MS);
  await park(registry);
  await registry.close();
  assert.deepEqual([registry.list().length, scene.storeErrors, scene.warnings.length], [1, 1, 1]);
});

Deno.test("an approval that is being collected is not purged from the store", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await park(registry);
  await scene.decide(registry, approval);
  const claim = take(registry, approval);
  await scene.clock.advance(5 * TIMEOUT_MS);
  await park(registry);
  await registry.close();
  await claim.consume(scene.granted);
  assert.equal((await scene.store.loadApprovals(EVER))[0]?.state.kind, "consumed");
});

Deno.test("a clock set back brings nothing back that has expired", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
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

Deno.test("a clock set back lets nothing live longer", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
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

Deno.test("a clock set back does not shorten new approvals, which show clock time", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
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

Deno.test("a clock set back many times still lets approvals be forgotten, in the store too", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
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

Deno.test("after a clock jump forward and back, expired approvals stay expired and new ones are valid", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const old = await park(registry);
  await scene.clock.advance(24 * HOUR_MS);
  assert.equal(registry.pendingCount(), 0);
  await scene.clock.advance(-24 * HOUR_MS);
  const young = await park(registry);
  await scene.clock.advance(TIMEOUT_MS);
  assert.deepEqual([poll(registry, old), poll(registry, young)], ["unknown", "pending"]);
});
