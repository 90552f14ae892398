import assert from "node:assert/strict";
import { compileSampleCluster, sampleAction, sampleCluster } from "../testing/sample_cluster.ts";
import { sampleHost } from "../testing/sample_policy.ts";
import { clusterPolicy } from "./model.ts";
import { compilePolicy } from "./compile.ts";
import { decideCluster } from "./clusters.ts";
import { rulePattern } from "./compile_cluster.ts";
import { CORE_RESOURCES } from "./kubernetes.ts";

function compile(clusters: Readonly<Record<string, unknown>>) {
  return compilePolicy({
    hosts: { web01: sampleHost() },
    callers: {},
    command_policies: {},
    group_command_policies: {},
    max_ttl_seconds: 0,
    kubernetes: {
      clusters: Object.fromEntries(
        Object.entries(clusters).map(([name, cluster]) => [name, clusterPolicy.parse(cluster)]),
      ),
    },
  });
}

Deno.test.each<{ name: string; cluster?: Record<string, unknown>; at?: string; problem: string }>([
  {
    name: "the name of a host",
    at: "web01",
    problem: "kubernetes.clusters.web01: there is a host of this name",
  },
  {
    name: "a name with a blank",
    at: "a b",
    problem:
      'kubernetes.clusters["a b"]: a cluster name must be 1 to 63 of a-z A-Z 0-9 . _ - and start with a letter or digit',
  },
  {
    name: "an API server without TLS",
    cluster: { api_server: "http://10.0.0.5:6443" },
    problem: 'kubernetes.clusters.prod.api_server: "http://10.0.0.5:6443" is not an https URL with a host',
  },
  {
    name: "an API server that is no URL",
    cluster: { api_server: "10.0.0.5:6443" },
    problem: 'kubernetes.clusters.prod.api_server: "10.0.0.5:6443" is not an https URL with a host',
  },
  {
    name: "a password in the URL, without repeating it",
    cluster: { api_server: "https://admin:hunter2@10.0.0.5" },
    problem: "kubernetes.clusters.prod.api_server: has a user or password in it",
  },
  {
    name: "a query in the URL",
    cluster: { api_server: "https://10.0.0.5/?" },
    problem: 'kubernetes.clusters.prod.api_server: "https://10.0.0.5/?" has a query or a fragment',
  },
  {
    name: "a life below what an API server gives",
    cluster: { token_ttl_seconds: 599 },
    problem: "kubernetes.clusters.prod.token_ttl_seconds: 599 is neither 0 nor between 600 and 900",
  },
  {
    name: "a life above the cap",
    cluster: { token_ttl_seconds: 901 },
    problem: "kubernetes.clusters.prod.token_ttl_seconds: 901 is neither 0 nor between 600 and 900",
  },
  {
    name: "no ServiceAccount",
    cluster: { sa_bindings: [] },
    problem: "kubernetes.clusters.prod.sa_bindings: is empty: at least one is required",
  },
  {
    name: "a ServiceAccount that is a path",
    cluster: { sa_bindings: [{ namespace: "gateway", service_account: "../admin" }] },
    problem:
      'kubernetes.clusters.prod.sa_bindings[0].service_account: "../admin" is not the name of a ServiceAccount',
  },
  {
    name: "a ServiceAccount's namespace that is a path",
    cluster: { sa_bindings: [{ namespace: "kube-system/x", service_account: "reader" }] },
    problem: 'kubernetes.clusters.prod.sa_bindings[0].namespace: "kube-system/x" is not a namespace',
  },
  {
    name: "an empty group, which would be no filter",
    cluster: { sa_bindings: [{ groups: [""], namespace: "gateway", service_account: "reader" }] },
    problem: "kubernetes.clusters.prod.sa_bindings[0].groups: a group is empty or contains blanks",
  },
  {
    name: "tokens bound in another namespace",
    cluster: { token_binding: { namespace: "leases" } },
    problem:
      'kubernetes.clusters.prod.sa_bindings[0].namespace: "gateway" is not "leases" of token_binding: ' +
      "a token can only be bound to a Secret beside its ServiceAccount",
  },
  {
    name: "an unknown verb",
    cluster: { rules: [{ verbs: ["get", "exec"], effect: "allow" }] },
    problem: 'kubernetes.clusters.prod.rules[0].verbs[1]: "exec" is not a verb',
  },
  {
    name: "an unknown resource",
    cluster: { rules: [{ resources: ["widgets"], effect: "allow" }] },
    problem:
      'kubernetes.clusters.prod.rules[0].resources[0]: "widgets" is not a resource of the core table nor of extra_resources',
  },
  {
    name: "a resource with its group",
    cluster: { rules: [{ resources: ["deployments.apps"], effect: "allow" }] },
    problem:
      'kubernetes.clusters.prod.rules[0].resources[0]: "deployments.apps" is not a resource of the core table nor of extra_resources (did you mean "deployments"?)',
  },
  {
    name: "a resource in the singular",
    cluster: { rules: [{ resources: ["ingress"], effect: "allow" }] },
    problem:
      'kubernetes.clusters.prod.rules[0].resources[0]: "ingress" is not a resource of the core table nor of extra_resources (did you mean "ingresses"?)',
  },
  {
    name: "a namespace with a slash",
    cluster: { rules: [{ namespaces: ["a/b"], effect: "allow" }] },
    problem: 'kubernetes.clusters.prod.rules[0].namespaces[0]: "a/b" is not a namespace',
  },
  {
    name: "a pattern as a name",
    cluster: { rules: [{ names: ["web-*"], effect: "allow" }] },
    problem: 'kubernetes.clusters.prod.rules[0].names[0]: "web-*" is not the name of an object',
  },
  {
    name: "nothing that is allowed",
    cluster: { rules: [{ verbs: ["delete"], effect: "deny" }] },
    problem:
      "kubernetes.clusters.prod.rules: no rule has the effect allow or require_approval: nothing could be done",
  },
  {
    name: "secrets shown of what is denied",
    cluster: { rules: [{ effect: "allow" }, { effect: "deny", verbs: ["delete"], reveal: true }] },
    problem: "kubernetes.clusters.prod.rules[1].reveal: nothing is shown of what is denied",
  },
  {
    name: "an extra resource that is built in",
    cluster: { extra_resources: [{ resource: "pods", version: "v1", kind: "Pod" }] },
    problem: 'kubernetes.clusters.prod.extra_resources[0]: resource "pods" is there already',
  },
  {
    name: "two extra resources of one name",
    cluster: {
      extra_resources: [
        { resource: "widgets", group: "a.example", version: "v1", kind: "Widget" },
        { resource: "widgets", group: "b.example", version: "v1", kind: "Widget" },
      ],
    },
    problem: 'kubernetes.clusters.prod.extra_resources[1]: resource "widgets" is there already',
  },
  {
    name: "an extra resource with a path as its version",
    cluster: {
      extra_resources: [{ resource: "widgets", group: "a.example", version: "../v1", kind: "Widget" }],
    },
    problem: 'kubernetes.clusters.prod.extra_resources[0]: version "../v1" is not an API version',
  },
])("compilePolicy() refuses a cluster with $name", ({ at = "prod", cluster, problem }) => {
  const compiled = compile({ [at]: { ...sampleCluster(), ...cluster } });
  assert.ok(compiled.kind === "invalid");
  assert.deepEqual(compiled.problems, [problem]);
});

Deno.test("compilePolicy() resolves a cluster's defaults, and takes the slash off its URL", () => {
  const compiled = compile({ prod: { ...sampleCluster(), api_server: "https://10.0.0.5:6443/" } });
  assert.ok(compiled.kind === "ok");
  const cluster = compiled.policy.clusters.get("prod");
  assert.equal(cluster?.apiServer, "https://10.0.0.5:6443");
  assert.equal(cluster?.tokenTtlSeconds, 600);
  assert.equal(cluster?.leaseNamespace, "");
});

Deno.test.each<{ name: string; rule: Record<string, readonly string[]>; pattern: string }>([
  {
    name: "as existing logs have it",
    rule: { verbs: ["get", "list"], resources: ["deployments"], namespaces: ["prod"] },
    pattern: String.raw`^(?:get|list) (?:deployments\.apps) (?:prod)/(?:[^ ]+)$`,
  },
  { name: "of everything", rule: {}, pattern: "^(?:[a-z]+) (?:[^ ]+) (?:[^ /]+)/(?:[^ ]+)$" },
  {
    name: "with a * among others",
    rule: { verbs: ["get", "*"], resources: ["pods"], namespaces: ["*"], names: ["-", "web-1.a"] },
    pattern: String.raw`^(?:[a-z]+) (?:pods) (?:[^ /]+)/(?:-|web-1\.a)$`,
  },
])("rulePattern() writes a rule $name", ({ rule, pattern }) => {
  assert.equal(rulePattern({ ...rule, effect: "allow" }, CORE_RESOURCES), pattern);
});

Deno.test.each([{ force: false, requireApproval: true }, { force: true, requireApproval: false }])(
  "an apply that takes fields over needs approval also where it is allowed, unless the rule says force: $force",
  ({ force, requireApproval }) => {
    const cluster = compileSampleCluster({ rules: [{ verbs: ["apply"], effect: "allow", force }] });
    const intent = sampleAction("apply", "pods", "web", "web-1");
    const decide = (isForced: boolean) => {
      const decision = decideCluster(cluster, { ...intent, isForced });
      assert.ok(decision.kind === "allowed");
      return [decision.requireApproval, decision.force];
    };
    assert.deepEqual([decide(false), decide(true)], [[false, false], [requireApproval, true]]);
  },
);
