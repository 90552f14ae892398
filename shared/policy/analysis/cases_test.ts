import { FakeClock, SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import { compilePolicy } from "../mod.ts";
import { type PolicyCase, requirePolicyTests } from "./cases.ts";

const compiled = compilePolicy({
  hosts: { web01: { addr: "10.0.0.1:22", user: "a", host_key: SAMPLE_HOST_KEY, principal: "host:web01" } },
  callers: {},
  command_policies: { all: { mode: "allowlist", allow: ["^uptime$", "^id$"], require_approval: ["^id$"] } },
  group_command_policies: { _default: ["all"] },
  max_ttl_seconds: 0,
});

const UPTIME = { host: "web01", command: "uptime", expect: "allow" } as const;

Deno.test.each<{ name: string; cases: readonly PolicyCase[]; error: RegExp | undefined }>([
  { name: "accepts the expected decisions", cases: [UPTIME], error: undefined },
  {
    name: "rejects another decision",
    cases: [UPTIME, { ...UPTIME, command: "id" }],
    error: /1 of 2 cases of "t" fail\n {2}web01: id → allow: expected allow, but the decision is approval by/,
  },
  {
    name: "rejects another rule",
    cases: [{ ...UPTIME, rule: "allow:^up" }],
    error: /expected allow by allow:\^up/,
  },
  {
    name: "rejects an unknown host, also if the case expects a denial",
    cases: [{ ...UPTIME, host: "web1", expect: "deny" }],
    error: /web1: uptime → deny: unknown host "web1"/,
  },
  {
    name: "rejects an unknown cluster",
    cases: [{ cluster: "prod", command: "get pods a/b", expect: "deny" }],
    error: /unknown cluster "prod"/,
  },
  {
    name: "shows three failures in a bounded length",
    cases: Array(9).fill({ ...UPTIME, command: "x".repeat(5_000) }),
    error: /^.{0,80}9 of 9 cases.*(?:\n {2}web01: x.{200,330}){3}$/,
  },
])("requirePolicyTests() $name", async ({ cases, error }) => {
  assert.ok(compiled.kind === "ok");
  const load = () => Promise.resolve({ cases });
  const done = requirePolicyTests(compiled.policy, "t", { load, clock: new FakeClock() });
  if (error === undefined) return await done;
  await assert.rejects(done, { code: "invalid_config", message: error });
});
