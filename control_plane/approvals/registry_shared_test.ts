import assert from "node:assert/strict";
import { gate, park, parkApart, poll, RegistryScene, take, TIMEOUT_MS } from "../testing/registry_scene.ts";
import { approvalOf, EVER } from "../testing/sample_approval.ts";
import type { Approval } from "./approval.ts";
import type { ApprovalRegistry } from "./registry.ts";

/** Two registries over one store, and a function that loads the store into one of them. */
async function openTwo() {
  const scene = new RegistryScene();
  const [a, b] = [await scene.open(), await scene.open()];
  const look = (registry: ApprovalRegistry) =>
    registry.takeOver((timing) => scene.store.loadApprovals(timing));
  return { scene, a, b, look };
}

const statusOf = (registry: ApprovalRegistry, { id }: Approval) => {
  const approval = registry.find(id);
  return approval === undefined ? undefined : registry.describe(approval).status;
};

Deno.test("takeOver() adds and counts approvals of other instances", async () => {
  const { a, b, look } = await openTwo();
  const approval = await parkApart(a);
  assert.equal(poll(b, approval), "unknown");
  await look(b);
  await look(b);
  assert.equal(poll(b, approval), "pending");
  assert.deepEqual([b.pendingCount(), b.list().length], [1, 1]);
});

Deno.test("takeOver() applies decisions and collections of other instances and wakes waiters", async () => {
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

Deno.test("takeOver() never reverts a local change to an older state", async () => {
  const { scene, a, b } = await openTwo();
  const approval = await parkApart(a);
  const before = await scene.store.loadApprovals(EVER);
  await scene.decide(a, approval);
  await a.takeOver(() => Promise.resolve(before));
  assert.equal(statusOf(a, approval), "approved");
  await b.takeOver(() => Promise.resolve(before));
  assert.equal(statusOf(b, approval), "pending");
});

Deno.test("takeOver() ignores approvals that are being parked locally", async () => {
  const { scene, a } = await openTwo();
  const { opened, open } = gate();
  scene.store.held.set("insertApproval", opened);
  const parking = parkApart(a);
  open();
  const [approval] = await Promise.all([parking, a.takeOver((timing) => scene.store.loadApprovals(timing))]);
  assert.deepEqual([a.pendingCount(), poll(a, approval)], [1, "pending"]);
});

Deno.test("takeOver() separates a request from a group that was decided elsewhere without it", async () => {
  const { scene, a, b, look } = await openTwo();
  const first = await park(a);
  await look(b);
  // The other registry does not know the second request when it decides the first.
  const second = await park(a);
  assert.equal(a.findFirst(second.id), undefined, "it is announced with the first");
  await scene.decide(b, first);
  await look(a);
  assert.deepEqual([statusOf(a, first), statusOf(a, second)], ["approved", "pending"]);
  assert.equal(a.findFirst(second.id), second, "it is announced by itself");
  assert.deepEqual(a.list().map(({ id }) => id), [second.id, first.id]);
  await scene.decide(a, second);
  assert.equal(poll(a, second), "claimed");
});

Deno.test("takeOver() keeps each approval's own timeout on every instance", async () => {
  const scene = new RegistryScene();
  const [quick, slow] = [
    await scene.open({ timeoutSeconds: 60 }),
    await scene.open({ timeoutSeconds: 3600 }),
  ];
  const both = [quick, slow];
  const look = () => Promise.all(both.map((each) => each.takeOver((all) => scene.store.loadApprovals(all))));
  const [short, approved, long] = [await parkApart(quick), await parkApart(quick), await parkApart(slow)];
  await look();
  await scene.decide(slow, approved);
  await look();
  const seen = (approval: Approval) => both.map((each) => statusOf(each, approval));
  const ends = (approval: Approval) => both.map((each) => each.describe(approval).expires_at);
  assert.deepEqual(ends(short), [60_000, 60_000].map((ms) => new Date(short.createdAt + ms).toISOString()));
  assert.equal(new Set(ends(approved)).size, 1);
  const waiting = slow.waitForDecision(short.id, { ms: 100_000, signal: new AbortController().signal });
  await scene.clock.advance(60_000);
  assert.deepEqual([seen(short), seen(approved)], [["pending", "pending"], ["approved", "approved"]]);
  await scene.clock.advance(1);
  await waiting;
  assert.deepEqual([seen(short), seen(approved)], [["expired", "expired"], ["expired", "expired"]]);
  assert.deepEqual(both.map((each) => each.pendingCount()), [1, 1]);
  assert.equal((await scene.decide(slow, short)).kind, "not_pending");
  assert.equal(poll(slow, approved), "expired");
  await scene.clock.advance(60_000);
  assert.deepEqual([seen(short), seen(long)], [[undefined, undefined], ["pending", "pending"]]);
  // A registry that starts now also sees the request. Requests decided together end together.
  both.push(await scene.open({ timeoutSeconds: 1 }));
  const joined = await park(both[2] ?? quick, { command: long.command });
  await look();
  assert.deepEqual([seen(long), seen(joined)], [Array(3).fill("pending"), Array(3).fill("pending")]);
  assert.deepEqual([joined.lead, joined.timeoutMs], [long.id, 3_600_000]);
  await scene.decide(quick, long);
  await look();
  assert.equal(poll(slow, joined), "claimed");
});

Deno.test("an approval without a stored timeout has the timeout of the answering instance", async () => {
  const scene = new RegistryScene();
  await scene.store.insertApproval(approvalOf({ createdAt: scene.clock.now() }));
  const [quick, slow] = [
    await scene.open({ timeoutSeconds: 60 }),
    await scene.open({ timeoutSeconds: 3600 }),
  ];
  await scene.clock.advance(60_001);
  assert.deepEqual([statusOf(quick, approvalOf()), statusOf(slow, approvalOf())], ["expired", "pending"]);
});

const HOUR_MS = 3_600_000;

Deno.test("a restart keeps approvals and decisions but not tokens and claims (A18)", async () => {
  const scene = new RegistryScene();
  const first = await scene.open();
  const approvals = [];
  for (let n = 0; n < 5; n++) approvals.push(await park(first, { bearerToken: "secret", command: `${n}` }));
  const [pending, approved, claimed, consumed, denied] = approvals;
  for (const approval of [approved!, claimed!, consumed!]) {
    await scene.decide(first, approval, { learnTtlSeconds: 60 });
  }
  await scene.decide(first, denied!, { approve: false });
  take(first, claimed!);
  await take(first, consumed!).consume(scene.granted);
  await first.close();

  const second = await scene.open();
  assert.equal(poll(second, pending!), "pending");
  assert.equal(poll(second, denied!), "denied");
  assert.equal(poll(second, consumed!), "consumed");
  for (const approval of [approved!, claimed!]) {
    const claim = take(second, approval);
    assert.deepEqual(claim.request, { ...approval.request, bearer_token: "" });
    assert.equal(claim.approval.state.kind, "approved");
    await claim.consume(scene.granted);
    assert.equal(poll(second, approval), "consumed");
  }
  assert.deepEqual(second.list().map(({ command }) => command), ["0", "4", "3", "2", "1"]);
  assert.deepEqual(
    second.list().map((approval) => second.describe(approval).status),
    ["pending", "denied", "approved", "approved", "approved"],
  );
  assert.equal(second.pendingCount(), 1);
});

Deno.test("a restart keeps the timeouts exact to the millisecond", async () => {
  const scene = new RegistryScene();
  const pending = await park(await scene.open());
  await scene.clock.advance(TIMEOUT_MS - 1);
  const second = await scene.open();
  await scene.clock.advance(1);
  assert.equal(poll(second, pending), "pending");
  await scene.clock.advance(1);
  assert.equal(poll(second, pending), "expired");
  const third = await scene.open();
  assert.equal(poll(third, pending), "expired");
  assert.equal(third.pendingCount(), 0);
  await scene.clock.advance(TIMEOUT_MS - 1);
  assert.equal(poll(await scene.open(), pending), "expired");
  await scene.clock.advance(1);
  assert.equal(poll(await scene.open(), pending), "unknown");
});

Deno.test("a restart deletes old approvals from the store", async () => {
  const scene = new RegistryScene();
  const first = await scene.open();
  await park(first);
  await first.close();
  await scene.clock.advance(2 * TIMEOUT_MS + 1);
  await (await scene.open()).close();
  assert.deepEqual(await scene.store.loadApprovals(EVER), []);
});

Deno.test.each([
  { name: "pending", approve: false, kind: "pending" },
  { name: "approved", approve: true, kind: "claimed" },
])(
  "a $name approval with a time in the future expires one timeout after a restart",
  async ({
    approve,
    kind,
  }) => {
    const scene = new RegistryScene();
    const first = await scene.open();
    await scene.clock.advance(HOUR_MS);
    const approval = await park(first);
    if (approve) {
      await scene.clock.advance(1000);
      await scene.decide(first, approval);
    }
    await scene.clock.advance(-HOUR_MS);
    const second = await scene.open();
    await scene.clock.advance(TIMEOUT_MS);
    assert.equal(poll(second, approval), kind);
    await scene.clock.advance(1);
    assert.equal(poll(second, approval), "expired");
    await scene.clock.advance(TIMEOUT_MS);
    assert.deepEqual(second.list(), []);
  },
);

Deno.test("decide() dates its decision relative to a creation time in the future", async () => {
  const scene = new RegistryScene();
  const first = await scene.open();
  await scene.clock.advance(HOUR_MS);
  const approval = await park(first);
  await scene.clock.advance(-HOUR_MS);
  const second = await scene.open();
  await scene.clock.advance(5000);
  const decided = await scene.decide(second, approval);
  assert.ok(decided.kind === "decided" && decided.approval.state.kind === "approved");
  assert.equal(decided.approval.state.at, approval.createdAt + 5000);
});
