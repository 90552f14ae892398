import assert from "node:assert/strict";
import { freezeRequest, revocationList, unfreezeRequest } from "./revocation.ts";
import { grantList, grantRequest, LONGEST_GRANT_TTL_SECONDS } from "./policy.ts";

Deno.test.each([
  { name: "a caller", body: { kind: "caller", value: "broker-1" } },
  { name: "an end user", body: { kind: "end_user", value: "alice@example.com" } },
  { name: "a session", body: { kind: "session_id", value: "s1" } },
  { name: "a serial", body: { kind: "serial", value: "18446744073709551615" } },
])("freezeRequest and unfreezeRequest accept $name", ({ body }) => {
  assert.deepEqual(freezeRequest.parse(body), { ...body, reason: "", allow_volatile: false });
  assert.deepEqual(unfreezeRequest.parse({ ...body, reason: "ignored" }), body);
});

Deno.test.each([
  { name: "an unknown kind", body: { kind: "host", value: "web01" } },
  { name: "a kind in capitals", body: { kind: "CALLER", value: "a" } },
  { name: "no kind", body: { value: "a" } },
  { name: "no value", body: { kind: "caller" } },
  { name: "an empty value", body: { kind: "caller", value: "" } },
  { name: "a value with a space", body: { kind: "caller", value: "a b" } },
  { name: "a value with a newline", body: { kind: "caller", value: "a\n" } },
  { name: "a value with a NUL", body: { kind: "caller", value: "a\0" } },
  { name: "a value with a C1 control", body: { kind: "caller", value: "a\u0085" } },
  { name: "a value with a line separator", body: { kind: "caller", value: "a\u2028" } },
  { name: "a serial as a number, which may not be exact", body: { kind: "serial", value: 12 } },
])("freezeRequest and unfreezeRequest reject $name", ({ body }) => {
  assert.equal(freezeRequest.safeParse(body).success, false);
  assert.equal(unfreezeRequest.safeParse(body).success, false);
});

Deno.test.each([
  { name: "a reason with a space", body: { reason: "incident 42" } },
  { name: "a reason with an escape sequence", body: { reason: "\x1b[2J" } },
  { name: "a volatile that is not a boolean", body: { allow_volatile: "yes" } },
])("freezeRequest rejects $name", ({ body }) => {
  assert.equal(freezeRequest.safeParse({ kind: "caller", value: "a", ...body }).success, false);
});

Deno.test("revocationList rejects the whole list if one kind is unknown", () => {
  const entry = { kind: "caller", value: "a", frozen_at: "2026-01-02T03:04:05Z" };
  assert.deepEqual(revocationList.parse([entry]), [entry]);
  assert.equal(revocationList.safeParse([entry, { ...entry, kind: "host" }]).success, false);
});

Deno.test.each([
  { name: "the least", body: { allow: ["^id$"], ttl_seconds: 1 } },
  { name: "a scope", body: { allow: ["^id$", "^w$"], ttl_seconds: 60, caller: "b c", end_user: "ä@x" } },
  { name: "unknown fields", body: { allow: ["^id$"], ttl_seconds: 60, waive_approval: ["."] } },
])("grantRequest accepts $name", ({ body }) => {
  const decoded = grantRequest.parse(body);
  assert.deepEqual(Object.keys(decoded), ["allow", "ttl_seconds", "caller", "end_user"]);
});

Deno.test.each([
  { name: "no allow", body: { ttl_seconds: 60 } },
  { name: "an empty allow", body: { allow: [], ttl_seconds: 60 } },
  { name: "an empty pattern, which allows everything", body: { allow: [""], ttl_seconds: 60 } },
  { name: "allow null", body: { allow: null, ttl_seconds: 60 } },
  { name: "no ttl", body: { allow: ["x"] } },
  { name: "a ttl of 0", body: { allow: ["x"], ttl_seconds: 0 } },
  { name: "a negative ttl", body: { allow: ["x"], ttl_seconds: -1 } },
  { name: "half a second", body: { allow: ["x"], ttl_seconds: 0.5 } },
  { name: "a ttl as text", body: { allow: ["x"], ttl_seconds: "60" } },
  { name: "a ttl later than any date", body: { allow: ["x"], ttl_seconds: LONGEST_GRANT_TTL_SECONDS + 1 } },
  { name: "a caller that a NUL would end", body: { allow: ["x"], ttl_seconds: 60, caller: "\0x" } },
  { name: "an end user with a newline", body: { allow: ["x"], ttl_seconds: 60, end_user: "a\n" } },
  { name: "a list of callers", body: { allow: ["x"], ttl_seconds: 60, caller: ["a"] } },
])("grantRequest rejects $name", ({ body }) => {
  assert.equal(grantRequest.safeParse(body).success, false);
});

Deno.test("the longest grant TTL ends on a date with a four-digit year", () => {
  const end = new Date(Date.UTC(2100, 0, 1) + LONGEST_GRANT_TTL_SECONDS * 1000);
  assert.match(end.toISOString(), /^\d{4}-/);
});

Deno.test("grantList accepts entries with and without optional fields", () => {
  const times = { granted_at: "2026-01-02T03:04:05Z", expires_at: "2026-01-02T03:05:05Z" };
  const list = [{ id: "a", host: "web01", allow: ["x"], ...times }, {
    id: "b",
    host: "c",
    sudo: true,
    ...times,
  }];
  assert.deepEqual(grantList.parse(list), list);
});
