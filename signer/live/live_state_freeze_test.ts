import assert from "node:assert/strict";
import type { LiveState } from "./live_state.ts";
import { failingStore } from "../testing/failing_store.ts";
import {
  CALLER,
  GRANT,
  IDENTITY,
  openLiveState,
  recorded,
  restart,
  USER,
} from "../testing/live_state_scene.ts";
import { endOfTurn } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { sampleCluster } from "@gateway/shared/testing";
import { CONFIG, get, post, snapshotOf, startSigner } from "../testing/memory_signer.ts";
import type { Snapshot } from "../config/snapshot.ts";
import { snapshotWarnings } from "../config/warnings.ts";

Deno.test("freeze() revokes exactly the active grants and waivers of its subject (K4)", async () => {
  const store = failingStore();
  const { live, clock, ids, create, learn, freeze } = await openLiveState(store);
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

Deno.test("freeze() and unfreeze() match any spelling of a name, also after a restart; grants match exactly", async () => {
  const store = failingStore();
  const { live, ids, create, freeze } = await openLiveState(store);
  const [any, , bob] = [await create(), await create({ endUser: "Alice" }), await create({ endUser: "bob" })];
  const outcome = await freeze({ kind: "end_user", value: "ALICE." });
  assert.deepEqual(outcome, { newlyFrozen: true, grantsRevoked: 1, kept: "durable" });
  assert.equal((await freeze(USER)).newlyFrozen, false);
  assert.deepEqual(ids(), [any.id, bob.id]);
  const later = await restart(store);
  assert.equal(later.live.findFreeze(IDENTITY)?.value, "alice");
  assert.equal(await live.unfreeze({ kind: "end_user", value: "AlicE" }, recorded), true);
  const last = await restart(store);
  assert.equal(last.live.findFreeze(IDENTITY), undefined);
  assert.deepEqual(last.ids(), [any.id, bob.id]);
});

Deno.test("freeze() resolves after it is in memory, in the store and checkpointed, in this order (K2)", async () => {
  const store = failingStore();
  const { live, freeze } = await openLiveState(store);
  const { promise: slow, resolve } = Promise.withResolvers<void>();
  store.held.set("checkpoint", slow);
  let acknowledged = false;
  const freezing = freeze(CALLER).then(() => acknowledged = true);
  await endOfTurn();
  assert.deepEqual(store.calls, ["putFreeze", "checkpoint"]);
  assert.deepEqual([live.findFreeze(IDENTITY)?.kind, acknowledged], ["caller", false]);
  resolve();
  await freezing;
  assert.equal((await restart(store)).live.findFreeze(IDENTITY)?.kind, "caller");
});

Deno.test("freeze() does not wait for other freezes if the database hangs", async () => {
  const store = failingStore();
  const { live, freeze } = await openLiveState(store);
  const { promise: hung, resolve } = Promise.withResolvers<void>();
  store.held.set("putFreeze", hung);
  const freezing = Array.from({ length: 5 }, (_, n) => freeze({ kind: "caller", value: `broker-${n}` }));
  await endOfTurn();
  assert.equal(store.calls.length, 5, "all are asked at the same time");
  assert.equal(live.findFreeze(IDENTITY)?.value, "broker-1");
  const lifting = live.unfreeze({ kind: "caller", value: "broker-4" }, recorded);
  resolve();
  assert.ok((await Promise.all(freezing)).every(({ kept }) => kept === "durable"));
  await lifting;
  const later = await restart(store);
  assert.equal(later.live.findFreeze(IDENTITY)?.value, "broker-1");
  assert.equal(later.live.findFreeze({ ...IDENTITY, caller: "broker-4", peer: "broker-4" }), undefined);
});

Deno.test("freeze() whose store write fails is enforced, revokes grants and returns kept: memory", async () => {
  const store = failingStore();
  const { live, counts, ids, create, freeze } = await openLiveState(store);
  await create({ caller: "broker-1" });
  store.failing.add("putFreeze");
  assert.deepEqual(await freeze(CALLER), { newlyFrozen: true, grantsRevoked: 1, kept: "memory" });
  assert.deepEqual([live.findFreeze(IDENTITY)?.kind, ids(), counts.errors], ["caller", [], 1]);
  const later = await restart(store);
  const found = [later.live.findFreeze(IDENTITY), later.ids().length];
  assert.deepEqual(found, [undefined, 1], "a restart undoes it");
});

Deno.test.each<{ name: string; retry: (live: LiveState) => Promise<void> }>([
  { name: "at the next look", retry: (live) => live.storeFreezes() },
  { name: "at the end", retry: (live) => live.close() },
])("a freeze that could not be stored is stored later: $name", async ({ retry }) => {
  const store = failingStore();
  const { live, create, freeze } = await openLiveState(store);
  await create({ caller: "broker-1" });
  store.failing.add("putFreeze");
  await freeze(CALLER);
  await freeze(USER);
  await live.storeFreezes();
  store.failing.clear();
  await live.unfreeze(USER, recorded);
  store.calls.length = 0;
  await retry(live);
  assert.deepEqual(store.calls, ["putFreeze", "checkpoint"], "what was lifted meanwhile stays lifted");
  const later = await restart(store);
  assert.deepEqual([later.live.findFreeze(IDENTITY)?.kind, later.ids()], ["caller", []]);
  store.calls.length = 0;
  await live.storeFreezes();
  assert.deepEqual(store.calls, [], "once is enough");
});

Deno.test("freeze() whose checkpoint fails is enforced, returns kept: memory and is retried (K3)", async () => {
  const store = failingStore();
  const { live, counts, ids, create, freeze } = await openLiveState(store);
  await create({ caller: "broker-1" });
  store.failing.add("checkpoint");
  assert.deepEqual(await freeze(CALLER), { newlyFrozen: true, grantsRevoked: 1, kept: "memory" });
  assert.deepEqual([live.findFreeze(IDENTITY)?.kind, ids(), counts.errors], ["caller", [], 1]);
  await live.storeFreezes();
  store.failing.clear();
  store.calls.length = 0;
  await live.storeFreezes();
  await live.storeFreezes();
  assert.deepEqual(store.calls, ["putFreeze", "checkpoint"], "until it is durable, and once");
});

Deno.test("unfreeze() allows requests again, also after a restart, and reports whether a freeze existed", async () => {
  const store = failingStore();
  const { live, freeze } = await openLiveState(store);
  await freeze(CALLER);
  const facts: boolean[] = [];
  const made = ({ wasFrozen }: { wasFrozen: boolean }) => Promise.resolve(void facts.push(wasFrozen));
  assert.equal(await live.unfreeze(CALLER, { ...recorded, made }), true);
  assert.equal(await live.unfreeze(CALLER, { ...recorded, made }), false);
  assert.deepEqual(facts, [true, false]);
  assert.equal(live.findFreeze(IDENTITY), undefined);
  assert.equal((await restart(store)).live.findFreeze(IDENTITY), undefined);
});

Deno.test("unfreeze() of a subject that is not frozen keeps its grants", async () => {
  const store = failingStore();
  const { live, ids, create } = await openLiveState(store);
  const { id } = await create({ caller: "broker-1" });
  assert.equal(await live.unfreeze(CALLER, recorded), false);
  assert.deepEqual([ids(), (await restart(store)).ids()], [[id], [id]]);
});

// K5, A13: in either order, the subject is frozen afterwards and has no grant and no waiver.
Deno.test.each<{ name: string; first: "freeze" | "grant" | "waiver" }>([
  { name: "a freeze", first: "freeze" },
  { name: "a grant", first: "grant" },
  { name: "a waiver", first: "waiver" },
])("concurrent changes run one after another: $name first", async ({ first }) => {
  const store = failingStore();
  const { live, ids, learn, freeze } = await openLiveState(store);
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

Deno.test("later changes do not modify a view", async () => {
  const { live, create, freeze } = await openLiveState();
  await create({ caller: "broker-1" });
  const before = live.view;
  await freeze(CALLER);
  assert.deepEqual([before.grants.byId.size, before.freezes.caller.size], [1, 0]);
  assert.deepEqual([live.view.grants.byId.size, live.view.freezes.caller.size], [0, 1]);
});

const warningsOf = (changes: object, begin = "") =>
  snapshotWarnings(snapshotOf({ ...CONFIG, ...changes })).filter((text) => text.startsWith(begin));

Deno.test("POST /v1/reload replaces the policy and returns its number of hosts", async () => {
  const signer = await startSigner();
  const web01 = { ...CONFIG.hosts.db01, command_policy: { mode: "allowlist", allow: ["^uptime$", "^new$"] } };
  signer.setNext(() => Promise.resolve(snapshotOf({ ...CONFIG, hosts: { web01 } })));
  const { body } = await signer.send(post("/v1/reload", ""), "operator");
  assert.deepEqual(body, { status: "ok", hosts: 1, new_patterns: ["^new$"] });
  assert.equal((await signer.sign({})).status, 403);
  assert.deepEqual(signer.log.entries[0], {
    caller: "operator",
    command: "reload hosts=1",
    policy_version: undefined,
    outcome: "reloaded",
  });
});

Deno.test.each([
  { name: "of a forwarder that is trusted", only_via: ["other", "control-plane"], warns: false },
  { name: "without a trusted forwarder", only_via: ["other"], warns: true },
])("only_via $name causes a warning: $warns", ({ only_via, warns }) => {
  const warnings = warningsOf({ callers: { "broker-1": { only_via } } });
  assert.equal(warnings.some((text) => /broker-1\.only_via names no trusted forwarder/.test(text)), warns);
  assert.throws(() => snapshotOf({ ...CONFIG, callers: { "broker-1": { only_via: [] } } }), /only_via/);
});

Deno.test.each([
  ["no addr", { addr: undefined }, "no addr"],
  ["an empty host_key", { host_key: "" }, "no host_key"],
  ["neither", { addr: undefined, host_key: undefined }, "no addr and no host_key"],
])("a host with %s loads with one warning, is listed and gets certificates", async (_name, host, warning) => {
  const web02 = { ...CONFIG.hosts.web01, principal: "host:web02", ...host };
  const hosts = { ...CONFIG.hosts, web02 };
  assert.deepEqual(warningsOf({ hosts }, "hosts."), [
    `hosts.web02: ${warning}: brokers list the host but cannot connect`,
  ]);
  const signer = await startSigner({ hosts });
  const { body } = await signer.send(get("/v1/hosts"));
  assert.ok("web02" in body);
  assert.equal((await signer.sign({ host: "web02" })).status, 200);
});

Deno.test("a host identity that a broker accepts as an agent causes a warning", () => {
  const krl_callers = { "web01.krl": ["web01"], db01: ["web01"] };
  assert.deepEqual(warningsOf({ krl_callers, envelope_key: "seed" }, "krl_callers"), [
    'krl_callers: "db01" does not end with ".krl": a broker (serve-http) accepts its holder as an agent',
  ]);
});

Deno.test.each([
  { name: "a caller that is not listed", reload_callers: ["operator"] },
  { name: "everyone when the list is empty", reload_callers: [] },
])("POST /v1/reload rejects $name", async ({ reload_callers }) => {
  const signer = await startSigner({ reload_callers });
  const { status } = await signer.send(post("/v1/reload", ""));
  assert.deepEqual([status, signer.log.entries[0]?.outcome], [403, "reload-denied"]);
});

Deno.test("POST /v1/reload keeps the old state if the new config is invalid", async () => {
  const signer = await startSigner();
  signer.setNext(() => Promise.reject(new AppError("invalid_config", "Cannot load signer config: no")));
  const { status, body } = await signer.send(post("/v1/reload", ""), "operator");
  assert.deepEqual([status, body.code], [500, "invalid_config"]);
  assert.equal(signer.log.entries[0]?.outcome, "reload-failed");
  assert.equal((await signer.sign({})).status, 200);
});

Deno.test("POST /v1/reload changes nothing if the change cannot be recorded", async () => {
  const signer = await startSigner();
  signer.setNext(() => Promise.resolve(snapshotOf({ ...CONFIG, hosts: {} })));
  signer.log.failing = true;
  assert.equal((await signer.send(post("/v1/reload", ""), "operator")).body.detail, "audit unavailable");
  signer.log.failing = false;
  assert.equal((await signer.sign({})).status, 200);
});

Deno.test("SignerState.reload() serializes changes: a slow one cannot undo a later one (K23)", async () => {
  const signer = await startSigner();
  const { promise: slow, resolve } = Promise.withResolvers<Snapshot>();
  signer.setNext(() => slow);
  const first = signer.state.reload("first");
  const second = signer.state.reload("second");
  await endOfTurn();
  signer.setNext(() => Promise.resolve(snapshotOf({ ...CONFIG, hosts: {} })));
  resolve(snapshotOf(CONFIG));
  assert.deepEqual((await Promise.all([first, second])).map(({ hosts }) => hosts), [3, 0]);
  assert.equal(signer.state.current.policy.hosts.size, 0);
});

Deno.test("a reload that was loaded before a pattern was removed does not restore it (K23)", async () => {
  const signer = await startSigner();
  const { promise: slow, resolve } = Promise.withResolvers<Snapshot>();
  const loads = [slow, Promise.resolve(snapshotOf({ ...CONFIG, hosts: {} }))];
  signer.setNext(() => loads.shift() ?? Promise.reject(new Error("loaded too often")));
  const reload = signer.state.reload("operator");
  await endOfTurn();
  const removal = new Request("https://signer/v1/policy/hosts/web01/allow", {
    method: "DELETE",
    body: JSON.stringify({ pattern: "^uptime$" }),
    headers: { "content-type": "application/json" },
  });
  assert.equal((await signer.send(removal, "operator")).status, 200);
  resolve(snapshotOf(CONFIG));
  assert.equal((await reload).hosts, 0, "it loads again");
  assert.equal((await signer.sign({})).status, 403);
});

Deno.test.each(
  [
    { login_shell: "/usr/bin/fish", mode: "allowlist", warns: true },
    { login_shell: "/usr/bin/fish", mode: "off", warns: false },
    { login_shell: "/bin/bash", mode: "allowlist", warns: false },
  ] as const,
)("login_shell $login_shell with mode $mode causes a warning: $warns", ({ login_shell, mode, warns }) => {
  const hosts = { web01: { ...CONFIG.hosts.web01, login_shell, command_policy: { mode, allow: [] } } };
  const warnings = warningsOf({ hosts }, "hosts.web01.login_shell: command rules are not proved");
  assert.equal(warnings.length, warns ? 1 : 0);
});

Deno.test("login_shell must be an absolute path without spaces", () => {
  for (const login_shell of ["", "bash", "/bin/ba sh", "/bin/ba\nsh"]) {
    const hosts = { web01: { ...CONFIG.hosts.web01, login_shell } };
    assert.throws(() => snapshotOf({ ...CONFIG, hosts }), /login_shell/);
  }
});

Deno.test("krl_callers that name an unknown host cause a warning", () => {
  const found = warningsOf(
    { envelope_key: "seed", krl_callers: { "a.krl": ["web01", "gone"] } },
    "krl_callers",
  );
  assert.deepEqual(found, ["krl_callers.a.krl names gone, which is not in hosts"]);
});

Deno.test.each<[name: string, changes: object, problem: RegExp]>([
  ["no envelope_key", { envelope_key: "" }, /needs envelope_key/],
  ["a broker", { callers: { "a.krl": {} } }, /not allowed for a host's identity/],
  ["an admin", { reload_callers: ["a.krl"] }, /not allowed for a host's identity/],
  ["a forwarder", { trusted_forwarders: ["a.krl"] }, /not allowed for a host's identity/],
])("krl_callers with %s is rejected", (_name, changes, problem) => {
  const config = { ...CONFIG, envelope_key: "seed", krl_callers: { "a.krl": [] }, ...changes };
  assert.throws(() => snapshotOf(config), problem);
});

Deno.test("a deny rule that a list bypasses causes a warning", () => {
  const gapsOf = (namespaces: readonly string[]) => {
    const rules = [
      { verbs: ["list"], effect: "allow" },
      { verbs: ["get", "list"], namespaces, effect: "deny" },
    ] as const;
    const clusters = { prod: sampleCluster({ rules }) };
    return warningsOf({ kubernetes: { clusters } }).filter((text) => text.includes("rules["));
  };
  const [found, ...more] = gapsOf(["vault"]);
  assert.match(
    found ?? "",
    /^kubernetes\.clusters\.prod\.rules\[1\] denies objects that "list pods -\/-" shows/,
  );
  assert.deepEqual([more, gapsOf(["vault", "-"])], [[], []]);
});
