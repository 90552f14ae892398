import assert from "node:assert/strict";
import { formatHosts, labelPolicy } from "./host.ts";

Deno.test.each<{ policy: Parameters<typeof labelPolicy>[0]; label: string }>([
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

Deno.test("formatHosts() says which hosts are sealed, and which share a principal", () => {
  const host = { addr: "10.0.0.1:22", user: "deploy", principal: "host:web" };
  const lines = formatHosts({
    web01: { ...host, sealed_exec: true },
    web02: host,
    web03: { ...host, principal: "host:web03", sealed_exec: true, envelope: "v1" },
  }, undefined);
  assert.deepEqual(lines.slice(-3), [
    "sealed, envelope v2: web01",
    "sealed, envelope v1: web03",
    '2 hosts share the principal "host:web" ("web01", "web02"): a certificate for one opens the others',
  ]);
});

Deno.test("formatHosts() says which login shells are in use, and for which nothing is proved", () => {
  const host = { addr: "10.0.0.1:22", user: "deploy" };
  const lines = formatHosts({
    web02: { ...host, login_shell: "/usr/bin/fish" },
    web01: { ...host, login_shell: "/bin/bash" },
    web03: { ...host, login_shell: "/bin/bash" },
    web04: host,
  }, undefined);
  assert.equal(lines.at(-2), "login shell /bin/bash of web01,web03: command rules are proved for it");
  assert.match(lines.at(-1) ?? "", /^login shell \/usr\/bin\/fish of web02: nothing is proved for fish/);
  assert.equal(lines.length, 7);
});
