/**
 * What is decided about an action on a cluster, and which clusters a caller may see. Pure: what it takes is the
 * compiled policy, the action, and the live grants.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { visibleClusters } from "@gateway/shared/policy/clusters";
 * import { compilePolicy } from "@gateway/shared/policy/compile";
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
import type { CompiledCluster } from "./compile_cluster.ts";
import { isInGroups } from "./rbac.ts";

export type { CompiledBinding, CompiledCluster } from "./compile_cluster.ts";
export type { ClusterResource, ResourceTable } from "./kubernetes.ts";

/** Whether a caller may use the cluster as far as its groups go. */
export function mayUseCluster(policy: CompiledPolicy, caller: string, cluster: CompiledCluster): boolean {
  return isInGroups(policy, caller, cluster.groups);
}

/** Whether the cluster's own list admits the caller. */
export function isAllowedClusterCaller({ allowedCallers }: CompiledCluster, caller: string): boolean {
  return allowedCallers.size === 0 || allowedCallers.has(caller);
}

/**
 * The clusters that a caller may use, in the shape of `GET /v1/clusters`, sorted by name.
 *
 * @param caPems the text of each cluster's `ca_cert`, by the cluster's name
 */
export function visibleClusters(
  policy: CompiledPolicy,
  caller: string,
  caPems: ReadonlyMap<string, string>,
): ClustersResponse {
  const entries: [string, ClusterInfo][] = [];
  for (const name of [...policy.clusters.keys()].sort()) {
    const cluster = policy.clusters.get(name);
    if (cluster === undefined || !mayUseCluster(policy, caller, cluster)) continue;
    if (!isAllowedClusterCaller(cluster, caller)) continue;
    entries.push([name, toClusterInfo(cluster, caPems.get(name) ?? "")]);
  }
  return Object.fromEntries(entries);
}

function toClusterInfo({ apiServer, groups, extraResources }: CompiledCluster, caPem: string): ClusterInfo {
  return {
    api_server: apiServer,
    ca_cert_pem: caPem,
    ...(groups.length > 0 && { groups }),
    ...(extraResources.length > 0 && { extra_resources: extraResources }),
  };
}
