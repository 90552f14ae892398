import assert from "node:assert/strict";
import fc from "fast-check";
import { brokerOf, subjectOf } from "./tracker.ts";

Deno.test.each([
  { name: "the broker", caller: "broker-1", endUser: "", trusted: false, subject: '["broker-1"]' },
  {
    name: "the broker, when it is not trusted to name its end users (I12)",
    caller: "broker-1",
    endUser: "alice",
    trusted: false,
    subject: '["broker-1"]',
  },
  {
    name: "the end user of a trusted broker",
    caller: "broker-1",
    endUser: "alice",
    trusted: true,
    subject: '["broker-1","alice"]',
  },
  {
    name: "a trusted broker that names nobody",
    caller: "broker-1",
    endUser: "",
    trusted: true,
    subject: '["broker-1"]',
  },
  {
    name: "no end user, for a broker that is called like one",
    caller: "broker-1:alice",
    endUser: "",
    trusted: true,
    subject: '["broker-1:alice"]',
  },
])("subjectOf() is $name", ({ caller, endUser, trusted, subject }) => {
  assert.equal(subjectOf({ caller, endUser, trusted }), subject);
});

Deno.test("subjectOf() gives different identities different keys, whatever is in them", () => {
  // Few characters, so that pieces of one identity turn up in another; quotes, brackets, halves of a pair.
  const part = fc.oneof(
    fc.string({
      unit: fc.constantFrom("a", ":", '"', ",", "[", "]", "\\", "\0", "\ud800", "\udc00"),
      maxLength: 6,
    }),
    fc.constantFrom("{}", '{"sha256":""}', "x".repeat(256), "x".repeat(257), "x".repeat(258)),
    fc.constantFrom(`${"x".repeat(300)}\ud800`, `${"x".repeat(300)}\ud801`, `${"x".repeat(300)}\ufffd`),
  );
  const identity = fc.record({ caller: part, endUser: part });
  fc.assert(
    fc.property(identity, identity, (a, b) => {
      const isSame = a.caller === b.caller && a.endUser === b.endUser;
      const keys = [a, b].map((each) => subjectOf({ ...each, trusted: true }));
      assert.equal(keys[0] === keys[1], isSame);
    }),
    { numRuns: 2000 },
  );
});

Deno.test("subjectOf() stays small for an end user of any length, and keeps such end users apart", () => {
  const keys = ["a", "b"].map((end) =>
    subjectOf({ caller: "broker-1", endUser: `${"x".repeat(60_000)}${end}`, trusted: true })
  );
  assert.notEqual(keys[0], keys[1]);
  for (const key of keys) assert.ok(key.length < 100);
});

Deno.test("subjectOf() keeps a long end user apart from one that is called like its digest", () => {
  const endUser = "x".repeat(300);
  const { sha256 } = JSON.parse(subjectOf({ caller: "broker-1", endUser, trusted: true }))[1];
  assert.equal(sha256.length, 43);
  for (const other of [sha256, JSON.stringify({ sha256 })]) {
    assert.notEqual(
      subjectOf({ caller: "broker-1", endUser: other, trusted: true }),
      subjectOf({ caller: "broker-1", endUser, trusted: true }),
    );
  }
});

Deno.test("brokerOf() gives the broker of every subject", () => {
  const text = fc.string({ unit: fc.constantFrom("a", '"', "]", "\\", "\0", "\ud800", "é") });
  fc.assert(fc.property(text, text, fc.boolean(), (caller, endUser, trusted) => {
    assert.equal(brokerOf(subjectOf({ caller, endUser, trusted })), caller);
  }));
});

Deno.test.each([{ key: "" }, { key: "broker-1" }, { key: "[]" }, { key: "[1]" }, { key: '{"0":"a"}' }])(
  "brokerOf() takes $key, which is not a subject's key, for a broker of its own",
  ({ key }) => assert.equal(brokerOf(key), key),
);
