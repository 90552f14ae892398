import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import type { FreezeSubject } from "@gateway/shared/wire/freeze";
import { MemoryStore } from "@gateway/shared/state/memory";
import type { StateStore } from "@gateway/shared/state/store";
import { FakeClock } from "@gateway/shared/testing/fake_clock";
import { FixedRandom } from "@gateway/shared/testing/fixed_random";
import { SAMPLE_NOW, sampleGrant } from "@gateway/shared/testing/sample_grant";
import { ChangeLock } from "./change_lock.ts";
import type { GrantDraft, WaiverDraft } from "./live_changes.ts";
import { LiveState } from "./live_state.ts";
import { FailingStore } from "./testing/failing_store.ts";

const GRANT: GrantDraft = {
  host: "web01",
  allow: ["^id$"],
  caller: "",
  endUser: "",
  ttlSeconds: 60,
  approver: "operator",
};

const WAIVER: WaiverDraft = {
  host: "web01",
  caller: "broker-1",
  endUser: "alice",
  peer: "control-plane",
  sudo: true,
  sudoUser: "",
  command: "systemctl restart nginx",
  gate: "approved",
  ttlSeconds: 60,
  maxTtlSeconds: 0,
  approver: "boss",
  approvalId: "a1",
};

const IDENTITY = { caller: "broker-1", endUser: "alice", peer: "control-plane" };
const freezeOf = (subject: FreezeSubject) => ({ ...subject, reason: "INC-1", frozenBy: "operator" });
const CALLER = { kind: "caller", value: "broker-1" } as const;
const USER = { kind: "end_user", value: "alice" } as const;

const recorded = () => Promise.resolve();
const unrecorded = () => Promise.reject(new AppError("audit_unavailable", "audit unavailable"));

async function start(store: StateStore = new FailingStore()) {
  const clock = new FakeClock(SAMPLE_NOW);
  const counts = { errors: 0, warnings: 0 };
  const live = await LiveState.open({
    store,
    clock,
    random: new FixedRandom(),
    logger: { info() {}, warn: () => counts.warnings++, error() {} },
    lock: new ChangeLock(),
    onStoreError: () => counts.errors++,
  });
  const ids = () => live.listGrants().map(({ id }) => id);
  const create = async (fields: Partial<GrantDraft> = {}) => {
    const outcome = await live.createGrant({ ...GRANT, ...fields }, recorded);
    assert(outcome.kind === "created");
    return outcome.grant;
  };
  const learn = (fields: Partial<WaiverDraft> = {}) => live.learnWaiver({ ...WAIVER, ...fields }, recorded);
  const freeze = (subject: FreezeSubject) => live.freeze(freezeOf(subject), recorded);
  return { live, clock, counts, ids, create, learn, freeze };
}

/** A second start over the same store. */
const restart = (store: StateStore) => start(store);

Deno.test("createGrant() gives a grant with an id of 24 hex characters that ends with its ttl", async () => {
  const { live, clock, ids, create } = await start();
  const grant = await create({ caller: "broker-1", ttlSeconds: 60 });
  assert.equal(grant.id, "000102030405060708090a0b");
  assert.deepEqual([grant.grantedAt, grant.expiresAt], [SAMPLE_NOW, SAMPLE_NOW + 60_000]);
  await clock.advance(59_999);
  assert.deepEqual(ids(), [grant.id]);
  await clock.advance(1);
  assert.deepEqual(ids(), []);
  assert.equal(live.grants.now, SAMPLE_NOW + 60_000);
});

Deno.test.each([
  { name: "for a frozen caller", draft: { caller: "broker-1" }, kind: "frozen" },
  { name: "for a frozen end user", draft: { endUser: "alice" }, kind: "frozen" },
  {
    name: "for a frozen scope, before its patterns are looked at",
    draft: { caller: "broker-1", allow: ["("] },
    kind: "frozen",
  },
  { name: "with a pattern that is none", draft: { allow: ["^id$", "("] }, kind: "invalid_pattern" },
])("createGrant() refuses one $name, and neither records nor stores it (K5)", async ({ draft, kind }) => {
  const store = new FailingStore();
  const { live, ids, freeze } = await start(store);
  await freeze(CALLER);
  await freeze(USER);
  const outcome = await live.createGrant({ ...GRANT, ...draft }, () => Promise.reject(new Error("recorded")));
  assert.equal(outcome.kind, kind);
  assert.deepEqual([ids(), store.calls.includes("insertGrant")], [[], false]);
});

Deno.test("a grant for everyone is possible while somebody is frozen", async () => {
  const { create, freeze, ids } = await start();
  await freeze(CALLER);
  await create();
  assert.equal(ids().length, 1);
});

// The record comes first: what could not be recorded has not happened.
Deno.test("no change has an effect that could not be recorded", async () => {
  const store = new FailingStore();
  const { live, ids, create, freeze } = await start(store);
  const { id } = await create();
  await freeze(USER);
  store.calls.length = 0;
  const changes = [
    () => live.createGrant(GRANT, unrecorded),
    () => live.revokeGrant(id, unrecorded),
    () => live.learnWaiver({ ...WAIVER, endUser: "" }, unrecorded),
    () => live.freeze(freezeOf(CALLER), unrecorded),
    () => live.unfreeze(USER, unrecorded),
  ];
  for (const change of changes) await assert.rejects(change, { code: "audit_unavailable" });
  assert.deepEqual([ids(), store.calls], [[id], []]);
  assert.deepEqual([live.findFreeze(IDENTITY)?.kind, live.view.freezes.caller.size], ["end_user", 0]);
});

Deno.test("a grant or waiver that could not be stored does not exist", async () => {
  const store = new FailingStore();
  const { live, counts, ids, learn } = await start(store);
  store.failing.add("insertGrant");
  await assert.rejects(() => live.createGrant(GRANT, recorded), { code: "internal" });
  await assert.rejects(() => learn(), { code: "internal" });
  assert.deepEqual([ids(), counts.errors], [[], 2]);
});

Deno.test("revokeGrant() ends a grant now and after a restart", async () => {
  const store = new MemoryStore();
  const { live, ids, create } = await start(store);
  const { id } = await create();
  assert.equal(await live.revokeGrant(id, recorded), true);
  assert.deepEqual([ids(), await store.loadGrants(0)], [[], []]);
  assert.equal(await live.revokeGrant(id, recorded), false);
});

Deno.test("revokeGrant() knows no expired grant", async () => {
  const { live, clock, create } = await start();
  const { id } = await create();
  await clock.advance(60_000);
  assert.equal(await live.revokeGrant(id, recorded), false);
});

Deno.test("revokeGrant() keeps a grant that the store could not delete (K22)", async () => {
  const store = new FailingStore();
  const { live, counts, ids, create } = await start(store);
  const { id } = await create();
  store.failing.add("deleteGrant");
  await assert.rejects(() => live.revokeGrant(id, recorded), { code: "internal" });
  assert.deepEqual(
    [ids(), counts.errors],
    [[id], 1],
    "gone from memory alone it would be back after a restart",
  );
  store.failing.clear();
  assert.equal(await live.revokeGrant(id, recorded), true);
  assert.deepEqual((await restart(store)).ids(), []);
});

Deno.test("learnWaiver() binds to command, elevation, caller and end user (A4, I25)", async () => {
  const outcome = await (await start()).learn();
  assert(outcome.kind === "created");
  assert.deepEqual(outcome.grant, {
    ...sampleGrant(),
    id: "000102030405060708090a0b",
    allow: [],
    waiveApproval: ["^systemctl restart nginx$"],
    caller: "broker-1",
    endUser: "alice",
    sudo: true,
    sudoUser: "root",
    approver: "boss",
    approvalId: "a1",
  });
});

Deno.test("learnWaiver() again refreshes the one waiver of the scope", async () => {
  const store = new FailingStore();
  const { live, clock, learn } = await start(store);
  await learn();
  await learn({ endUser: "" });
  await clock.advance(30_000);
  await learn({ sudoUser: "root" });
  const waivers = live.listGrants();
  assert.deepEqual(waivers.map(({ endUser }) => endUser), ["", "alice"]);
  assert.equal(waivers[1]?.expiresAt, SAMPLE_NOW + 90_000);
  assert.deepEqual((await restart(store)).ids(), waivers.map(({ id }) => id));
});

Deno.test("learnWaiver() refreshes when a waiver of the same scope had spared the approval", async () => {
  const { live, clock, learn } = await start();
  await learn();
  await clock.advance(30_000);
  assert.equal((await learn({ gate: "waived" })).kind, "created");
  assert.deepEqual(live.listGrants().map(({ expiresAt }) => expiresAt), [SAMPLE_NOW + 90_000]);
});

Deno.test.each<{ name: string; draft: Partial<WaiverDraft>; reason: string }>([
  { name: "that needed no approval", draft: { gate: "none" }, reason: "not require_approval" },
  { name: "that another waiver had spared it", draft: { gate: "waived" }, reason: "not require_approval" },
  { name: "of a frozen caller (A13)", draft: { caller: "frozen" }, reason: "subject is frozen" },
  { name: "of a frozen end user (A13)", draft: { endUser: "frozen" }, reason: "subject is frozen" },
  { name: "through a frozen forwarder (K6)", draft: { peer: "frozen" }, reason: "subject is frozen" },
])("learnWaiver() learns nothing from a command $name", async ({ draft, reason }) => {
  const store = new FailingStore();
  const { ids, learn, freeze } = await start(store);
  await freeze({ kind: "caller", value: "frozen" });
  await freeze({ kind: "end_user", value: "frozen" });
  assert.deepEqual(await learn(draft), { kind: "skipped", reason });
  assert.deepEqual([ids(), store.calls.includes("insertGrant")], [[], false]);
});

Deno.test("learnWaiver() shortens a life above the cap", async () => {
  const { live, learn } = await start();
  await learn({ ttlSeconds: 100, maxTtlSeconds: 10 });
  await learn({ ttlSeconds: 1e15, command: "x" });
  const [capped, endless] = live.listGrants().map(({ expiresAt }) => expiresAt);
  assert.equal(capped, SAMPLE_NOW + 10_000);
  assert.doesNotThrow(() => new Date(endless ?? NaN).toISOString());
});

// K6: the caller, the end user, and whoever forwards.
Deno.test.each<FreezeSubject>([CALLER, USER, { kind: "caller", value: "control-plane" }])(
  "freeze() of %o stops its requests",
  async (subject) => {
    const { live, freeze } = await start();
    assert.equal(live.findFreeze(IDENTITY), undefined);
    assert.deepEqual(await freeze(subject), { newlyFrozen: true, grantsRevoked: 0, durable: true });
    assert.equal(live.findFreeze(IDENTITY)?.value, subject.value);
    assert.deepEqual(await freeze(subject), { newlyFrozen: false, grantsRevoked: 0, durable: true });
  },
);

Deno.test("freeze() takes exactly the active grants and waivers of its subject", async () => {
  const store = new FailingStore();
  const { live, clock, ids, create, learn, freeze } = await start(store);
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

Deno.test("freeze() is in force and in the store before it resolves, in this order: store, memory, checkpoint (K2)", async () => {
  const store = new FailingStore();
  const { live, freeze } = await start(store);
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

Deno.test("freeze() that the store can't keep freezes nobody and takes no grants", async () => {
  const store = new FailingStore();
  const { live, counts, ids, create, freeze } = await start(store);
  await create({ caller: "broker-1" });
  store.failing.add("putFreeze");
  await assert.rejects(() => freeze(CALLER), { code: "internal" });
  assert.deepEqual([live.findFreeze(IDENTITY), ids().length, counts.errors], [undefined, 1, 1]);
});

Deno.test("freeze() whose checkpoint fails is enforced, and says that it is not durable (K3)", async () => {
  const store = new FailingStore();
  const { live, counts, ids, create, freeze } = await start(store);
  await create({ caller: "broker-1" });
  store.failing.add("checkpoint");
  assert.deepEqual(await freeze(CALLER), { newlyFrozen: true, grantsRevoked: 1, durable: false });
  assert.deepEqual([live.findFreeze(IDENTITY)?.kind, ids(), counts.errors], ["caller", [], 1]);
});

Deno.test("unfreeze() lets requests pass again, also after a restart, and tells whether there was a freeze", async () => {
  const store = new FailingStore();
  const { live, freeze } = await start(store);
  await freeze(CALLER);
  const facts: boolean[] = [];
  const record = ({ wasFrozen }: { wasFrozen: boolean }) => Promise.resolve(void facts.push(wasFrozen));
  assert.equal(await live.unfreeze(CALLER, record), true);
  assert.equal(await live.unfreeze(CALLER, record), false);
  assert.deepEqual(facts, [true, false]);
  assert.equal(live.findFreeze(IDENTITY), undefined);
  assert.equal((await restart(store)).live.findFreeze(IDENTITY), undefined);
});

Deno.test("unfreeze() that the store can't keep leaves the subject frozen", async () => {
  const store = new FailingStore();
  const { live, freeze } = await start(store);
  await freeze(CALLER);
  store.failing.add("deleteFreeze");
  await assert.rejects(() => live.unfreeze(CALLER, recorded), { code: "internal" });
  assert.equal(live.findFreeze(IDENTITY)?.kind, "caller");
});

Deno.test("unfreeze() of a subject that is not frozen leaves its grants alone", async () => {
  const store = new FailingStore();
  const { live, ids, create } = await start(store);
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
  const store = new FailingStore();
  const { live, ids, learn, freeze } = await start(store);
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

Deno.test("a request that waits during a freeze is stopped when it asks again", async () => {
  const { live, freeze } = await start();
  const { promise: auditing, resolve } = Promise.withResolvers<void>();
  const request = (async () => {
    if (live.findFreeze(IDENTITY) !== undefined) return "refused at once";
    await auditing;
    return live.findFreeze(IDENTITY) === undefined ? "issued" : "withheld";
  })();
  await freeze(CALLER);
  resolve();
  assert.equal(await request, "withheld");
});

Deno.test("a view that was read stays as it was", async () => {
  const { live, create, freeze } = await start();
  await create({ caller: "broker-1" });
  const before = live.view;
  await freeze(CALLER);
  assert.deepEqual([before.grants.byId.size, before.freezes.caller.size], [1, 0]);
  assert.deepEqual([live.view.grants.byId.size, live.view.freezes.caller.size], [0, 1]);
});

Deno.test("purgeExpired() forgets what has expired, in memory and in the store", async () => {
  const store = new FailingStore();
  const { live, clock, counts, create } = await start(store);
  await create({ ttlSeconds: 1 });
  const { id } = await create({ ttlSeconds: 60 });
  await clock.advance(1_000);
  store.failing.add("purgeExpired");
  await live.purgeExpired();
  assert.deepEqual([...live.view.grants.byId.keys()], [id]);
  assert.deepEqual([counts.errors, (await store.loadGrants(0)).length], [1, 2]);
  store.failing.clear();
  await live.purgeExpired();
  assert.deepEqual((await store.loadGrants(0)).map((grant) => grant.id), [id], "asked again");
  await clock.advance(59_000);
  await live.purgeExpired();
  assert.deepEqual([live.view.grants.byId.size, await store.loadGrants(0)], [0, []]);
});

Deno.test("open() leaves out grants of the frozen, and those whose patterns can't be used", async () => {
  const store = new MemoryStore();
  await store.putFreeze({ ...freezeOf(CALLER), frozenAt: SAMPLE_NOW });
  await store.insertGrant(sampleGrant({ id: "frozen", caller: "broker-1" }));
  await store.insertGrant(sampleGrant({ id: "bad", allow: ["("] }));
  await store.insertGrant(sampleGrant({ id: "expired", expiresAt: SAMPLE_NOW }));
  await store.insertGrant(sampleGrant({ id: "good" }));
  const { live, ids, counts } = await start(store);
  assert.deepEqual([ids(), counts.warnings], [["good"], 1]);
  await live.unfreeze(CALLER, recorded);
  assert.deepEqual([ids(), (await restart(store)).ids()], [["good"], ["good"]]);
});

Deno.test("open() fails when a freeze can't be read", async () => {
  const store = new MemoryStore();
  store.loadFreezes = () => Promise.reject(new AppError("invalid_config", "Cannot use state_db"));
  await assert.rejects(start(store), { code: "invalid_config" });
});

Deno.test("survivesRestart is that of the store; close() waits for the changes under way", async () => {
  const store = new MemoryStore();
  const { live } = await start(store);
  assert.equal(live.survivesRestart, false);
  const created = live.createGrant(GRANT, recorded);
  await live.close();
  assert.equal((await created).kind, "created");
  await assert.rejects(store.loadGrants(0));
});
