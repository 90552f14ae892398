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
import assert from "node:assert/strict";
import type { ClusterIntent } from "../policy/clusters.ts";
import type { ClusterPolicy } from "../policy/model.ts";
import type { CompiledCluster } from "../policy/compile_cluster.ts";
import { compileSample, sampleConfig } from "./sample_policy.ts";

/** Read in `web`, apply and delete there with approval, never delete Secrets; with keys changed. */
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
/** Compiles {@linkcode sampleCluster} under the name `prod`. */
export function compileSampleCluster(keys: Partial<ClusterPolicy> = {}): CompiledCluster {
  const { clusters } = compileSample({
    ...sampleConfig(),
    kubernetes: { clusters: { prod: sampleCluster(keys) } },
  });
  const cluster = clusters.get("prod");
  assert(cluster !== undefined);
  return cluster;
}

/** An action of `broker-1`, in canonical form if it is for a built-in resource without a group. */
export function sampleAction(
  verb: string,
  resource: string,
  namespace = "",
  name = "",
): ClusterIntent {
  return {
    caller: "broker-1",
    endUser: "",
    endUserGroups: null,
    command: `${verb} ${resource} ${namespace || "-"}/${name || "-"}`,
    manifestSha256: "",
    verb,
    resource,
    group: "",
    namespace,
    name,
  };
}
