import assert from "node:assert/strict";
import { AppError, errorText } from "@gateway/shared/errors";
import { SAMPLE_NOW, sampleGrant } from "@gateway/shared/testing";
import type { WaiverDraft } from "./live_state.ts";
import { failingStore, memoryStore } from "../testing/failing_store.ts";
import {
  CALLER,
  freezeOf,
  GRANT,
  IDENTITY,
  openLiveState,
  recorded,
  restart,
  USER,
  WAIVER,
} from "../testing/live_state_scene.ts";
import type { FreezeSubject } from "@gateway/shared/wire";
import {
  findFreeze,
  findScopeFreeze,
  formatSubject,
  type Freeze,
  isFrozen,
  KnownSubjects,
  listRevocations,
  NO_FREEZES,
  withFreeze,
  withoutFreeze,
} from "./freezes.ts";

const unrecorded = {
  made: () => Promise.reject(new AppError("audit_unavailable", "audit unavailable")),
  notStored: () => assert.fail("nothing was recorded"),
};

Deno.test("createGrant() returns a grant with an ID of 24 hex digits that ends after its TTL", async () => {
  const { live, clock, ids, create } = await openLiveState();
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
  ["for a frozen caller", { caller: "broker-1" }, "frozen"],
  ["for a frozen end user", { endUser: "alice" }, "frozen"],
  ["for a frozen scope, before its patterns are looked at", { caller: "broker-1", allow: ["("] }, "frozen"],
  ["with an invalid pattern", { allow: ["^id$", "("] }, "invalid_pattern"],
])("createGrant() rejects one %s without a record or a store write (K5)", async (_name, draft, kind) => {
  const store = failingStore();
  const { live, ids, freeze } = await openLiveState(store);
  await freeze(CALLER);
  await freeze(USER);
  const outcome = await live.createGrant({ ...GRANT, ...draft }, unrecorded);
  assert.equal(outcome.kind, kind);
  assert.deepEqual([ids(), store.calls.includes("insertGrant")], [[], false]);
});

Deno.test("a grant for everyone can be created while a caller is frozen", async () => {
  const { create, freeze, ids } = await openLiveState();
  await freeze(CALLER);
  await create();
  assert.equal(ids().length, 1);
});

// The record is written first. A change that cannot be recorded must not take effect.
Deno.test("a change that could not be recorded has no effect", async () => {
  const store = failingStore();
  const { live, ids, create, freeze } = await openLiveState(store);
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

// The record is written before the change. Another record corrects it if the change fails.
Deno.test("a change whose store write fails is corrected in the records before the next change", async () => {
  const store = failingStore();
  const { live, create, freeze } = await openLiveState(store);
  const { id } = await create();
  await freeze(USER);
  const methods = ["insertGrant", "deleteGrant", "putFreeze", "deleteFreeze"] as const;
  for (const method of methods) store.failing.add(method);
  const records: string[] = [];
  const say = (what: string) => ({
    made: () => Promise.resolve(void records.push(what)),
    async notStored(_: unknown, error: unknown) {
      await Promise.resolve();
      records.push(`not ${what}: ${errorText(error)}`);
    },
  });
  const changes = {
    granted: live.createGrant(GRANT, say("granted")),
    revoked: live.revokeGrant(id, say("revoked")),
    learned: live.learnWaiver({ ...WAIVER, endUser: "" }, say("learned")),
    frozen: live.freeze(freezeOf(CALLER), say("frozen")),
    unfrozen: live.unfreeze(USER, say("unfrozen")),
  };
  await Promise.allSettled(Object.values(changes));
  const why = "The state database could not be used";
  assert.deepEqual(records, Object.keys(changes).flatMap((what) => [what, `not ${what}: ${why}`]));
});

Deno.test("revokeGrant() ends a grant immediately, also after a restart", async () => {
  const store = memoryStore();
  const { live, ids, create } = await openLiveState(store);
  const { id } = await create();
  assert.equal(await live.revokeGrant(id, recorded), true);
  assert.deepEqual([ids(), await store.loadGrants(0)], [[], []]);
  assert.equal(await live.revokeGrant(id, recorded), false);
});

Deno.test("revokeGrant() returns false for an expired grant", async () => {
  const { live, clock, create } = await openLiveState();
  const { id } = await create();
  await clock.advance(60_000);
  assert.equal(await live.revokeGrant(id, recorded), false);
});

Deno.test("learnWaiver() binds the waiver to command, elevation, caller and end user (A4, I25)", async () => {
  const outcome = await (await openLiveState()).learn();
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

Deno.test("learnWaiver() refreshes the existing waiver of the same scope", async () => {
  const store = failingStore();
  const { live, clock, learn } = await openLiveState(store);
  await learn();
  await learn({ endUser: "" });
  await clock.advance(30_000);
  await learn({ sudoUser: "root" });
  const waivers = live.listGrants();
  assert.deepEqual(waivers.map(({ endUser }) => endUser), ["", "alice"]);
  assert.equal(waivers[1]?.expiresAt, SAMPLE_NOW + 90_000);
  assert.deepEqual((await restart(store)).ids(), waivers.map(({ id }) => id));
});

Deno.test("learnWaiver() refreshes the waiver that removed the approval", async () => {
  const { live, clock, learn } = await openLiveState();
  await learn();
  await clock.advance(30_000);
  assert.equal((await learn({ gate: "waived" })).kind, "created");
  assert.deepEqual(live.listGrants().map(({ expiresAt }) => expiresAt), [SAMPLE_NOW + 90_000]);
});

const NO_DIGEST = "a file transfer or an apply without the digest of its content";

Deno.test.each<{ name: string; draft: Partial<WaiverDraft>; reason: string }>([
  { name: "that needed no approval", draft: { gate: "none" }, reason: "not require_approval" },
  { name: "that another waiver had spared it", draft: { gate: "waived" }, reason: "not require_approval" },
  {
    name: "that writes a file without a digest of its content",
    draft: { fileTransfer: true },
    reason: NO_DIGEST,
  },
  { name: "of a frozen caller (A13)", draft: { caller: "frozen" }, reason: "subject is frozen" },
  { name: "of a frozen end user (A13)", draft: { endUser: "frozen" }, reason: "subject is frozen" },
  { name: "through a frozen forwarder (K6)", draft: { peer: "frozen" }, reason: "subject is frozen" },
])("learnWaiver() creates no waiver for a command $name", async ({ draft, reason }) => {
  const store = failingStore();
  const { ids, learn, freeze } = await openLiveState(store);
  await freeze({ kind: "caller", value: "frozen" });
  await freeze({ kind: "end_user", value: "frozen" });
  assert.deepEqual(await learn(draft), { kind: "skipped", reason });
  assert.deepEqual([ids(), store.calls.includes("insertGrant")], [[], false]);
});

Deno.test("learnWaiver() limits the TTL to the maximum", async () => {
  const { live, learn } = await openLiveState();
  await learn({ ttlSeconds: 100, maxTtlSeconds: 10 });
  await learn({ ttlSeconds: 1e15, command: "x" });
  const [capped, endless] = live.listGrants().map(({ expiresAt }) => expiresAt);
  assert.equal(capped, SAMPLE_NOW + 10_000);
  assert.doesNotThrow(() => new Date(endless ?? NaN).toISOString());
});

Deno.test("purgeExpired() removes expired grants from memory and store", async () => {
  const store = failingStore();
  const { live, clock, counts, create } = await openLiveState(store);
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

Deno.test("open() omits grants of frozen subjects and grants with invalid patterns", async () => {
  const store = memoryStore();
  await store.putFreeze({ ...freezeOf(CALLER), frozenAt: SAMPLE_NOW });
  await store.insertGrant(sampleGrant({ id: "frozen", caller: "broker-1" }));
  await store.insertGrant(sampleGrant({ id: "bad", allow: ["("] }));
  await store.insertGrant(sampleGrant({ id: "expired", expiresAt: SAMPLE_NOW }));
  await store.insertGrant(sampleGrant({ id: "good" }));
  const { live, ids, counts } = await openLiveState(store);
  assert.deepEqual([ids(), counts.warnings], [["good"], 1]);
  await live.unfreeze(CALLER, recorded);
  assert.deepEqual([ids(), (await restart(store)).ids()], [["good"], ["good"]]);
});

Deno.test("open() fails if a freeze cannot be read", async () => {
  const store = memoryStore();
  store.loadFreezes = () => Promise.reject(new AppError("invalid_config", "Cannot use state_db"));
  await assert.rejects(openLiveState(store), { code: "invalid_config" });
});

Deno.test("survivesRestart is the store's value, and close() waits for pending changes", async () => {
  const store = memoryStore();
  const { live } = await openLiveState(store);
  assert.equal(live.survivesRestart, false);
  const created = live.createGrant(GRANT, recorded);
  await live.close();
  assert.equal((await created).kind, "created");
  await assert.rejects(store.loadGrants(0));
});

function known() {
  const subjects = new KnownSubjects();
  for (const name of ["broker-1", "broker-22", "far-away"]) subjects.add("caller", name);
  for (const name of ["agent", "Alice"]) subjects.add("end_user", name);
  return subjects;
}

Deno.test.each<{ name: string; subject: FreezeSubject; warning: RegExp | undefined }>([
  { name: "a known caller", subject: { kind: "caller", value: "broker-1" }, warning: undefined },
  { name: "one in capitals", subject: { kind: "end_user", value: "ALICE." }, warning: undefined },
  {
    name: "a caller that is known as an end user",
    subject: { kind: "caller", value: "agent" },
    warning: /^no request since the signer's start named caller=agent; requests named end_user=agent$/,
  },
  {
    name: "a misspelled caller",
    subject: { kind: "caller", value: "brokr-1" },
    warning: /named caller=brokr-1; requests named caller=broker-1$/,
  },
  { name: "another user", subject: { kind: "end_user", value: "zed-9" }, warning: /named end_user=zed-9$/ },
  { name: "a session", subject: { kind: "session_id", value: "x" }, warning: undefined },
])("warningFor() $name", ({ subject, warning }) => {
  const text = known().warningFor(subject);
  if (warning === undefined) assert.equal(text, undefined);
  else assert.match(text ?? "", warning);
});

Deno.test("add() keeps the latest names in bounded memory", () => {
  const subjects = known();
  for (let index = 0; index < 4096; index++) subjects.add("caller", `made-up-${index}`);
  assert.match(subjects.warningFor({ kind: "caller", value: "broker-1" }) ?? "", /no request/);
  assert.equal(subjects.warningFor({ kind: "caller", value: "made-up-0" }), undefined);
  assert.equal(subjects.warningFor({ kind: "end_user", value: "agent" }), undefined, "the kinds are apart");
});

const freezeWith = (fields: Partial<Freeze> = {}): Freeze => ({
  ...{ kind: "caller", value: "broker-1", reason: "", frozenBy: "op", frozenAt: 1_999 },
  ...fields,
});
const freezesOf = (...all: readonly Partial<Freeze>[]) => all.map(freezeWith).reduce(withFreeze, NO_FREEZES);

// K6: every identity of a request counts.
Deno.test.each<[name: string, freeze: Partial<Freeze>, stops: boolean]>([
  ["the effective caller", { value: "broker-1" }, true],
  ["the end user", { kind: "end_user", value: "Alice" }, true],
  ["the forwarder", { value: "control-plane" }, true],
  ["the effective caller in capitals", { value: "BROKER-1" }, true],
  ["the end user with a dot", { kind: "end_user", value: "alice." }, true],
  ["the forwarder in full-width letters", { value: "\uff43ontrol-plane" }, true],
  ["another caller", { value: "broker-2" }, false],
  ["another end user", { kind: "end_user", value: "bob" }, false],
  ["a caller called like the end user", { value: "Alice" }, false],
  ["an end user called like the caller", { kind: "end_user", value: "broker-1" }, false],
  ["an end user called like the forwarder", { kind: "end_user", value: "control-plane" }, false],
  ["a session", { kind: "session_id", value: "broker-1" }, false],
  ["a serial", { kind: "serial", value: "Alice" }, false],
])("findFreeze() of %s", (_name, freeze, stops) => {
  const kept = freezeWith(freeze);
  assert.equal(findFreeze(withFreeze(NO_FREEZES, kept), IDENTITY), stops ? kept : undefined);
});

Deno.test("findFreeze() returns the caller's freeze before the end user's and the forwarder's", () => {
  const user: Partial<Freeze> = { kind: "end_user", value: "Alice" };
  const all = [{ value: "control-plane" }, user, { value: "broker-1" }].map(freezeWith);
  let set = all.reduce(withFreeze, NO_FREEZES);
  for (const freeze of all.toReversed()) {
    assert.equal(findFreeze(set, IDENTITY), freeze);
    set = withoutFreeze(set, freeze);
  }
  assert.equal(findFreeze(set, IDENTITY), undefined);
});

Deno.test("findScopeFreeze() checks caller and end user; an empty scope is never frozen", () => {
  const set = freezesOf({}, { kind: "end_user", value: "alice" });
  const scopes = [["broker-1", ""], ["", "alice"], ["b", "alice"], ["", ""], ["b", "c"]] as const;
  const kinds = scopes.map(([caller, endUser]) => findScopeFreeze(set, { caller, endUser })?.kind);
  assert.deepEqual(kinds, ["caller", "end_user", "end_user", undefined, undefined]);
});

Deno.test("a second freeze of a subject replaces reason, admin and time", () => {
  const set = freezesOf({ reason: "INC-1" }, { frozenBy: "second", frozenAt: 5_000 });
  assert.deepEqual(listRevocations(set, "admin"), [
    { kind: "caller", value: "broker-1", frozen_by: "second", frozen_at: "1970-01-01T00:00:05Z" },
  ]);
});

Deno.test("a subject matches any spelling of its name; IDs and serials match exactly", () => {
  const set = freezesOf({ kind: "end_user", value: "Alice" });
  assert.ok(isFrozen(set, { kind: "end_user", value: "alice." }));
  const again = freezeWith({ kind: "end_user", value: "ALICE" });
  assert.deepEqual(listRevocations(withFreeze(set, again), "caller").map(({ value }) => value), ["ALICE"]);
  assert.deepEqual(withoutFreeze(set, again), NO_FREEZES);
  for (const kind of ["session_id", "serial"] as const) {
    assert.ok(!isFrozen(freezesOf({ kind, value: "Ab" }), { kind, value: "ab" }));
  }
});

Deno.test("findScopeFreeze() matches any spelling of a name; an empty name matches nothing", () => {
  const set = freezesOf({ kind: "end_user", value: "alice" }, { kind: "end_user", value: "..." });
  assert.equal(findScopeFreeze(set, { caller: "", endUser: "ALICE" })?.value, "alice");
  assert.equal(findScopeFreeze(set, { caller: "", endUser: "" }), undefined);
});

Deno.test("listRevocations() sorts by kind and name and keeps serials exact", () => {
  const serial = "18446744073709551615";
  const set = freezesOf({ kind: "serial", value: serial }, { value: "b" }, { value: "a" });
  assert.deepEqual(listRevocations(set, "caller").map(({ value }) => value), ["a", "b", serial]);
});

Deno.test("formatSubject() returns the subject as shown in messages and records", () => {
  assert.equal(formatSubject(freezeWith({})), "caller=broker-1");
});
