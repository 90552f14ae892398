/**
 * What is decided about an action on a cluster, and which clusters a caller may see. Pure: what it takes is the
 * compiled policy, the action, and the live grants.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { visibleClusters } from "@gateway/shared/policy";
 * import { compilePolicy } from "@gateway/shared/policy";
 *
 * const compiled = compilePolicy({
 *   hosts: {},
 *   callers: {},
 *   command_policies: {},
 *   group_command_policies: {},
 *   max_ttl_seconds: 0,
 * });
 * assert(compiled.kind === "ok");
 * assert.deepEqual(visibleClusters(compiled.policy, "broker-1", new Map()), {});
 * ```
 *
 * @module
 */
import type { ClusterInfo, ClustersResponse } from "../wire/cluster.ts";
import type { CompiledPolicy } from "./compile.ts";
import { isAllowedClusterCaller } from "./cluster_decision.ts";
import type { CompiledCluster } from "./compile_cluster.ts";
import { isInGroups } from "./rbac.ts";

export {
  type AllowedCluster,
  type ClusterDecision,
  type ClusterIntent,
  clusterIntentOf,
  decideCluster,
  type DeniedCluster,
  toWireClusterDecision,
} from "./cluster_decision.ts";
export { type CompiledBinding, type CompiledCluster, rulePattern } from "./compile_cluster.ts";
export { findListGaps, type ListGap } from "./list_gaps.ts";
export type { ClusterAction, ClusterResource, ResourceTable } from "./kubernetes.ts";

/** What the gate in front of all other policy says. */
type ClusterGate =
  | { readonly kind: "ok"; readonly cluster: CompiledCluster }
  /** There is no such cluster, or the callers table keeps the caller from it; the reason is for people. */
  | { readonly kind: "closed"; readonly reason: string };

/** Finds a cluster for a caller (the effective one). */
export function findCluster(policy: CompiledPolicy, caller: string, name: string): ClusterGate {
  const cluster = policy.clusters.get(name);
  if (cluster === undefined) return { kind: "closed", reason: "unknown cluster" };
  return isInGroups(policy, caller, cluster.groups)
    ? { kind: "ok", cluster }
    : { kind: "closed", reason: "cluster not authorised" };
}

/**
 * The clusters that a caller may use, in the shape of `GET /v1/clusters`, sorted by name.
 *
 * @param caPems the text of each cluster's `ca_cert`, by the cluster's name
 * @param withRules also what the rules allow, in words
 */
export function visibleClusters(
  policy: CompiledPolicy,
  caller: string,
  caPems: ReadonlyMap<string, string>,
  withRules = false,
): ClustersResponse {
  const entries: [string, ClusterInfo][] = [];
  for (const name of [...policy.clusters.keys()].sort()) {
    const cluster = policy.clusters.get(name);
    if (cluster === undefined || !isInGroups(policy, caller, cluster.groups)) continue;
    if (!isAllowedClusterCaller(cluster, caller)) continue;
    entries.push([name, toClusterInfo(cluster, caPems.get(name) ?? "", withRules)]);
  }
  return Object.fromEntries(entries);
}

function toClusterInfo(
  { apiServer, groups, extraResources, words }: CompiledCluster,
  caPem: string,
  withRules: boolean,
): ClusterInfo {
  return {
    api_server: apiServer,
    ca_cert_pem: caPem,
    ...(groups.length > 0 && { groups }),
    ...(extraResources.length > 0 && { extra_resources: extraResources }),
    ...(withRules && { policy: words }),
  };
}
