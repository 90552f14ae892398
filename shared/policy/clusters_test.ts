import assert from "node:assert/strict";
import type { CallerPolicy, ClusterRule } from "./model.ts";
import { describeClusterRules } from "./compile_cluster.ts";
import { describeChange, describeDiff } from "./request_text.ts";
import { compileSample, SAMPLE_HOST_KEY, sampleConfig, sampleHost } from "../testing/sample_policy.ts";
import { visibleHosts } from "./host_rules.ts";
import { mayComeFrom, mayUseHost } from "./ssh.ts";
import { SAMPLE_NOW, sampleGrant, sampleGrants } from "../testing/sample_grant.ts";
import {
  addGrant,
  compileGrant,
  findGrantedPatterns,
  type Grant,
  listActive,
  NO_GRANTS,
  removeGrants,
  toGrantInfo,
} from "./grants.ts";

Deno.test.each<{ name: string; rule: ClusterRule; words: string }>([
  { name: "everything", rule: { effect: "allow" }, words: "any verb: any resource in any namespace" },
  {
    name: "a star among other verbs",
    rule: { verbs: ["get", "*"], resources: ["pods"], namespaces: ["web"], effect: "allow" },
    words: "any verb: pods in namespace web",
  },
  {
    name: "a rule that requires approval",
    rule: {
      verbs: ["apply"],
      resources: ["deployments"],
      namespaces: ["a", "b"],
      names: ["shop"],
      effect: "require_approval",
    },
    words: "apply: deployments in namespace a or in namespace b; only shop; a human has to approve",
  },
  {
    name: "lists across all namespaces",
    rule: {
      verbs: ["list"],
      resources: ["secrets"],
      namespaces: ["-"],
      names: ["-"],
      effect: "allow",
      reveal: true,
    },
    words: "list: secrets without a namespace; only lists; values of Secrets are shown",
  },
])("describeClusterRules() describes $name", ({ rule, words }) => {
  assert.deepEqual(describeClusterRules([rule]), [words]);
});

Deno.test("describeClusterRules() omits denied actions and all rules after the 50th", () => {
  const rules = [
    { resources: ["secrets"], effect: "deny" as const },
    ...Array.from({ length: 52 }, () => ({ resources: ["pods"], effect: "allow" as const })),
  ];
  const words = describeClusterRules(rules);
  assert.deepEqual(words.slice(-2), [
    "2 more rules are not shown",
    "some of this is denied; denied actions are not shown",
  ]);
  assert.equal(words.length, 52);
  assert.ok(!words.join().includes("secrets"));
});

const change = { path: "spec.replicas", before: "2", after: "3" };

Deno.test.each(
  [
    { diff: { kind: "created", changes: [change, change] }, words: "creates the object, with 2 fields" },
    { diff: { kind: "changed", changes: [change] }, words: "changes 1 field" },
    { diff: { kind: "changed", changes: [change], omitted: 7 }, words: "changes 8 fields" },
    { diff: { kind: "unchanged" }, words: "changes nothing" },
    { diff: { kind: "unknown" }, words: "the changes could not be determined" },
    {
      diff: { kind: "unknown", reason: "no right\x1b[2J" },
      words: "the changes could not be determined: no right\\x1b[2J",
    },
  ] as const,
)("describeDiff() returns: $words", ({ diff, words }) => assert.equal(describeDiff(diff), words));

Deno.test.each([
  { change, words: "spec.replicas: 2 → 3" },
  { change: { path: "a", after: '"x"' }, words: 'a: (not there) → "x"' },
  { change: { path: "a", before: "1" }, words: "a: 1 → (goes)" },
  { change: { path: "a\u202e", before: "\n", after: "\x07" }, words: "a\\u{202e}: \\x0a → \\x07" },
])("describeChange() returns: $words", ({ change, words }) => assert.equal(describeChange(change), words));

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
  ["hosts that allowed_callers allows", {}, "broker-2", ["db01", "lone", "web01"]],
  ["the hosts of its groups", { a: { allowed_groups: ["prod"] } }, "a", ["web01"]],
  ["no hosts if unlisted", { a: { allowed_groups: ["prod"] } }, "b", []],
  ["the hosts of _default if unlisted", { _default: { allowed_groups: ["web"] } }, "b", ["web01"]],
  [
    "its own row, not _default's",
    { a: { allowed_groups: [] }, _default: { allowed_groups: ["web"] } },
    "a",
    [],
  ],
  ["no hosts without allowed_groups", { a: {} }, "a", []],
  ["_default's row for a CN of that name", { _default: { allowed_groups: ["web"] } }, "_default", ["web01"]],
  ["a group's host that does not list the caller: not", { a: { allowed_groups: ["db"] } }, "a", []],
  ["a group's host that lists the caller", { "broker-2": { allowed_groups: ["db"] } }, "broker-2", ["db01"]],
  ["no hosts for a CN named like a member of Object", { a: {} }, "constructor", []],
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
])("mayUseHost() returns a result for %s", (_name, callers, host, outcome) => {
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

Deno.test("visibleHosts() omits the policy and empty fields", () => {
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

const WISH = { host: "web01", caller: "broker-1", endUser: "alice" };

Deno.test.each<[name: string, grant: Partial<Grant>, applies: boolean]>([
  ["for anyone", {}, true],
  ["for the caller", { caller: "broker-1" }, true],
  ["for the end user", { endUser: "alice" }, true],
  ["for both", { caller: "broker-1", endUser: "alice" }, true],
  ["for another caller", { caller: "broker-2" }, false],
  ["for a caller in capitals", { caller: "Broker-1" }, false],
  ["for another end user", { endUser: "bob" }, false],
  ["for the caller and another end user", { caller: "broker-1", endUser: "bob" }, false],
  ["for another host", { host: "web02" }, false],
  ["of the host's name in another case", { host: "WEB01" }, false],
  ["in its last millisecond", { expiresAt: SAMPLE_NOW + 1 }, true],
  ["at its end", { expiresAt: SAMPLE_NOW }, false],
  ["that is a waiver", { waiveApproval: ["^id$"] }, false],
])("findGrantedPatterns() checks a grant %s", (_name, grant, applies) => {
  assert.equal(findGrantedPatterns(sampleGrants(grant), WISH).length, applies ? 1 : 0);
});

Deno.test("findGrantedPatterns() ignores a grant for one end user if the request has none", () => {
  assert.deepEqual(findGrantedPatterns(sampleGrants({ endUser: "alice" }), { ...WISH, endUser: "" }), []);
});

Deno.test("compileGrant() rejects a grant if one of its patterns is invalid", () => {
  const compiled = compileGrant(sampleGrant({ allow: ["^id$", "("] }));
  assert.equal(compiled.kind, "invalid");
  assert.match(compiled.kind === "invalid" ? compiled.problem : "", /"\("/);
  assert.equal(compileGrant(sampleGrant({ allow: ["(?=x)"] })).kind, "invalid");
  assert.equal(compileGrant(sampleGrant({ waiveApproval: ["("] })).kind, "invalid");
});

Deno.test("addGrant() and removeGrants() do not modify the given set", () => {
  const { grants: before, now } = sampleGrants({}, { host: "web02" });
  const compiled = compileGrant(sampleGrant({ id: "new" }));
  assert(compiled.kind === "ok");
  const more = addGrant(before, compiled.grant);
  const less = removeGrants(more, new Set(["grant-0", "grant-1", "none"]));
  const ids = (grants: typeof before) => listActive({ grants, now }).map(({ id }) => id);
  assert.deepEqual([ids(before), ids(more), ids(less)], [["grant-0", "grant-1"], [
    "grant-0",
    "grant-1",
    "new",
  ], ["new"]]);
  assert.deepEqual([...less.byHost.keys()], ["web01"]);
});

Deno.test("addGrant() replaces a grant with the same ID, even on another host", () => {
  const { grants } = sampleGrants({ id: "a" }, { id: "a", host: "web02" });
  assert.deepEqual([[...grants.byId.keys()], [...grants.byHost.keys()]], [["a"], ["web02"]]);
});

Deno.test("listActive() omits expired grants and lists the oldest first", () => {
  const live = sampleGrants(
    { id: "b" },
    { id: "a" },
    { id: "old", grantedAt: SAMPLE_NOW - 1 },
    { id: "expired", expiresAt: SAMPLE_NOW },
  );
  assert.deepEqual(listActive(live).map(({ id }) => id), ["old", "a", "b"]);
  assert.deepEqual(listActive({ grants: NO_GRANTS, now: 0 }), []);
});

Deno.test("toGrantInfo() omits empty fields and writes times in whole seconds", () => {
  const times = { granted_at: "2026-01-02T03:04:05Z", expires_at: "2026-01-02T03:05:05Z" };
  assert.deepEqual(toGrantInfo(sampleGrant({ expiresAt: SAMPLE_NOW + 60_999 })), {
    id: "0123456789abcdef01234567",
    host: "web01",
    allow: ["^id$"],
    approver: "operator",
    ...times,
  });
  const waiver = sampleGrant({
    waiveApproval: ["^id$"],
    caller: "broker-1",
    endUser: "alice",
    sudo: true,
    sudoUser: "root",
    approvalId: "a1",
  });
  assert.deepEqual(toGrantInfo(waiver), {
    id: "0123456789abcdef01234567",
    host: "web01",
    waive_approval: ["^id$"],
    caller: "broker-1",
    end_user: "alice",
    sudo: true,
    sudo_user: "root",
    approver: "operator",
    approval_id: "a1",
    ...times,
  });
});
