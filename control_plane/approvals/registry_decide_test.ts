import assert from "node:assert/strict";
import {
  gate,
  openParked,
  openRegistry,
  park,
  parkApart,
  poll,
  take,
  TIMEOUT_MS,
} from "../testing/registry_scene.ts";
import { EVER } from "../testing/sample_approval.ts";
import type { Approval } from "./approval.ts";
import type { ApprovalRegistry } from "./registry.ts";

const ALICE = { approver: "alice", approve: true, learnTtlSeconds: 0 };

Deno.test("decide() saves the decision in memory and in the store", async () => {
  const { scene, registry, approval } = await openParked();
  await scene.clock.advance(1000);
  const state = { kind: "approved", by: "alice", at: scene.clock.now(), learnTtlSeconds: 7200 };
  const decided = await scene.decide(registry, approval, { learnTtlSeconds: 7200 });
  assert.deepEqual(decided, { kind: "decided", approval: { ...approval, state }, remaining: [] });
  assert.deepEqual(registry.find(approval.id), { ...approval, state });
  assert.deepEqual(await scene.store.loadApprovals(EVER), [{ ...approval, state }]);
});

Deno.test("decide() writes the audit record before any effect (A11, A14)", async () => {
  const { scene, registry, approval } = await openParked();
  const audit = gate();
  const decided = registry.decide(approval.id, ALICE, async (audited) => {
    assert.deepEqual(audited, approval);
    await audit.opened;
    assert.equal(poll(registry, approval), "pending");
    assert.deepEqual(scene.store.calls.filter((call) => call === "updateApproval"), []);
  });
  await scene.clock.advance(0);
  assert.equal(poll(registry, approval), "pending");
  audit.open();
  await decided;
  assert.equal(poll(registry, approval), "claimed");
});

Deno.test("of two concurrent decisions only the first takes effect and is recorded", async () => {
  const { scene, registry } = await openRegistry();
  const disk = gate();
  scene.store.held.set("updateApproval", disk.opened);
  for (const [first, second] of [[true, false], [false, true], [true, true]] as const) {
    const approval = await park(registry);
    scene.audited.length = 0;
    const both = Promise.all([
      scene.decide(registry, approval, { approver: "alice", approve: first }),
      scene.decide(registry, approval, { approver: "bob", approve: second }),
    ]);
    disk.open();
    const status = first ? "approved" : "denied";
    const [one, other] = await both;
    assert.equal(one.kind, "decided");
    assert.deepEqual(other, { kind: "not_pending", status });
    assert.deepEqual(scene.audited, [`${first ? "approve" : "deny"} alice`]);
    assert.equal(registry.describe(registry.find(approval.id)!).status, status);
  }
});

Deno.test("after a failed audit record the next approver can decide", async () => {
  const { scene, registry, approval } = await openParked();
  const failing = registry.decide(approval.id, ALICE, () => Promise.reject(new Error("full")));
  const other = scene.decide(registry, approval, { approver: "bob" });
  await assert.rejects(failing);
  assert.equal((await other).kind, "decided");
  assert.deepEqual(scene.audited, ["approve bob"]);
});

Deno.test.each([
  { name: "expires", waited: TIMEOUT_MS + 1 },
  { name: "is forgotten", waited: 2 * TIMEOUT_MS + 1 },
])("an approval that $name during the audit of its decision stays expired", async ({ waited }) => {
  const { scene, registry, approval } = await openParked();
  const decided = registry.decide(approval.id, ALICE, async () => {
    await scene.clock.advance(waited);
    registry.list();
  });
  assert.deepEqual(await decided, { kind: "not_pending", status: "expired" });
  assert.notEqual(poll(registry, approval), "claimed");
  assert.deepEqual(
    (await scene.store.loadApprovals(EVER)).filter(({ state }) => state.kind !== "pending"),
    [],
  );
});

Deno.test("a decision made in time takes effect even if it is stored after the timeout", async () => {
  const { scene, registry, approval } = await openParked();
  await scene.clock.advance(TIMEOUT_MS);
  const disk = gate();
  scene.store.held.set("updateApproval", disk.opened);
  const decided = scene.decide(registry, approval);
  await scene.clock.advance(TIMEOUT_MS / 2);
  assert.deepEqual([poll(registry, approval), registry.list().length], ["pending", 1]);
  assert.equal(registry.describe(approval).status, "pending");
  disk.open();
  assert.equal((await decided).kind, "decided");
  assert.deepEqual([poll(registry, approval), registry.pendingCount()], ["claimed", 0]);
});

Deno.test("an approval expires if a decision made in time cannot be stored", async () => {
  const { scene, registry, approval } = await openParked();
  await scene.clock.advance(TIMEOUT_MS);
  const disk = gate();
  scene.store.held.set("updateApproval", disk.opened);
  scene.store.failing.add("updateApproval");
  const decided = scene.decide(registry, approval);
  await scene.clock.advance(TIMEOUT_MS / 2);
  assert.equal(registry.pendingCount(), 1);
  disk.open();
  await assert.rejects(decided, { code: "internal" });
  assert.deepEqual([poll(registry, approval), registry.pendingCount()], ["expired", 0]);
});

Deno.test("a decision does not wait for a slow decision on another approval", async () => {
  const { scene, registry } = await openRegistry();
  const [slow, quick] = [await parkApart(registry), await parkApart(registry)];
  const audit = gate();
  const waiting = registry.decide(slow.id, ALICE, () => audit.opened);
  assert.equal((await scene.decide(registry, quick)).kind, "decided");
  audit.open();
  await waiting;
});

Deno.test("an approval that is collected or being collected cannot be decided again", async () => {
  const { scene, registry, approval } = await openParked();
  await scene.decide(registry, approval);
  const claim = take(registry, approval);
  const late = { kind: "not_pending", status: "approved" };
  assert.deepEqual(await scene.decide(registry, approval, { approver: "bob", approve: false }), late);
  await claim.consume(scene.granted);
  assert.deepEqual(await scene.decide(registry, approval, { approver: "bob", approve: false }), late);
  assert.deepEqual(scene.audited, ["approve alice", "granted"]);
});

const NEVER = new AbortController().signal;

/** A wait with a flag that shows whether it has ended. */
function wait(registry: ApprovalRegistry, { id }: Approval, { ms = 8000, signal = NEVER } = {}) {
  const waiting = { isOver: false };
  void registry.waitForDecision(id, { ms, signal }).then(() => waiting.isOver = true);
  return waiting;
}

Deno.test.each([
  { name: "an approval", approve: true, then: "claimed" },
  { name: "a denial", approve: false, then: "denied" },
])("$name wakes all waiting polls immediately", async ({ approve, then }) => {
  const { scene, registry } = await openRegistry();
  const [approval, other] = [await parkApart(registry), await parkApart(registry)];
  const all = Array.from({ length: 20 }, () => wait(registry, approval));
  const others = wait(registry, other);
  await scene.clock.advance(0);
  assert.ok(all.every(({ isOver }) => !isOver));
  await scene.decide(registry, approval, { approve });
  assert.equal(poll(registry, approval), then);
  await scene.clock.advance(0);
  assert.ok(all.every(({ isOver }) => isOver));
  assert.equal(others.isOver, false);
  await scene.clock.advance(8000);
  assert.deepEqual([others.isOver, scene.clock.sleeping], [true, 0]);
});

Deno.test("a wait ends when the approval expires and not before", async () => {
  const { scene, registry, approval } = await openParked();
  await scene.clock.advance(TIMEOUT_MS - 1000);
  const waiting = wait(registry, approval);
  await scene.clock.advance(1000);
  assert.deepEqual([waiting.isOver, poll(registry, approval)], [false, "pending"]);
  await scene.clock.advance(1);
  assert.deepEqual([waiting.isOver, poll(registry, approval)], [true, "expired"]);
});

Deno.test("an aborted wait ends immediately without an error", async () => {
  const { scene, registry, approval } = await openParked();
  const abort = new AbortController();
  const waiting = wait(registry, approval, { signal: abort.signal });
  abort.abort(new Error("the client has gone"));
  await scene.clock.advance(0);
  assert.equal(waiting.isOver, true);
  await registry.waitForDecision(approval.id, { ms: 1e9, signal: abort.signal });
  assert.equal(scene.clock.sleeping, 0);
});

Deno.test("waitForDecision() returns immediately for decided, expired and forgotten approvals", async () => {
  const { scene, registry } = await openRegistry();
  const [approved, denied, pending] = [await park(registry), await park(registry), await park(registry)];
  await scene.decide(registry, approved);
  await scene.decide(registry, denied, { approve: false });
  for (const { id } of [approved, denied]) await registry.waitForDecision(id, { ms: 1e9, signal: NEVER });
  await take(registry, approved).consume(scene.granted);
  await registry.waitForDecision(approved.id, { ms: 1e9, signal: NEVER });
  await scene.clock.advance(TIMEOUT_MS + 1);
  await registry.waitForDecision(pending.id, { ms: 1e9, signal: NEVER });
  await scene.clock.advance(TIMEOUT_MS);
  await registry.waitForDecision(pending.id, { ms: 1e9, signal: NEVER });
});

Deno.test.each([
  { name: "released", end: "release", then: "claimed" },
  { name: "consumed", end: "consume", then: "consumed" },
])("a wait for an approval held by another poll ends when the claim is $name", async ({ end, then }) => {
  const { scene, registry, approval } = await openParked();
  await scene.decide(registry, approval);
  const claim = take(registry, approval);
  const waiting = wait(registry, approval);
  await scene.clock.advance(0);
  assert.equal(waiting.isOver, false);
  if (end === "release") claim.release();
  else await claim.consume(scene.granted);
  await scene.clock.advance(0);
  assert.deepEqual([waiting.isOver, poll(registry, approval)], [true, then]);
});

Deno.test("a wait ends when the decision takes effect, but not if its audit record fails", async () => {
  const { scene, registry, approval } = await openParked();
  const waiting = wait(registry, approval);
  await assert.rejects(
    registry.decide(approval.id, { approver: "alice", approve: true, learnTtlSeconds: 0 }, () => {
      return Promise.reject(new Error("full"));
    }),
  );
  await scene.clock.advance(0);
  assert.equal(waiting.isOver, false);
  const audit = gate();
  const decided = registry.decide(
    approval.id,
    { approver: "alice", approve: true, learnTtlSeconds: 0 },
    () => audit.opened,
  );
  await scene.clock.advance(0);
  assert.equal(waiting.isOver, false);
  audit.open();
  await decided;
  await scene.clock.advance(0);
  assert.equal(waiting.isOver, true);
});

Deno.test("close() ends all waits", async () => {
  const { scene, registry } = await openRegistry();
  const waiting = wait(registry, await park(registry), { ms: 1e9 });
  await registry.close();
  await scene.clock.advance(0);
  assert.deepEqual([waiting.isOver, scene.clock.sleeping], [true, 0]);
});
