// The decision in an audit record, with the facts about the request that no other member of the record has. They let
// another policy decide the same request again.
import { withoutEmpty } from "../text.ts";
import type { SignRequest } from "../wire/sign.ts";
import type { AllowedCluster } from "./clusters.ts";
import type { AllowedCommand } from "./grants.ts";

/** A decision about a host or a cluster. */
export type Decided =
  | Pick<AllowedCommand | AllowedCluster, "kind" | "requireApproval" | "approvalWaived" | "byGrant"> & {
    readonly enforcement?: AllowedCommand["enforcement"];
  }
  | { readonly kind: "denied" | "mismatch" };

/** What a config decides alone, without grants and waivers. `approval`: allowed after an approval. */
export const OUTCOMES = ["denied", "approval", "allowed"] as const;

/** One of {@linkcode OUTCOMES}. */
export type PolicyOutcome = (typeof OUTCOMES)[number];

/** What the config alone decides. */
export function outcomeOf(decision: Decided): PolicyOutcome {
  if (decision.kind !== "allowed") return "denied";
  // Audit mode denies nothing and needs no approval, with or without grants.
  if (decision.enforcement === "audit") return "allowed";
  if (decision.byGrant) return "denied";
  return decision.requireApproval || decision.approvalWaived ? "approval" : "allowed";
}

/**
 * The `decision` of an audit record.
 *
 * @param sent the forwarder of the request, and whether a token verified the end user
 */
export function recordDecision(
  decision: Decided,
  { end_user_groups: groups, k8s_force_fields }: Pick<SignRequest, "end_user_groups" | "k8s_force_fields">,
  sent: { readonly via?: string; readonly verified?: boolean } = {},
): { readonly decision: string } {
  const facts = withoutEmpty({ ...sent, forced: k8s_force_fields.length > 0 });
  return { decision: JSON.stringify({ outcome: outcomeOf(decision), groups, ...facts }) };
}
