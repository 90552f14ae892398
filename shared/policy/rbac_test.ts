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

Deno.test.each(
  [
    { name: "everything without a table", callers: {}, caller: "anyone", seen: ["lone", "web01"] },
    {
      name: "what allowed_callers lets a caller see",
      callers: {},
      caller: "broker-2",
      seen: ["db01", "lone", "web01"],
    },
    {
      name: "the hosts of its groups",
      callers: { a: { allowed_groups: ["prod"] } },
      caller: "a",
      seen: ["web01"],
    },
    { name: "nothing when unlisted", callers: { a: { allowed_groups: ["prod"] } }, caller: "b", seen: [] },
    {
      name: "what _default sees when unlisted",
      callers: { _default: { allowed_groups: ["web"] } },
      caller: "b",
      seen: ["web01"],
    },
    {
      name: "its own row, not _default's",
      callers: { a: { allowed_groups: [] }, _default: { allowed_groups: ["web"] } },
      caller: "a",
      seen: [],
    },
    { name: "nothing without allowed_groups", callers: { a: {} }, caller: "a", seen: [] },
    {
      name: "_default's row for a CN of that name",
      callers: { _default: { allowed_groups: ["web"] } },
      caller: "_default",
      seen: ["web01"],
    },
    {
      name: "a group's host that does not list the caller: not",
      callers: { a: { allowed_groups: ["db"] } },
      caller: "a",
      seen: [],
    },
    {
      name: "a group's host that lists the caller",
      callers: { "broker-2": { allowed_groups: ["db"] } },
      caller: "broker-2",
      seen: ["db01"],
    },
    {
      name: "nothing for a CN named like a member of Object",
      callers: { a: {} },
      caller: "constructor",
      seen: [],
    },
  ] satisfies { name: string; callers: Record<string, CallerPolicy>; caller: string; seen: string[] }[],
)(
  "visibleHosts() shows $name",
  ({ callers, caller, seen }) => {
    const policy = policyWith(callers);
    assert.deepEqual(Object.keys(visibleHosts(policy, caller)), seen);
  },
);

Deno.test.each(
  [
    {
      name: "a host of the caller's group",
      callers: { a: { allowed_groups: ["web"] } },
      host: "web01",
      outcome: "ok",
    },
    {
      name: "a host of another group",
      callers: { a: { allowed_groups: ["web"] } },
      host: "db01",
      outcome: "group",
    },
    {
      name: "a host of no group",
      callers: { a: { allowed_groups: ["web", ""] } },
      host: "lone",
      outcome: "group",
    },
    { name: "an unknown host", callers: { a: { allowed_groups: ["web"] } }, host: "nope", outcome: "group" },
    { name: "an unknown host without a table", callers: {}, host: "nope", outcome: "ok" },
  ] satisfies { name: string; callers: Record<string, CallerPolicy>; host: string; outcome: string }[],
)(
  "mayUseHost() answers for $name",
  ({ callers, host, outcome }) => {
    assert.equal(mayUseHost(policyWith(callers), "a", host), outcome);
  },
);

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
