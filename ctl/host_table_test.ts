import assert from "node:assert/strict";
import { labelPolicy, type PolicySummary } from "./host_table.ts";

Deno.test.each<{ policy: PolicySummary | undefined; label: string }>([
  { policy: undefined, label: "—" },
  { policy: {}, label: "—" },
  { policy: { mode: "", allow: ["a"] }, label: "—" },
  { policy: { mode: "off" }, label: "off" },
  { policy: { mode: "off", require_approval: ["a", "b"] }, label: "off+approval(2)" },
  { policy: { require_approval: ["a"], enforcement: "audit" }, label: "approval(1) audit" },
  { policy: { mode: "allowlist" }, label: "allowlist(0 allow)" },
  { policy: { mode: "allowlist", allow: ["a"], deny: ["b"] }, label: "allowlist(1 allow)" },
  { policy: { mode: "denylist", deny: ["a"], enforcement: "audit" }, label: "denylist(1 deny) audit" },
  { policy: { mode: "denylist", deny: null, enforcement: "enforce" }, label: "denylist(0 deny)" },
  { policy: { mode: "quarantine" }, label: "?" },
])("labelPolicy() gives $label", ({ policy, label }) => {
  assert.equal(labelPolicy(policy), label);
});
