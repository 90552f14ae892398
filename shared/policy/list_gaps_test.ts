import assert from "node:assert/strict";
import { compileSampleCluster, sampleCluster } from "../testing/sample_cluster.ts";
import type { ClusterRule } from "./model.ts";
import { findListGaps } from "./warnings.ts";

const ALL = { effect: "allow" } as const;
const IN_WEB = { namespaces: ["web"], effect: "allow" } as const;

Deno.test.each<{ name: string; rules: readonly ClusterRule[]; gaps: readonly string[] }>([
  {
    name: "a list of all namespaces shows the denied one",
    rules: [ALL, { verbs: ["get", "list"], namespaces: ["vault"], effect: "deny" }],
    gaps: ["1 list pods -/-"],
  },
  {
    name: "a list of the namespace shows the denied object",
    rules: [IN_WEB, { resources: ["secrets"], namespaces: ["web"], names: ["db"], effect: "deny" }],
    gaps: ["1 list secrets web/-"],
  },
  {
    name: "a list shows what may not be got",
    rules: [ALL, { verbs: ["get"], resources: ["secrets"], effect: "deny" }],
    gaps: ["1 list secrets -/-"],
  },
  {
    name: "a list of what has no namespace",
    rules: [ALL, { verbs: ["get"], resources: ["nodes"], names: ["n1"], effect: "deny" }],
    gaps: ["1 list nodes -/-"],
  },
  {
    name: "a list that waits for a human is not denied",
    rules: [{ effect: "require_approval" }, { namespaces: ["vault"], effect: "deny" }],
    gaps: ["1 list pods -/-"],
  },
  {
    name: "none where the rule denies the list of all namespaces, too",
    rules: [ALL, { verbs: ["get", "list"], namespaces: ["vault", "-"], effect: "deny" }],
    gaps: [],
  },
  {
    name: "none where nothing allows that list",
    rules: [IN_WEB, { namespaces: ["vault"], effect: "deny" }],
    gaps: [],
  },
  {
    name: "none where the rule denies what nobody reads",
    rules: [ALL, { verbs: ["delete"], namespaces: ["vault"], effect: "deny" }],
    gaps: [],
  },
  { name: "none where the rule denies everything", rules: [ALL, { verbs: ["*"], effect: "deny" }], gaps: [] },
])("findListGaps(): $name", ({ rules, gaps }) => {
  const found = findListGaps(sampleCluster({ rules }), compileSampleCluster({ rules }));
  assert.deepEqual(found.map(({ index, list }) => `${index} ${list}`), gaps);
});
