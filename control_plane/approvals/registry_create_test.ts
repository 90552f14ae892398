import assert from "node:assert/strict";
import { FixedRandom } from "@gateway/shared/testing";
import {
  gate,
  openParked,
  openRegistry,
  park,
  poll,
  RegistryScene,
  take,
  TIMEOUT_MS,
} from "../testing/registry_scene.ts";
import { CREATED_AT, draftOf, EVER, PUBLIC_KEY } from "../testing/sample_approval.ts";
import type { Approval } from "./approval.ts";
import type { ApprovalRegistry } from "./registry.ts";

Deno.test("create() returns a pending approval with a random 128-bit ID and without the token", async () => {
  const { registry } = await openRegistry({ random: new FixedRandom() });
  const { bearerToken: _token, ...draft } = draftOf();
  const approval = await park(registry, { bearerToken: "secret" });
  assert.deepEqual(approval, {
    ...draft,
    id: "000102030405060708090a0b0c0d0e0f",
    createdAt: CREATED_AT,
    timeoutMs: 120_000,
    state: { kind: "pending" },
  });
  assert.equal(registry.find(approval.id), approval);
  assert.deepEqual(registry.list(), [approval]);
});

Deno.test("create() stores the approval before it is listed", async () => {
  const { scene, registry } = await openRegistry();
  const disk = gate();
  scene.store.held.set("insertApproval", disk.opened);
  const created = registry.create(draftOf());
  await scene.clock.advance(0);
  assert.deepEqual(registry.list(), []);
  disk.open();
  await created;
  assert.equal(registry.list().length, 1);
  assert.equal((await scene.store.loadApprovals(EVER)).length, 1);
});

Deno.test("create() keeps no approval and no slot if the store fails", async () => {
  const { scene, registry } = await openRegistry({ maxPendingPerCaller: 1 });
  scene.store.failing.add("insertApproval");
  await assert.rejects(registry.create(draftOf()), { code: "internal" });
  assert.deepEqual([registry.list(), registry.pendingCount(), scene.storeErrors], [[], 0, 1]);
  scene.store.failing.clear();
  await park(registry);
});

Deno.test("create() keeps a command of 60 KiB unchanged", async () => {
  const { scene, registry } = await openRegistry();
  const command = `printf %s '${"é\t".repeat(20_000)}'`;
  const { id } = await park(registry, { command });
  const found = registry.find(id);
  assert.deepEqual([found?.command, found?.request.command], [command, command]);
  assert.equal((await scene.open()).find(id)?.command, command);
});

Deno.test("create() rejects a command with a NUL", async () => {
  const { registry } = await openRegistry();
  await assert.rejects(registry.create(draftOf({ command: "rm -rf /tmp/x\0 #" })), { code: "internal" });
  assert.deepEqual([registry.list(), registry.pendingCount()], [[], 0]);
});

/** A broker's request for an end user. */
const of = (endUser: string, caller = "broker-1") => {
  const draft = draftOf({ caller });
  return { ...draft, request: { ...draft.request, end_user: endUser } };
};

Deno.test("one end user can use at most a quarter of a broker's pending limit", async () => {
  const { registry } = await openRegistry({ maxPendingPerCaller: 8 });
  const kinds = [];
  for (let count = 0; count < 3; count++) kinds.push((await registry.create(of("mallory"))).kind);
  assert.deepEqual(kinds, ["parked", "parked", "too_many"]);
  assert.deepEqual(await registry.create(of("mallory")), { kind: "too_many", limit: 2, of: "end user" });
  for (const other of ["alice", "bob", "", "", ""]) await park(registry, of(other));
  await park(registry, of("mallory", "broker-2"));
  await park(registry, of("carol"));
  assert.deepEqual(await registry.create(of("dave")), { kind: "too_many", limit: 8, of: "caller" });
});

Deno.test("an end user's share counts only pending approvals, also after a restart", async () => {
  const { scene, registry } = await openRegistry({ maxPendingPerCaller: 4 });
  await scene.decide(registry, await park(registry, of("mallory")), { approve: false });
  await park(registry, of("mallory"));
  const restarted = await scene.open({ maxPendingPerCaller: 4 });
  assert.equal((await restarted.create(of("mallory"))).kind, "too_many");
  await scene.clock.advance(TIMEOUT_MS + 1);
  await park(restarted, of("mallory"));
});

Deno.test.each([{ limit: 1 }, { limit: 2 }, { limit: 3 }])(
  "a limit of $limit leaves each end user one slot",
  async ({ limit }) => {
    const registry = await new RegistryScene().open({ maxPendingPerCaller: limit });
    await park(registry, of("alice"));
    assert.equal((await registry.create(of("alice"))).kind, "too_many");
  },
);

Deno.test("concurrent requests do not exceed the pending limit", async () => {
  const { scene, registry } = await openRegistry({ maxPendingPerCaller: 5 });
  const disk = gate();
  scene.store.held.set("insertApproval", disk.opened);
  const all = Array.from({ length: 50 }, () => registry.create(draftOf()));
  disk.open();
  const kinds = (await Promise.all(all)).map(({ kind }) => kind);
  assert.equal(kinds.filter((kind) => kind === "parked").length, 5);
  assert.equal(registry.pendingCount(), 5);
});

Deno.test.each([
  { name: "an approval", verdict: {} },
  { name: "a denial", verdict: { approve: false } },
])("$name frees a slot of the pending limit", async ({ verdict }) => {
  const { scene, registry } = await openRegistry({ maxPendingPerCaller: 1 });
  await scene.decide(registry, await park(registry), verdict);
  assert.equal(registry.pendingCount(), 0);
  await park(registry);
  assert.equal((await registry.create(draftOf())).kind, "too_many");
});

Deno.test("expiry frees a slot of the pending limit only after the timeout", async () => {
  const { scene, registry } = await openRegistry({ maxPendingPerCaller: 1 });
  await park(registry);
  await scene.clock.advance(TIMEOUT_MS);
  assert.equal((await registry.create(draftOf())).kind, "too_many");
  await scene.clock.advance(1);
  assert.equal(registry.pendingCount(), 0);
  await park(registry);
  assert.equal(registry.pendingCount(), 1);
});

Deno.test("the pending limit counts approvals that were loaded from the store", async () => {
  const scene = new RegistryScene();
  await park(await scene.open());
  const registry = await scene.open({ maxPendingPerCaller: 1 });
  assert.equal((await registry.create(draftOf())).kind, "too_many");
});

Deno.test("list() returns pending approvals first and then the newest first", async () => {
  const { scene, registry } = await openRegistry();
  const approvals = [];
  for (let n = 0; n < 6; n++) {
    // Two approvals in the same millisecond.
    await scene.clock.advance(n % 2);
    approvals.push(await park(registry, { command: `${n}` }));
  }
  await scene.decide(registry, approvals[1]!, { approve: false });
  await scene.decide(registry, approvals[4]!);
  assert.deepEqual(registry.list().map(({ command }) => command), ["5", "3", "2", "0", "4", "1"]);
  assert.deepEqual(
    registry.list().map((approval) => registry.describe(approval).status),
    ["pending", "pending", "pending", "pending", "approved", "denied"],
  );
});

Deno.test("an ID that was never issued is reported as unknown in any form", async () => {
  const { scene, registry, approval } = await openParked();
  for (
    const id of [
      "",
      "__proto__",
      "constructor",
      `${approval.id} `,
      approval.id.toUpperCase(),
      "x".repeat(100_000),
    ]
  ) {
    assert.equal(registry.find(id), undefined);
    assert.equal(poll(registry, { ...approval, id }), "unknown");
    assert.deepEqual(await scene.decide(registry, { ...approval, id }), { kind: "unknown" });
    await registry.waitForDecision(id, { ms: 1e9, signal: new AbortController().signal });
  }
  assert.deepEqual(scene.audited, []);
});

async function openApproved() {
  const { scene, registry } = await openRegistry();
  return { scene, registry, approval: await approved(scene, registry) };
}

async function approved(scene: RegistryScene, registry: ApprovalRegistry): Promise<Approval> {
  const approval = await park(registry, { bearerToken: "secret" });
  await scene.decide(registry, approval);
  return approval;
}

Deno.test.each([
  { name: "an unknown caller", claimant: { caller: "broker-2" } },
  { name: "the approver", claimant: { caller: "alice" } },
  { name: "an empty caller", claimant: { caller: "" } },
  { name: "another caller with the key", claimant: { caller: "broker-2", publicKey: PUBLIC_KEY } },
  { name: "another caller with an invalid key", claimant: { caller: "broker-2", publicKey: "" } },
])("claim() returns not_owner to $name in every status", async ({ claimant }) => {
  const { scene, registry } = await openRegistry();
  const states = [await park(registry), await approved(scene, registry), await park(registry)];
  await scene.decide(registry, states[2]!, { approve: false });
  for (const { id } of states) assert.deepEqual(registry.claim(id, claimant), { kind: "not_owner" });
  await scene.clock.advance(TIMEOUT_MS + 1);
  for (const { id } of states) assert.deepEqual(registry.claim(id, claimant), { kind: "not_owner" });
});

Deno.test("claim() rejects a key that is not the request's key in any status", async () => {
  const { scene, registry, approval } = await openParked();
  const claim = (publicKey: string) => registry.claim(approval.id, { caller: "broker-1", publicKey }).kind;
  const other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
  assert.deepEqual([other, "", "x"].map(claim), ["wrong_key", "wrong_key", "wrong_key"]);
  assert.equal(claim(`${PUBLIC_KEY} a comment`), "pending");
  await scene.decide(registry, approval);
  assert.deepEqual([other, "", "x"].map(claim), ["wrong_key", "wrong_key", "wrong_key"]);
  assert.equal(claim(PUBLIC_KEY), "claimed");
});

Deno.test("releasing a claim twice does not release the next poll's claim", async () => {
  const { scene, registry, approval } = await openApproved();
  const first = take(registry, approval);
  first.release();
  take(registry, approval);
  first.release();
  assert.equal(registry.claim(approval.id, { caller: "broker-1" }).kind, "issuing");
  await assert.rejects(first.consume(scene.granted), TypeError);
  assert.deepEqual(scene.audited, ["approve alice"]);
});

Deno.test("a claim can be consumed only once", async () => {
  const { scene, registry } = await openRegistry();
  const claim = take(registry, await approved(scene, registry));
  const [first, second] = await Promise.allSettled([
    claim.consume(scene.granted),
    claim.consume(scene.granted),
  ]);
  assert.deepEqual([first.status, second.status], ["fulfilled", "rejected"]);
  await assert.rejects(claim.consume(scene.granted), TypeError);
  assert.deepEqual(scene.audited, ["approve alice", "granted"]);
});

Deno.test("consume() records, then stores, then marks the approval as consumed", async () => {
  const { scene, registry, approval } = await openApproved();
  const claim = take(registry, approval);
  const disk = gate();
  scene.store.held.set("updateApproval", disk.opened);
  const before = scene.store.calls.length;
  let isConsumed = false;
  const consumed = claim.consume(() => {
    assert.equal(scene.store.calls.length, before);
    return scene.granted();
  }).then(() => isConsumed = true);
  await scene.clock.advance(0);
  assert.deepEqual([isConsumed, scene.audited.at(-1)], [false, "granted"]);
  assert.equal(registry.claim(approval.id, { caller: "broker-1" }).kind, "issuing");
  disk.open();
  await consumed;
  assert.equal((await scene.store.loadApprovals(EVER))[0]?.state.kind, "consumed");
});

Deno.test("a claim that is released during a successful consume() cannot be claimed again", async () => {
  const { scene, registry, approval } = await openApproved();
  const claim = take(registry, approval);
  const disk = gate();
  scene.store.held.set("updateApproval", disk.opened);
  const consumed = claim.consume(scene.granted);
  claim.release();
  assert.equal(registry.claim(approval.id, { caller: "broker-1" }).kind, "issuing");
  disk.open();
  await consumed;
  assert.equal(poll(registry, approval), "consumed");
});

Deno.test("a claim that is released during a failing consume() can be claimed again", async () => {
  const { registry, approval } = await openApproved();
  const claim = take(registry, approval);
  const audit = gate();
  const consumed = claim.consume(async () => {
    await audit.opened;
    throw new Error("full");
  });
  claim.release();
  assert.equal(registry.claim(approval.id, { caller: "broker-1" }).kind, "issuing");
  audit.open();
  await assert.rejects(consumed, { message: "full" });
  assert.equal(poll(registry, approval), "claimed");
});

Deno.test.each([
  { name: "expires", waited: TIMEOUT_MS + 1, released: "expired" },
  { name: "would be forgotten", waited: 3 * TIMEOUT_MS, released: "unknown" },
])("an approval that $name during its collection stays until its end", async ({ waited, released }) => {
  const { scene, registry } = await openRegistry();
  const [kept, given] = [await approved(scene, registry), await approved(scene, registry)];
  const [keep, give] = [take(registry, kept), take(registry, given)];
  await scene.clock.advance(waited);
  assert.equal(registry.list().length, 2);
  await registry.close();
  assert.equal(registry.claim(kept.id, { caller: "broker-1" }).kind, "issuing");
  assert.equal(registry.describe(kept).status, "pending", "as it was described");
  assert.equal(registry.describe(registry.find(kept.id)!).status, "approved");
  await keep.consume(scene.granted);
  give.release();
  assert.equal(poll(registry, given), released);
  assert.equal(poll(registry, kept), released === "unknown" ? "unknown" : "consumed");
  assert.equal(registry.list().length, released === "unknown" ? 0 : 2);
});
