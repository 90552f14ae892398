import assert from "node:assert/strict";
import { compileSample, SAMPLE_HOST_KEY, sampleConfig, sampleHost } from "../testing/sample_policy.ts";
import type { CallerPolicy } from "./model.ts";
import { visibleHosts } from "./host_rules.ts";
import { mayComeFrom, mayUseHost } from "./ssh.ts";

function policyWith(callers: Readonly<Record<string, CallerPolicy>>) {
  return compileSample(sampleConfig({}, {
    callers,
    hosts: {
      web01: sampleHost({ groups: ["web", "prod"] }),
      db01: sampleHost({ groups: ["db"], allowed_callers: ["broker-2"] }),
      lone: sampleHost(),
    },
  }));
}

Deno.test.each<[name: string, callers: Record<string, CallerPolicy>, caller: string, seen: string[]]>([
  ["everything without a table", {}, "anyone", ["lone", "web01"]],
  ["what allowed_callers lets a caller see", {}, "broker-2", ["db01", "lone", "web01"]],
  ["the hosts of its groups", { a: { allowed_groups: ["prod"] } }, "a", ["web01"]],
  ["nothing when unlisted", { a: { allowed_groups: ["prod"] } }, "b", []],
  ["what _default sees when unlisted", { _default: { allowed_groups: ["web"] } }, "b", ["web01"]],
  [
    "its own row, not _default's",
    { a: { allowed_groups: [] }, _default: { allowed_groups: ["web"] } },
    "a",
    [],
  ],
  ["nothing without allowed_groups", { a: {} }, "a", []],
  ["_default's row for a CN of that name", { _default: { allowed_groups: ["web"] } }, "_default", ["web01"]],
  ["a group's host that does not list the caller: not", { a: { allowed_groups: ["db"] } }, "a", []],
  ["a group's host that lists the caller", { "broker-2": { allowed_groups: ["db"] } }, "broker-2", ["db01"]],
  ["nothing for a CN named like a member of Object", { a: {} }, "constructor", []],
])("visibleHosts() shows %s", (_name, callers, caller, seen) => {
  const policy = policyWith(callers);
  assert.deepEqual(Object.keys(visibleHosts(policy, caller)), seen);
});

Deno.test.each<[name: string, callers: Record<string, CallerPolicy>, host: string, outcome: string]>([
  ["a host of the caller's group", { a: { allowed_groups: ["web"] } }, "web01", "ok"],
  ["a host of another group", { a: { allowed_groups: ["web"] } }, "db01", "group"],
  ["a host of no group", { a: { allowed_groups: ["web", ""] } }, "lone", "group"],
  ["an unknown host", { a: { allowed_groups: ["web"] } }, "nope", "group"],
  ["an unknown host without a table", {}, "nope", "ok"],
])("mayUseHost() answers for %s", (_name, callers, host, outcome) => {
  assert.equal(mayUseHost(policyWith(callers), "a", host), outcome);
});

Deno.test.each([
  { name: "a caller that may come any way", callers: { a: {} }, peer: "a", may: true },
  { name: "no table", callers: {}, peer: "a", may: true },
  { name: "its forwarder", callers: { a: { only_via: ["cp", "cp-2"] } }, peer: "cp-2", may: true },
  { name: "the caller itself", callers: { a: { only_via: ["cp"] } }, peer: "a", may: false },
  { name: "another forwarder", callers: { a: { only_via: ["cp"] } }, peer: "cp-2", may: false },
  { name: "a name that differs in case", callers: { a: { only_via: ["cp"] } }, peer: "CP", may: false },
  { name: "the default row's forwarder", callers: { _default: { only_via: ["cp"] } }, peer: "a", may: false },
])("mayComeFrom() with $name is $may", ({ callers, peer, may }) => {
  assert.equal(mayComeFrom(policyWith(callers), "a", peer), may);
});

Deno.test("visibleHosts() shows nothing of the policy and omits what is empty", () => {
  const policy = compileSample(sampleConfig({}, {
    hosts: {
      bast: sampleHost({ allow_as_bastion: true }),
      web01: sampleHost({
        jump: "bast",
        groups: ["web"],
        allow_sudo: true,
        allow_pty: true,
        allow_file_transfer: true,
        source_address: "10.0.0.1",
        max_ttl_seconds: 60,
        command_policy: { mode: "denylist", deny: ["x"] },
      }),
    },
  }));
  assert.deepEqual(visibleHosts(policy, "a"), {
    bast: { addr: "10.0.0.1:22", user: "deploy", host_key: SAMPLE_HOST_KEY },
    web01: {
      addr: "10.0.0.1:22",
      user: "deploy",
      host_key: SAMPLE_HOST_KEY,
      jump: "bast",
      allow_sudo: true,
      allow_pty: true,
      allow_file_transfer: true,
      groups: ["web"],
    },
  });
});
