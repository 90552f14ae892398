import assert from "node:assert/strict";
import { nearMiss } from "./problems.ts";

Deno.test.each([
  { name: "host", candidates: ["hosts", "callers"], expected: "hosts" },
  { name: "calers", candidates: ["hosts", "callers"], expected: "callers" },
  { name: "auditLog", candidates: ["audit_log", "audit_key"], expected: "audit_log" },
  { name: "audit-key", candidates: ["audit_log", "audit_key"], expected: "audit_key" },
  { name: "something", candidates: ["hosts", "callers"], expected: undefined },
  { name: "x", candidates: ["ca", "url"], expected: undefined },
  { name: "cs", candidates: ["url", "ca"], expected: "ca" },
  { name: "", candidates: ["hosts"], expected: undefined },
  { name: "h".repeat(100_000), candidates: ["hosts"], expected: undefined },
])("nearMiss() of $name is $expected", ({ name, candidates, expected }) => {
  assert.equal(nearMiss(name, candidates), expected);
});
