import assert from "node:assert/strict";
import { gate, park, poll, RegistryScene, take, TIMEOUT_MS } from "../testing/registry_scene.ts";
import { draftOf, EVER, PUBLIC_KEY } from "../testing/sample_approval.ts";
import type { Approval } from "./approval.ts";
import type { ApprovalRegistry } from "./registry.ts";

async function approved(scene: RegistryScene, registry: ApprovalRegistry): Promise<Approval> {
  const approval = await park(registry, { bearerToken: "secret" });
  await scene.decide(registry, approval);
  return approval;
}

Deno.test("an approval is collected once: claimed, consumed, then gone", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await approved(scene, registry);
  const claim = take(registry, approval);
  assert.equal(claim.approval.state.kind, "approved");
  assert.deepEqual(claim.request, { ...approval.request, bearer_token: "secret" });
  await claim.consume(scene.granted);
  claim.release();
  assert.equal(poll(registry, approval), "consumed");
  assert.equal(registry.describe(claim.approval).status, "approved");
  assert.equal((await scene.store.loadApprovals(EVER))[0]?.state.kind, "consumed");
});

Deno.test("of many polls at once exactly one collects, the others are told that it is being issued", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await approved(scene, registry);
  const all = Array.from({ length: 50 }, () => registry.claim(approval.id, { caller: "broker-1" }));
  assert.deepEqual(all.map(({ kind }) => kind), ["claimed", ...Array(49).fill("issuing")]);
});

Deno.test.each([
  { name: "an unknown caller", claimant: { caller: "broker-2" } },
  { name: "the approver", claimant: { caller: "alice" } },
  { name: "nobody", claimant: { caller: "" } },
  { name: "another caller with the key", claimant: { caller: "broker-2", publicKey: PUBLIC_KEY } },
  { name: "another caller with an invalid key", claimant: { caller: "broker-2", publicKey: "" } },
])("$name learns nothing, whatever the status is", async ({ claimant }) => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const states = [await park(registry), await approved(scene, registry), await park(registry)];
  await scene.decide(registry, states[2]!, { approve: false });
  for (const { id } of states) assert.deepEqual(registry.claim(id, claimant), { kind: "not_owner" });
  await scene.clock.advance(TIMEOUT_MS + 1);
  for (const { id } of states) assert.deepEqual(registry.claim(id, claimant), { kind: "not_owner" });
});

Deno.test("a key other than that of the request is refused, also while it is pending", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await park(registry);
  const claim = (publicKey: string) => registry.claim(approval.id, { caller: "broker-1", publicKey }).kind;
  const other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
  assert.deepEqual([other, "", "x"].map(claim), ["wrong_key", "wrong_key", "wrong_key"]);
  assert.equal(claim(`${PUBLIC_KEY} a comment`), "pending");
  await scene.decide(registry, approval);
  assert.deepEqual([other, "", "x"].map(claim), ["wrong_key", "wrong_key", "wrong_key"]);
  assert.equal(claim(PUBLIC_KEY), "claimed");
});

Deno.test("when signing fails the approval is given back, to be collected once (A6)", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await approved(scene, registry);
  for (let n = 0; n < 3; n++) {
    const claim = take(registry, approval);
    assert.equal(registry.claim(approval.id, { caller: "broker-1" }).kind, "issuing");
    claim.release();
    claim.release();
  }
  await take(registry, approval).consume(scene.granted);
  assert.equal(poll(registry, approval), "consumed");
});

Deno.test("a claim released twice does not release the next poll's", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await approved(scene, registry);
  const first = take(registry, approval);
  first.release();
  take(registry, approval);
  first.release();
  assert.equal(registry.claim(approval.id, { caller: "broker-1" }).kind, "issuing");
  await assert.rejects(first.consume(scene.granted), TypeError);
  assert.deepEqual(scene.audited, ["approve alice"]);
});

Deno.test("a claim is consumed once", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const claim = take(registry, await approved(scene, registry));
  const [first, second] = await Promise.allSettled([
    claim.consume(scene.granted),
    claim.consume(scene.granted),
  ]);
  assert.deepEqual([first.status, second.status], ["fulfilled", "rejected"]);
  await assert.rejects(claim.consume(scene.granted), TypeError);
  assert.deepEqual(scene.audited, ["approve alice", "granted"]);
});

Deno.test("consume() audits, then stores, then uses it up", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await approved(scene, registry);
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

Deno.test("nothing is used up when the audit fails, and the store is not touched", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await approved(scene, registry);
  const claim = take(registry, approval);
  await assert.rejects(claim.consume(() => Promise.reject(new Error("full"))), { message: "full" });
  assert.equal(registry.claim(approval.id, { caller: "broker-1" }).kind, "issuing");
  claim.release();
  assert.equal((await scene.store.loadApprovals(EVER))[0]?.state.kind, "approved");
  await take(registry, approval).consume(scene.granted);
});

Deno.test("nothing is used up when the store fails", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await approved(scene, registry);
  const claim = take(registry, approval);
  scene.store.failing.add("updateApproval");
  await assert.rejects(claim.consume(scene.granted), { code: "internal" });
  claim.release();
  assert.deepEqual([poll(registry, approval), scene.storeErrors], ["claimed", 1]);
});

Deno.test("released while it is being consumed, it can't be collected a second time", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await approved(scene, registry);
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

Deno.test("released while consuming fails, it is free again", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const approval = await approved(scene, registry);
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
])("an approval that $name while it is collected stays until that is done", async ({ waited, released }) => {
  const scene = new RegistryScene();
  const registry = await scene.open();
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

Deno.test("neither the list nor the store has the end user's token, wherever it came along", async () => {
  const scene = new RegistryScene();
  const registry = await scene.open();
  const request = Object.assign({ bearer_token: "secret" }, draftOf().request);
  const approval = await park(registry, { bearerToken: "secret", request });
  await scene.decide(registry, approval);
  assert.equal(take(registry, approval).request.bearer_token, "secret");
  const kept = [
    approval,
    registry.list(),
    registry.find(approval.id),
    await scene.store.loadApprovals(EVER),
  ];
  assert.ok(!JSON.stringify(kept).includes("secret"));
});
