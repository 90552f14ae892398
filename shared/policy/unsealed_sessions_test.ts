import assert from "node:assert/strict";
import { compileSample, decideSample, SAMPLE_RULES, sampleConfig } from "../testing/sample_policy.ts";
import { type HostPolicy, hostPolicy } from "./model.ts";
import { toHostInfo } from "./host_rules.ts";

const RULED = { command_policy: SAMPLE_RULES, unsealed_sessions: false } as const;
const SESSION = { purpose: "session", sessionMode: "exec", command: "" };
const NO_CERTIFICATE =
  /^host "web01" has unsealed_sessions=false: no certificate for a session; use one-shot/;

Deno.test.each<{ name: string; host: Partial<HostPolicy>; denied: boolean }>([
  { name: "false, with rules", host: RULED, denied: true },
  {
    name: "false, with rules in audit mode",
    host: { ...RULED, command_policy: { ...SAMPLE_RULES, enforcement: "audit" } },
    denied: true,
  },
  {
    name: "false, with approvals alone",
    host: { ...RULED, command_policy: { mode: "off", require_approval: ["^reboot"] } },
    denied: true,
  },
  { name: "false, without rules", host: { unsealed_sessions: false }, denied: false },
  { name: "false, with rules, sealed", host: { ...RULED, sealed_exec: true }, denied: false },
  { name: "true, with rules", host: { ...RULED, unsealed_sessions: true }, denied: false },
  { name: "absent, with rules", host: { command_policy: SAMPLE_RULES }, denied: false },
])("where unsealed_sessions is $name, a session is denied: $denied, and brokers know", ({ host, denied }) => {
  for (const command of ["", "uptime"]) {
    const decision = decideSample(host, { ...SESSION, command });
    assert.equal(decision.kind, denied ? "denied" : "allowed");
    if (decision.kind === "denied") assert.match(decision.reason, NO_CERTIFICATE);
  }
  assert.equal(decideSample(host, { command: "uptime" }).kind, "allowed", "a one-shot command runs");
  const compiled = compileSample(sampleConfig(host)).hosts.get("web01");
  assert(compiled !== undefined);
  assert.equal(toHostInfo(compiled).unsealed_sessions, denied ? false : undefined);
});

Deno.test.each([{ mode: "shell" }, { mode: "pty" }])(
  "where unsealed_sessions is false, a session of mode $mode is denied, and told what is possible",
  ({ mode }) => {
    const decision = decideSample({ ...RULED, allow_pty: true }, { ...SESSION, sessionMode: mode });
    assert(decision.kind === "denied");
    assert.equal(decision.reason, 'host "web01" has command_policy: sessions require mode="exec"');
  },
);

Deno.test("unsealed_sessions is a boolean", () => {
  assert.equal(
    hostPolicy.safeParse({ ...sampleConfig().hosts["web01"], unsealed_sessions: "no" }).success,
    false,
  );
});
