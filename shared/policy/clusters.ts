// Decides one action on one cluster, and finds the clusters that a caller may see.
import { finish } from "../clock.ts";
import { quoteText, withoutEmpty } from "../text.ts";
import type { ClusterInfo, ClustersResponse } from "../wire/inventory.ts";
import type { SignRequest, WireDecision } from "../wire/sign.ts";
import type { CompiledPolicy } from "./compile.ts";
import type { CompiledBinding, CompiledCluster } from "./compile_cluster.ts";
import { decideWithGrants, type GatedCommand, isWaived, type LiveGrants, NO_GRANTS } from "./grants.ts";
import { type ClusterAction, parseClusterAction, type RequestedAction } from "./kubernetes.ts";
import { findListDenial, isInGroups, isListedFor } from "./ssh.ts";

/** A caller's intent for a cluster. */
export interface ClusterIntent extends RequestedAction {
  readonly caller: string;
  /** Empty: none. */
  readonly endUser: string;
  /** `null`: no filter, but only a binding for everybody applies. `[]`: the user is in no group. */
  readonly endUserGroups: readonly string[] | null;
  /** The action in the caller's words; must be the canonical form of the other fields. */
  readonly command: string;
  /** SHA-256 of the manifest of an apply; empty: unknown. */
  readonly manifestSha256: string;
  /** The apply takes fields over from other managers. */
  readonly isForced?: boolean;
}

/** A denied action. */
export interface DeniedCluster {
  readonly kind: "denied";
  /** For people, without the rule. */
  readonly reason: string;
  /** `deny:<pattern>`, `allowlist:no-match`, or empty if no rule denied. */
  readonly matchedRule: string;
}

/** An allowed action. */
export interface AllowedCluster {
  readonly kind: "allowed";
  readonly action: ClusterAction;
  readonly binding: CompiledBinding;
  readonly ttlSeconds: number;
  /** A human other than the requester must approve first. */
  readonly requireApproval: boolean;
  /** The action needs no approval only because of an active waiver. */
  readonly approvalWaived: boolean;
  /** The rules of the config alone would have denied the action. */
  readonly byGrant: boolean;
  /** The rule, in the form of `matched_rule` on the wire. */
  readonly matchedRule: string;
  /** The requester may see the values of Secrets. */
  readonly reveal: boolean;
  /** Whether the decision took into account the fields that the apply takes from other managers. */
  readonly force: boolean;
  /** The action in the form from which a waiver is learned. */
  readonly gated: GatedCommand;
}

/** The decision about an action. `mismatch`: the command is not the canonical form of the action. */
export type ClusterDecision = AllowedCluster | DeniedCluster | { readonly kind: "mismatch" };

/** The intent of a sign request for a cluster. */
export function clusterIntentOf(request: SignRequest, caller: string, manifestSha256: string): ClusterIntent {
  return {
    caller,
    endUser: request.end_user,
    endUserGroups: request.end_user_groups,
    command: request.command,
    manifestSha256,
    isForced: request.k8s_force_fields.length > 0,
    verb: request.k8s_verb,
    resource: request.k8s_resource,
    group: request.k8s_group,
    namespace: request.k8s_namespace,
    name: request.k8s_name,
  };
}

/** The `command` of an audit record for a cluster, exactly as in the reference: from the fields of the request. */
export function describeClusterRequest(request: SignRequest): string {
  const { k8s_verb, k8s_resource, k8s_group, k8s_namespace, k8s_name, end_user } = request;
  const resource = k8s_group === "" ? k8s_resource : `${k8s_resource}.${k8s_group}`;
  return `target=k8s verb=${k8s_verb} resource=${resource} ns=${k8s_namespace || "-"} name=${
    k8s_name || "-"
  }` +
    (end_user === "" ? "" : ` user=${end_user}`);
}

/** Decides an intent for a cluster that the caller's groups may use. Total and pure. */
export function decideCluster(
  cluster: CompiledCluster,
  intent: ClusterIntent,
  live: LiveGrants = { grants: NO_GRANTS, now: 0 },
): ClusterDecision {
  const { caller, endUser, endUserGroups, isForced = false } = intent;
  const parsed = parseClusterAction(cluster.resources, intent);
  if (parsed.kind === "invalid") return deny(parsed.problem);
  const { action } = parsed;
  if (intent.command !== action.text) return { kind: "mismatch" };
  const denial = findListDenial(cluster, intent);
  if (denial !== undefined) return deny(denial);
  const gated: GatedCommand = {
    host: cluster.name,
    caller,
    endUser,
    sudo: false,
    sudoUser: "",
    command: action.text,
    fileTransfer: action.verb === "apply",
    contentSha256: intent.manifestSha256,
  };
  const { kind, rule, requireApproval, byGrant } = finish(decideWithGrants(cluster.commands, gated, live));
  // The reason does not quote the rule, which is only for records.
  if (kind === "denied") return deny("not allowed by cluster policy", rule);
  // Without groups, only a binding for everybody applies.
  const binding = cluster.bindings.find(({ groups }) =>
    groups.size === 0 || endUserGroups?.some((group) => groups.has(group)) === true
  );
  // Check this even for a dry run, and before a human is asked to approve.
  if (binding === undefined) {
    return deny(`no ServiceAccount of cluster ${quoteText(cluster.name)} is for the end user's groups`);
  }
  // An earlier approval was for an apply that takes over no fields, so its waiver does not apply.
  const approvalWaived = requireApproval && !isForced && isWaived(live, gated);
  const isForceFree = !isForced || cluster.forces.some((pattern) => pattern.test(action.text));
  return {
    kind,
    action,
    binding,
    ttlSeconds: cluster.tokenTtlSeconds,
    requireApproval: (requireApproval && !approvalWaived) || !isForceFree,
    approvalWaived,
    byGrant,
    matchedRule: approvalWaived ? `approval-waived:${rule}` : rule,
    reveal: cluster.reveals.some((pattern) => pattern.test(action.text)),
    force: isForced,
    gated,
  };
}

function deny(reason: string, matchedRule = ""): DeniedCluster {
  return { kind: "denied", reason, matchedRule };
}

/**
 * The decision on the wire. A denial does not name the pattern, because an agent could use it to probe the
 * rules.
 */
export function toWireClusterDecision(decision: AllowedCluster | DeniedCluster): WireDecision {
  const { matchedRule } = decision;
  if (decision.kind === "denied") {
    return {
      allowed: false,
      reason: decision.reason,
      ...(matchedRule === "allowlist:no-match" && { matched_rule: matchedRule }),
      ...(matchedRule !== "" && { enforcement: "enforce" as const }),
    };
  }
  return {
    allowed: true,
    ...withoutEmpty({ require_approval: decision.requireApproval }),
    matched_rule: matchedRule,
    ttl_seconds: decision.ttlSeconds,
    enforcement: "enforce",
    ...withoutEmpty({ reveal: decision.reveal, force: decision.force }),
  };
}

/** Finds a cluster for the effective caller; `closed`: unknown, or denied by the callers table. */
export function findCluster(
  policy: CompiledPolicy,
  caller: string,
  name: string,
):
  | { readonly kind: "ok"; readonly cluster: CompiledCluster }
  | { readonly kind: "closed"; readonly reason: string } {
  const cluster = policy.clusters.get(name);
  if (cluster === undefined) return { kind: "closed", reason: "unknown cluster" };
  return isInGroups(policy, caller, cluster.groups)
    ? { kind: "ok", cluster }
    : { kind: "closed", reason: "cluster not authorised" };
}

/**
 * The clusters that a caller may use, sorted by name.
 *
 * @param caPems the text of each cluster's `ca_cert`, by the cluster's name
 */
export function visibleClusters(
  policy: CompiledPolicy,
  caller: string,
  caPems: ReadonlyMap<string, string>,
  withRules = false,
): ClustersResponse {
  const entries = [...policy.clusters]
    .filter(([, cluster]) => isListedFor(policy, caller, cluster))
    .sort(([a], [b]) => a < b ? -1 : 1)
    .map(([name, { apiServer, groups, extraResources, words }]): [string, ClusterInfo] => [name, {
      api_server: apiServer,
      ca_cert_pem: caPems.get(name) ?? "",
      ...withoutEmpty({ groups, extra_resources: extraResources }),
      ...(withRules && { policy: words }),
    }]);
  return Object.fromEntries(entries);
}
