import assert from "node:assert/strict";
import type { ClusterRule } from "./model.ts";
import { describeClusterRules } from "./compile_cluster.ts";

Deno.test.each<{ name: string; rule: ClusterRule; words: string }>([
  { name: "everything", rule: { effect: "allow" }, words: "any verb: any resource in any namespace" },
  {
    name: "a star among others",
    rule: { verbs: ["get", "*"], resources: ["pods"], namespaces: ["web"], effect: "allow" },
    words: "any verb: pods in namespace web",
  },
  {
    name: "what needs an approval",
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
    name: "lists of all namespaces",
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
])("describeClusterRules() says $name", ({ rule, words }) => {
  assert.deepEqual(describeClusterRules([rule]), [words]);
});

Deno.test("describeClusterRules() does not show what is denied, nor more than 50 rules", () => {
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
