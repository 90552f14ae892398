/** What a registry takes over from others that share its store. */
import assert from "node:assert/strict";
import { gate, park, parkApart, poll, RegistryScene, take } from "../testing/registry_scene.ts";
import type { Approval } from "./approval.ts";
import type { ApprovalRegistry } from "./registry.ts";

/** Two registries over one store, and the first's and second's look at it. */
async function openTwo() {
  const scene = new RegistryScene();
  const [a, b] = [await scene.open(), await scene.open()];
  const look = (registry: ApprovalRegistry) => registry.takeOver((after) => scene.store.loadApprovals(after));
  return { scene, a, b, look };
}

const statusOf = (registry: ApprovalRegistry, { id }: Approval) => {
  const approval = registry.find(id);
  return approval === undefined ? undefined : registry.describe(approval).status;
};

Deno.test("takeOver() takes in what others have parked, and counts it", async () => {
  const { a, b, look } = await openTwo();
  const approval = await parkApart(a);
  assert.equal(poll(b, approval), "unknown");
  await look(b);
  await look(b);
  assert.equal(poll(b, approval), "pending");
  assert.deepEqual([b.pendingCount(), b.list().length], [1, 1]);
});

Deno.test("takeOver() takes in what others have decided and collected, and wakes who waits", async () => {
  const { scene, a, b, look } = await openTwo();
  const approval = await parkApart(a);
  await look(b);
  const waiting = a.waitForDecision(approval.id, { ms: 8_000, signal: new AbortController().signal });
  await scene.decide(b, approval);
  await look(a);
  await waiting;
  assert.deepEqual([statusOf(a, approval), a.pendingCount()], ["approved", 0]);
  const claim = take(a, approval);
  await claim.consume(scene.granted);
  await look(b);
  assert.equal(poll(b, approval), "consumed");
});

Deno.test("takeOver() never goes back: what it has read may be older than what was done here", async () => {
  const { scene, a, b } = await openTwo();
  const approval = await parkApart(a);
  const before = await scene.store.loadApprovals(0);
  await scene.decide(a, approval);
  await a.takeOver(() => Promise.resolve(before));
  assert.equal(statusOf(a, approval), "approved");
  await b.takeOver(() => Promise.resolve(before));
  assert.equal(statusOf(b, approval), "pending");
});

Deno.test("takeOver() leaves alone what is being parked here", async () => {
  const { scene, a } = await openTwo();
  const { opened, open } = gate();
  scene.store.held.set("insertApproval", opened);
  const parking = parkApart(a);
  open();
  const [approval] = await Promise.all([parking, a.takeOver((after) => scene.store.loadApprovals(after))]);
  assert.deepEqual([a.pendingCount(), poll(a, approval)], [1, "pending"]);
});

Deno.test("takeOver() parts a request from one that was decided elsewhere without it: it can be decided alone", async () => {
  const { scene, a, b, look } = await openTwo();
  const first = await park(a);
  await look(b);
  // The other does not know of the second when it decides the first.
  const second = await park(a);
  await scene.decide(b, first);
  await look(a);
  assert.deepEqual([statusOf(a, first), statusOf(a, second)], ["approved", "pending"]);
  assert.deepEqual(a.list().map(({ id }) => id), [second.id, first.id]);
  await scene.decide(a, second);
  assert.equal(poll(a, second), "claimed");
});
