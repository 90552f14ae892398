import assert from "node:assert/strict";
import type { Approval } from "./approval.ts";
import type { ApprovalRegistry } from "./registry.ts";
import { gate, park, parkApart, poll, RegistryScene, take, TIMEOUT_MS } from "../testing/registry_scene.ts";

const NEVER = new AbortController().signal;

/** A wait, and whether it is over. */
function wait(registry: ApprovalRegistry, { id }: Approval, { ms = 8000, signal = NEVER } = {}) {
  const waiting = { isOver: false };
  void registry.waitForDecision(id, { ms, signal }).then(() => waiting.isOver = true);
  return waiting;
}

Deno.test.each([
  { name: "an approval", approve: true, then: "claimed" },
  { name: "a denial", approve: false, then: "denied" },
])("$name wakes all who wait, without the clock moving on", async ({ approve, then }) => {
  const scene = new RegistryScene();
  const registry = await scene.open();
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

Deno.test("a wait ends after its time, no earlier", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const waiting = wait(registry, await park(registry), { ms: 8000 });
  await scene.clock.advance(7999);
  assert.equal(waiting.isOver, false);
  await scene.clock.advance(1);
  assert.equal(waiting.isOver, true);
});

Deno.test("a wait ends when the approval expires, and not before", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await park(registry);
  await scene.clock.advance(TIMEOUT_MS - 1000);
  const waiting = wait(registry, approval);
  await scene.clock.advance(1000);
  assert.deepEqual([waiting.isOver, poll(registry, approval)], [false, "pending"]);
  await scene.clock.advance(1);
  assert.deepEqual([waiting.isOver, poll(registry, approval)], [true, "expired"]);
});

Deno.test("an aborted wait ends at once, and never rejects", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await park(registry);
  const abort = new AbortController();
  const waiting = wait(registry, approval, { signal: abort.signal });
  abort.abort(new Error("the client has gone"));
  await scene.clock.advance(0);
  assert.equal(waiting.isOver, true);
  await registry.waitForDecision(approval.id, { ms: 1e9, signal: abort.signal });
  assert.equal(scene.clock.sleeping, 0);
});

Deno.test("there is nothing to wait for when it is decided, expired or forgotten", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
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
])("who waits for what another poll collects is woken when that is $name", async ({ end, then }) => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await park(registry);
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

Deno.test("who waits while a decision is audited is woken by its effect, and not by its failure", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await park(registry);
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

Deno.test("close() ends the waits", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const waiting = wait(registry, await park(registry), { ms: 1e9 });
  await registry.close();
  await scene.clock.advance(0);
  assert.deepEqual([waiting.isOver, scene.clock.sleeping], [true, 0]);
});
