/**
 * A cluster's policy for tests that vary one key at a time.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { sampleCluster } from "./sample_cluster.ts";
 *
 * assert.equal(sampleCluster({ groups: ["ops"] }).groups?.[0], "ops");
 * ```
 *
 * @module
 */
import type { ClusterPolicy } from "../policy/cluster_model.ts";

/** Reading in `web`, applying and deleting there with approval, never a Secret's deletion; with keys changed. */
export function sampleCluster(keys: Partial<ClusterPolicy> = {}): ClusterPolicy {
  return {
    api_server: "https://10.0.0.5:6443",
    ca_cert: "clusters/prod.ca.crt",
    token_file: "clusters/prod.token",
    sa_bindings: [{ namespace: "gateway", service_account: "agent" }],
    rules: [
      { verbs: ["get", "list", "logs"], namespaces: ["web"], effect: "allow" },
      { verbs: ["apply", "delete"], namespaces: ["web"], effect: "require_approval" },
      { verbs: ["delete"], resources: ["secrets"], effect: "deny" },
    ],
    ...keys,
  };
}
