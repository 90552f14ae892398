import assert from "node:assert/strict";
import {
  gate,
  openRegistry,
  park,
  poll,
  RegistryScene,
  take,
  TIMEOUT_MS,
} from "../testing/registry_scene.ts";
import { draftOf } from "../testing/sample_approval.ts";
import type { ApprovalDraft } from "./approval.ts";
import type { ApprovalRegistry } from "./registry.ts";

const OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIoI43F0CfGV/VLbTCz6XXLKZwm/HZQSG/N0iAG0D28c";
const { request } = draftOf();

/** The same request with another key and token, as a broker sends it on a retry. */
const again = (fields: Partial<ApprovalDraft> = {}): ApprovalDraft =>
  draftOf({ request: { ...request, public_key: OTHER_KEY }, bearerToken: "second", ...fields });

async function parkTwo(registry: ApprovalRegistry) {
  const first = await park(registry, { bearerToken: "first" });
  const second = await registry.create(again());
  assert.ok(second.kind === "parked");
  assert.equal(second.hasJoined, true);
  return [first, second.approval] as const;
}

Deno.test("each of two identical requests is collected once, with its own key and token", async () => {
  const { scene, registry } = await openRegistry();
  const [first, second] = await parkTwo(registry);
  await scene.decide(registry, first);
  const claims = [take(registry, first), take(registry, second)];
  assert.deepEqual(claims.map(({ request }) => [request.public_key, request.bearer_token]), [
    [request.public_key, "first"],
    [OTHER_KEY, "second"],
  ]);
  assert.equal(poll(registry, first), "issuing");
  await claims[0]?.consume(scene.granted);
  assert.deepEqual([poll(registry, first), poll(registry, second)], ["consumed", "issuing"]);
  const half = registry.describe(registry.list()[0] ?? first);
  assert.deepEqual([half.collected, half.expires_at !== undefined], [1, true]);
  await claims[1]?.consume(scene.granted);
  assert.deepEqual([poll(registry, first), poll(registry, second)], ["consumed", "consumed"]);
  const whole = registry.describe(registry.list()[0] ?? first);
  assert.deepEqual([whole.collected, whole.expires_at], [2, undefined]);
  const wrongKey = registry.claim(first.id, { caller: "broker-1", publicKey: OTHER_KEY });
  assert.equal(wrongKey.kind, "wrong_key");
  assert.equal(registry.claim(second.id, { caller: "broker-2" }).kind, "not_owner");
});

Deno.test("a denial or the timeout ends both identical requests", async () => {
  const { scene, registry } = await openRegistry();
  const denied = await parkTwo(registry);
  await scene.clock.advance(TIMEOUT_MS / 2);
  await scene.decide(registry, denied[1], { approve: false });
  assert.deepEqual(denied.map((each) => poll(registry, each)), ["denied", "denied"]);
  const first = await park(registry);
  await scene.clock.advance(TIMEOUT_MS / 2);
  const late = await registry.create(again());
  assert.ok(late.kind === "parked" && late.hasJoined);
  await scene.clock.advance(TIMEOUT_MS / 2 + 1);
  assert.deepEqual([poll(registry, first), poll(registry, late.approval)], ["expired", "expired"]);
  const next = await registry.create(again());
  assert.ok(next.kind === "parked" && !next.hasJoined, "what has expired is joined no more");
});

Deno.test.each<{ name: string; fields: Partial<ApprovalDraft> }>([
  { name: "of another caller", fields: { caller: "broker-2" } },
  { name: "for another end user", fields: { endUser: "alice" } },
  { name: "for an untrusted broker's end user", fields: { request: { ...request, end_user: "alice" } } },
  { name: "for one of other groups", fields: { request: { ...request, end_user_groups: [] } } },
  { name: "for another host", fields: { request: { ...request, host: "web02" } } },
  { name: "for another command", fields: { request: { ...request, command: "id" } } },
  { name: "elevated", fields: { request: { ...request, sudo: true } } },
  { name: "for another account", fields: { request: { ...request, sudo_user: "db" } } },
  { name: "with a terminal", fields: { request: { ...request, pty: true } } },
  { name: "for another life", fields: { request: { ...request, ttl_seconds: 60 } } },
  { name: "for a session", fields: { request: { ...request, purpose: "session", session_mode: "shell" } } },
  { name: "for a bastion", fields: { request: { ...request, role: "bastion" } } },
  { name: "that is a dry run", fields: { request: { ...request, dry_run: true } } },
  { name: "of other content", fields: { request: { ...request, content_sha256: "aa".repeat(32) } } },
  { name: "with another reason", fields: { request: { ...request, reason: "because" } } },
  { name: "for another rule", fields: { rule: "behavior" } },
  { name: "that is unusual", fields: { anomalies: ["new-host:web01"] } },
  {
    name: "whose target has changed",
    fields: { target: { user: "root", addr: "10.0.0.2:22", lifeSeconds: 60 } },
  },
])("a request $name does not join another approval", async ({ fields }) => {
  const { registry } = await openRegistry();
  await park(registry);
  const other = await registry.create(draftOf(fields));
  assert.ok(other.kind === "parked");
  assert.deepEqual([other.hasJoined, registry.list().length], [false, 2]);
});

Deno.test("a request joins an identical one that is still being stored", async () => {
  const { scene, registry } = await openRegistry();
  const disk = gate();
  scene.store.held.set("insertApproval", disk.opened);
  const both = [registry.create(draftOf()), registry.create(again())];
  disk.open();
  const outcomes = await Promise.all(both);
  assert.deepEqual(outcomes.map((each) => each.kind === "parked" && each.hasJoined), [false, true]);
  assert.equal(registry.list().length, 1);
});

Deno.test("a request does not join an identical one that could not be stored", async () => {
  const { scene, registry } = await openRegistry();
  let isFirst = true;
  scene.store.before = () => {
    const failing = isFirst;
    isFirst = false;
    return failing ? Promise.reject(new Error("the disk is full")) : Promise.resolve();
  };
  const [failed, stored] = await Promise.allSettled([registry.create(draftOf()), registry.create(again())]);
  assert.equal(failed?.status, "rejected");
  assert.ok(stored?.status === "fulfilled" && stored.value.kind === "parked" && !stored.value.hasJoined);
  assert.deepEqual(registry.list().map(({ id }) => id), [stored.value.approval.id]);
  const next = await registry.create(draftOf());
  assert.ok(next.kind === "parked" && next.hasJoined);
});

Deno.test("a request that is stored before a failing identical one is an approval of its own", async () => {
  const { scene, registry } = await openRegistry();
  const disk = gate();
  let isFirst = true;
  scene.store.before = async () => {
    if (!isFirst) return;
    isFirst = false;
    await disk.opened;
    throw new Error("the disk is full");
  };
  const failing = registry.create(draftOf());
  const second = await registry.create(again());
  disk.open();
  await assert.rejects(failing);
  assert.ok(second.kind === "parked" && !second.hasJoined);
  assert.deepEqual(registry.list().map(({ id }) => id), [second.approval.id]);
});

Deno.test("a request that arrives during the decision on an identical one stays pending", async () => {
  const { registry } = await openRegistry();
  const first = await park(registry);
  const audit = gate();
  const deciding = registry.decide(
    first.id,
    { approver: "alice", approve: true, learnTtlSeconds: 0 },
    () => audit.opened,
  );
  await Promise.resolve();
  const second = await registry.create(again());
  assert.ok(second.kind === "parked");
  audit.open();
  const decided = await deciding;
  assert.ok(decided.kind === "decided");
  assert.deepEqual(decided.remaining, [second.approval], "approvers have to be notified of it");
  assert.deepEqual([poll(registry, first), poll(registry, second.approval)], ["claimed", "pending"]);
});

Deno.test("a request that is stored after the decision on an identical one stays pending", async () => {
  const { scene, registry } = await openRegistry({ notifyMs: 1000 });
  const first = await park(registry);
  const disk = gate();
  scene.store.held.set("insertApproval", disk.opened);
  const creating = registry.create(again());
  await scene.decide(registry, first);
  disk.open();
  const second = await creating;
  assert.ok(second.kind === "parked" && !second.hasJoined);
  assert.equal(second.notifyUntil, scene.clock.now() + 1000, "it is kept that it is to be announced");
  assert.deepEqual([poll(registry, first), poll(registry, second.approval)], ["claimed", "pending"]);
  assert.deepEqual(new Set(registry.list().map(({ id }) => id)), new Set([first.id, second.approval.id]));
  const restarted = await scene.open();
  assert.deepEqual([poll(restarted, first), poll(restarted, second.approval)], ["claimed", "pending"]);
  assert.equal(restarted.list().length, 2, "nor after a restart");
});

Deno.test.each(["store", "audit of one"])("if the %s fails, neither request is decided", async (trouble) => {
  const { scene, registry } = await openRegistry();
  const two = await parkTwo(registry);
  if (trouble === "store") scene.store.failing.add("updateApproval");
  const decided = registry.decide(
    two[0].id,
    { approver: "alice", approve: true, learnTtlSeconds: 0, shown: two.map(({ id }) => id) },
    ({ id }) =>
      trouble !== "store" && id === two[1].id ? Promise.reject(new Error("full")) : Promise.resolve(),
  );
  await assert.rejects(decided);
  assert.deepEqual(two.map((each) => poll(registry, each)), ["pending", "pending"]);
  scene.store.failing.clear();
  assert.equal((await scene.decide(registry, two[1])).kind, "decided");
  assert.deepEqual(two.map((each) => poll(registry, each)), ["claimed", "claimed"]);
});

Deno.test("identical requests stay one approval after a restart, before and after the decision", async () => {
  const scene = new RegistryScene();
  const two = await parkTwo(await scene.open());
  const second = await scene.open();
  assert.deepEqual(second.list().map(({ id }) => id), [two[0].id]);
  const third = await second.create(again());
  assert.ok(third.kind === "parked" && third.hasJoined);
  await scene.decide(second, two[1]);
  const claim = take(second, two[1]);
  await claim.consume(scene.granted);
  const last = await scene.open();
  assert.deepEqual(last.list().map(({ id }) => id), [two[0].id]);
  assert.deepEqual([...two, third.approval].map((each) => poll(last, each)), [
    "claimed",
    "consumed",
    "claimed",
  ]);
});

Deno.test("of identical requests only the first is announced, also after a restart", async () => {
  const { scene, registry } = await openRegistry({ notifyMs: 1 });
  const two = await parkTwo(registry);
  const [first, second] = two;
  const announced = (by: ApprovalRegistry) => two.map(({ id }) => by.findFirst(id)?.id);
  assert.deepEqual(announced(registry), [first.id, undefined]);
  assert.deepEqual(announced(await scene.open()), [first.id, undefined], "nor after a restart");
  const claim = { now: Number.MAX_SAFE_INTEGER, until: Number.MAX_SAFE_INTEGER, limit: 9 };
  assert.deepEqual(new Set(await scene.store.claimNotifications(claim)), new Set([first.id, second.id]));
});

Deno.test("requests that join after the approver's view stay pending as a group of their own", async () => {
  const { scene, registry } = await openRegistry();
  const [first, second] = await parkTwo(registry);
  const late = [];
  for (let n = 0; n < 3; n++) late.push(await park(registry));
  const decided = await scene.decide(registry, first, { shown: [first.id, second.id] });
  const [next, ...rest] = late;
  assert.ok(next !== undefined && decided.kind === "decided");
  assert.deepEqual(decided.remaining, [next]);
  for (const by of [registry, await scene.open()]) {
    const polled: readonly string[] = [first, second, ...late].map((each) => poll(by, each));
    assert.deepEqual(polled, ["claimed", "claimed", "pending", "pending", "pending"]);
    assert.deepEqual(by.list().map(({ id }) => id), [next.id, first.id]);
    assert.deepEqual(by.describe(next).joined, rest.map(({ id }) => id));
    assert.deepEqual(by.describe(by.find(first.id) ?? first).joined, [second.id]);
  }
  // The decision covers one request of the group. The others stay pending and visible to approvers.
  const last = await scene.decide(registry, rest[1] ?? next, { shown: [], approve: false });
  assert.deepEqual(last.kind === "decided" && last.remaining, []);
  assert.deepEqual(late.map((each) => poll(registry, each)), ["pending", "pending", "denied"]);
  assert.equal((await scene.decide(registry, next, { shown: late.map(({ id }) => id) })).kind, "not_pending");
  assert.equal((await scene.decide(registry, next)).kind, "decided");
});

Deno.test("decide() rejects a shown ID of a request that is not identical", async () => {
  const { scene, registry } = await openRegistry();
  const [asked, other] = [await park(registry), await park(registry, { host: "web02" })];
  for (const id of [other.id, "00".repeat(16)]) {
    assert.deepEqual(await scene.decide(registry, asked, { shown: [id] }), { kind: "not_identical", id });
  }
  assert.deepEqual([poll(registry, asked), poll(registry, other)], ["pending", "pending"]);
  assert.deepEqual(scene.audited, []);
});

Deno.test("a group contains at most 100 identical requests", async () => {
  const { registry } = await openRegistry({ maxPendingPerCaller: 300 });
  for (let n = 0; n < 201; n++) await park(registry);
  const sizes = registry.list().map((each) => 1 + (registry.describe(each).joined?.length ?? 0));
  assert.deepEqual(sizes.sort(), [1, 100, 100]);
});

Deno.test("each identical request counts towards the pending limit", async () => {
  const { scene, registry } = await openRegistry({ maxPendingPerCaller: 2 });
  const two = await parkTwo(registry);
  assert.equal((await registry.create(again())).kind, "too_many");
  await scene.decide(registry, two[0], { approve: false });
  assert.equal(registry.pendingCount(), 0);
});
