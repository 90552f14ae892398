import assert from "node:assert/strict";
import {
  findFreeze,
  findScopeFreeze,
  formatSubject,
  type Freeze,
  isFrozen,
  listRevocations,
  NO_FREEZES,
  withFreeze,
  withoutFreeze,
} from "./freezes.ts";

function freezeOf(fields: Partial<Freeze>): Freeze {
  return { kind: "caller", value: "broker-1", reason: "", frozenBy: "op", frozenAt: 1_999, ...fields };
}

const IDENTITY = { caller: "broker-1", endUser: "Alice", peer: "control-plane" };

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
  const kept = freezeOf(freeze);
  assert.equal(findFreeze(withFreeze(NO_FREEZES, kept), IDENTITY), stops ? kept : undefined);
});

Deno.test("findFreeze() names caller before end user before forwarder", () => {
  const all = [
    freezeOf({ value: "control-plane" }),
    freezeOf({ kind: "end_user", value: "Alice" }),
    freezeOf({ value: "broker-1" }),
  ];
  let set = all.reduce(withFreeze, NO_FREEZES);
  for (const freeze of all.toReversed()) {
    assert.equal(findFreeze(set, IDENTITY), freeze);
    set = withoutFreeze(set, freeze);
  }
  assert.equal(findFreeze(set, IDENTITY), undefined);
});

Deno.test("findScopeFreeze() knows caller and end user; an empty scope is nobody", () => {
  const set = [freezeOf({}), freezeOf({ kind: "end_user", value: "alice" })].reduce(withFreeze, NO_FREEZES);
  const kindFor = (caller: string, endUser: string) => findScopeFreeze(set, { caller, endUser })?.kind;
  assert.deepEqual(
    [
      kindFor("broker-1", ""),
      kindFor("", "alice"),
      kindFor("b", "alice"),
      kindFor("", ""),
      kindFor("b", "c"),
    ],
    ["caller", "end_user", "end_user", undefined, undefined],
  );
});

Deno.test("a second freeze of a subject replaces reason, admin and time", () => {
  const again = freezeOf({ frozenBy: "second", frozenAt: 5_000 });
  const set = [freezeOf({ reason: "INC-1" }), again].reduce(withFreeze, NO_FREEZES);
  assert.deepEqual(listRevocations(set, "admin"), [
    { kind: "caller", value: "broker-1", frozen_by: "second", frozen_at: "1970-01-01T00:00:05Z" },
  ]);
});

Deno.test("a subject is the same however its name is written; ids and serials are exact", () => {
  const set = withFreeze(NO_FREEZES, freezeOf({ kind: "end_user", value: "Alice" }));
  assert.ok(isFrozen(set, { kind: "end_user", value: "alice." }));
  const again = freezeOf({ kind: "end_user", value: "ALICE" });
  assert.deepEqual(listRevocations(withFreeze(set, again), "caller").map(({ value }) => value), ["ALICE"]);
  assert.deepEqual(withoutFreeze(set, again), NO_FREEZES);
  for (const kind of ["session_id", "serial"] as const) {
    assert.ok(!isFrozen(withFreeze(NO_FREEZES, freezeOf({ kind, value: "Ab" })), { kind, value: "ab" }));
  }
});

Deno.test("findScopeFreeze() finds a scope however its name is written; nobody is still nobody", () => {
  const set = ["alice", "..."].map((value) => freezeOf({ kind: "end_user", value }))
    .reduce(withFreeze, NO_FREEZES);
  assert.equal(findScopeFreeze(set, { caller: "", endUser: "ALICE" })?.value, "alice");
  assert.equal(findScopeFreeze(set, { caller: "", endUser: "" }), undefined);
});

Deno.test("listRevocations() tells reason and admin to admins only (K8)", () => {
  const set = [
    freezeOf({ kind: "serial", value: "18446744073709551615", reason: "INC-1" }),
    freezeOf({ value: "b" }),
    freezeOf({ value: "a" }),
  ].reduce(withFreeze, NO_FREEZES);
  const frozen_at = "1970-01-01T00:00:01Z";
  assert.deepEqual(listRevocations(set, "caller"), [
    { kind: "caller", value: "a", frozen_at },
    { kind: "caller", value: "b", frozen_at },
    { kind: "serial", value: "18446744073709551615", frozen_at },
  ]);
  assert.deepEqual(listRevocations(set, "admin").at(-1), {
    kind: "serial",
    value: "18446744073709551615",
    reason: "INC-1",
    frozen_by: "op",
    frozen_at,
  });
});

Deno.test("formatSubject() is what messages and records say", () => {
  assert.equal(formatSubject(freezeOf({})), "caller=broker-1");
});
