/**
 * What is decided about one action on one cluster: the action is brought into its canonical form, and the cluster's
 * rules are asked about that.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { compileSampleCluster, sampleAction } from "../testing/sample_cluster.ts";
 * import { decideCluster } from "./cluster_decision.ts";
 *
 * const cluster = compileSampleCluster();
 * const decision = decideCluster(cluster, sampleAction("get", "pods", "web", "web-1"));
 * assert.equal(decision.kind === "allowed" && decision.action.text, "get pods web/web-1");
 * assert.equal(decideCluster(cluster, sampleAction("get", "pods", "db", "db-1")).kind, "denied");
 * ```
 *
 * @module
 */
import { quoteText } from "../text.ts";
import type { SignRequest, WireDecision } from "../wire/sign.ts";
import { type CommandVerdict, decideCommand, extendAllowlist } from "./command.ts";
import type { CompiledBinding, CompiledCluster } from "./compile_cluster.ts";
import { findGrantedPatterns, type LiveGrants, NO_GRANTS } from "./grants.ts";
import { type AskedAction, type ClusterAction, parseClusterAction } from "./kubernetes.ts";
import { type GatedCommand, isWaived } from "./waivers.ts";

/** What a caller wants of a cluster. */
export interface ClusterIntent extends AskedAction {
  readonly caller: string;
  /** Empty: none. */
  readonly endUser: string;
  /** `null`: no filter, and no group that a ServiceAccount could be for. `[]`: a user in no group. */
  readonly endUserGroups: readonly string[] | null;
  /** The action as the caller wrote it down; it must be the canonical form of the rest. */
  readonly command: string;
  /** Of an apply: SHA-256 of its manifest; empty: not said. */
  readonly manifestSha256: string;
  /** It takes fields over from other managers. */
  readonly isForced?: boolean;
}

/** An action that is denied. */
export interface DeniedCluster {
  /** No token. */
  readonly kind: "denied";
  /** For people, and without the rule. */
  readonly reason: string;
  /** `deny:<pattern>`, `allowlist:no-match`, or empty when no rule denied. */
  readonly matchedRule: string;
}

/** An action that is allowed, and whose rights it is done with. */
export interface AllowedCluster {
  /** A token, once nothing else is in the way. */
  readonly kind: "allowed";
  readonly action: ClusterAction;
  readonly binding: CompiledBinding;
  readonly ttlSeconds: number;
  /** A second human has to approve first. */
  readonly requireApproval: boolean;
  /** It would need approval, were it not for a live waiver. */
  readonly approvalWaived: boolean;
  /** As in `matched_rule` on the wire. */
  readonly matchedRule: string;
  /** Values of Secrets may be shown. */
  readonly reveal: boolean;
  /** It was decided with the fields that it takes over from other managers. */
  readonly force: boolean;
  /** What a waiver is learned from. */
  readonly gated: GatedCommand;
}

/** What is decided about an action. */
export type ClusterDecision =
  | AllowedCluster
  | DeniedCluster
  /** The command is not the canonical form of the action: the request contradicts itself. */
  | { readonly kind: "mismatch" };

/** The reason that a denial by the rules is told with: the rules are the operator's. */
const NOT_ALLOWED = "not allowed by cluster policy";

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

/**
 * Decides an intent for a cluster that the caller's groups may use. Total and pure.
 *
 * @param live the grants and waivers to take in, and the time; none by default
 */
export function decideCluster(
  cluster: CompiledCluster,
  intent: ClusterIntent,
  live: LiveGrants = { grants: NO_GRANTS, now: 0 },
): ClusterDecision {
  const parsed = parseClusterAction(cluster.resources, intent);
  if (parsed.kind === "invalid") return deny(parsed.problem);
  const { action } = parsed;
  if (intent.command !== action.text) return { kind: "mismatch" };
  const gate = findGateDenial(cluster, intent);
  if (gate !== undefined) return deny(gate);
  const gated = gatedOf(cluster, intent, action);
  const verdict = decideWithGrants(cluster, gated, live);
  if (verdict.kind === "denied") return deny(NOT_ALLOWED, verdict.rule);
  const binding = findBinding(cluster, intent.endUserGroups);
  // A dry run is told too, and no human is asked in vain.
  if (binding === undefined) {
    return deny(`no ServiceAccount of cluster ${quoteText(cluster.name)} is for the end user's groups`);
  }
  const { isForced = false } = intent;
  // What a human has approved before was an apply that takes nothing over.
  const approvalWaived = verdict.requireApproval && !isForced && isWaived(live, gated);
  const isForceFree = !isForced || cluster.forces.some((pattern) => pattern.test(action.text));
  return {
    kind: "allowed",
    action,
    binding,
    ttlSeconds: cluster.tokenTtlSeconds,
    requireApproval: (verdict.requireApproval && !approvalWaived) || !isForceFree,
    approvalWaived,
    matchedRule: approvalWaived ? `approval-waived:${verdict.rule}` : verdict.rule,
    reveal: cluster.reveals.some((pattern) => pattern.test(action.text)),
    force: isForced,
    gated,
  };
}

/** Whether the cluster's own list admits the caller. */
export function isAllowedClusterCaller({ allowedCallers }: CompiledCluster, caller: string): boolean {
  return allowedCallers.size === 0 || allowedCallers.has(caller);
}

/** The wire form of a decision; of a denial by a rule not its pattern: an agent could feel its way along it. */
export function toWireClusterDecision(decision: AllowedCluster | DeniedCluster): WireDecision {
  switch (decision.kind) {
    case "denied":
      return {
        allowed: false,
        reason: decision.reason,
        ...(decision.matchedRule === "allowlist:no-match" && { matched_rule: decision.matchedRule }),
        ...(decision.matchedRule !== "" && { enforcement: "enforce" as const }),
      };
    case "allowed":
      return {
        allowed: true,
        ...(decision.requireApproval && { require_approval: true }),
        matched_rule: decision.matchedRule,
        ttl_seconds: decision.ttlSeconds,
        enforcement: "enforce",
        ...(decision.reveal && { reveal: true }),
        ...(decision.force && { force: true }),
      };
    default:
      return decision satisfies never;
  }
}

function deny(reason: string, matchedRule = ""): DeniedCluster {
  return { kind: "denied", reason, matchedRule };
}

function findGateDenial(
  cluster: CompiledCluster,
  { caller, endUser, endUserGroups }: ClusterIntent,
): string | undefined {
  if (!isAllowedClusterCaller(cluster, caller)) {
    return `caller ${quoteText(caller)} not authorised for ${quoteText(cluster.name)}`;
  }
  if (endUserGroups === null || endUserGroups.some((group) => cluster.groups.includes(group))) {
    return undefined;
  }
  return `user ${quoteText(endUser)} not authorised for ${quoteText(cluster.name)} (groups)`;
}

function gatedOf(
  { name }: CompiledCluster,
  intent: ClusterIntent,
  { verb, text }: ClusterAction,
): GatedCommand {
  return {
    host: name,
    caller: intent.caller,
    endUser: intent.endUser,
    sudo: false,
    sudoUser: "",
    command: text,
    fileTransfer: verb === "apply",
    contentSha256: intent.manifestSha256,
  };
}

function decideWithGrants(
  { commands }: CompiledCluster,
  gated: GatedCommand,
  live: LiveGrants,
): CommandVerdict {
  const verdict = decideCommand(commands, gated.command);
  if (verdict.rule !== "allowlist:no-match") return verdict;
  const granted = findGrantedPatterns(live, gated);
  return granted.length === 0 ? verdict : decideCommand(extendAllowlist(commands, granted), gated.command);
}

/** `null` is nobody's group: only an entry for everybody is for it. */
function findBinding(
  { bindings }: CompiledCluster,
  groups: readonly string[] | null,
): CompiledBinding | undefined {
  return bindings.find((binding) =>
    binding.groups.size === 0 || groups?.some((group) => binding.groups.has(group)) === true
  );
}
