import assert from "node:assert/strict";
import { freezeRequest, revocationList, unfreezeRequest } from "./revocation.ts";

Deno.test.each([
  { name: "a caller", body: { kind: "caller", value: "broker-1" } },
  { name: "an end user", body: { kind: "end_user", value: "alice@example.com" } },
  { name: "a session", body: { kind: "session_id", value: "s1" } },
  { name: "a serial", body: { kind: "serial", value: "18446744073709551615" } },
])("freezeRequest and unfreezeRequest take $name", ({ body }) => {
  assert.deepEqual(freezeRequest.parse(body), { ...body, reason: "", allow_volatile: false });
  assert.deepEqual(unfreezeRequest.parse({ ...body, reason: "ignored" }), body);
});

Deno.test.each([
  { name: "an unknown kind", body: { kind: "host", value: "web01" } },
  { name: "a kind in capitals", body: { kind: "CALLER", value: "a" } },
  { name: "no kind", body: { value: "a" } },
  { name: "no value", body: { kind: "caller" } },
  { name: "an empty value", body: { kind: "caller", value: "" } },
  { name: "a value with a blank", body: { kind: "caller", value: "a b" } },
  { name: "a value with a newline", body: { kind: "caller", value: "a\n" } },
  { name: "a value with a NUL", body: { kind: "caller", value: "a\0" } },
  { name: "a value with a C1 control", body: { kind: "caller", value: "a\u0085" } },
  { name: "a value with a line separator", body: { kind: "caller", value: "a\u2028" } },
  { name: "a serial as a number, which may not be exact", body: { kind: "serial", value: 12 } },
])("freezeRequest and unfreezeRequest refuse $name", ({ body }) => {
  assert.equal(freezeRequest.safeParse(body).success, false);
  assert.equal(unfreezeRequest.safeParse(body).success, false);
});

Deno.test.each([
  { name: "a reason with a blank", body: { reason: "incident 42" } },
  { name: "a reason with an escape sequence", body: { reason: "\x1b[2J" } },
  { name: "a volatile that is not a boolean", body: { allow_volatile: "yes" } },
])("freezeRequest refuses $name", ({ body }) => {
  assert.equal(freezeRequest.safeParse({ kind: "caller", value: "a", ...body }).success, false);
});

Deno.test("revocationList fails as a whole on a kind that it does not know", () => {
  const entry = { kind: "caller", value: "a", frozen_at: "2026-01-02T03:04:05Z" };
  assert.deepEqual(revocationList.parse([entry]), [entry]);
  assert.equal(revocationList.safeParse([entry, { ...entry, kind: "host" }]).success, false);
});
