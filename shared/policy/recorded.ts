// The decision in an audit record, with the facts about the request that no other member of the record has. They let
// another policy decide the same request again.
import * as z from "@zod/zod";
import { parseJson } from "../json.ts";
import { withoutEmpty } from "../text.ts";
import type { SignRequest } from "../wire/sign.ts";
import type { AllowedCluster } from "./clusters.ts";
import type { AllowedCommand } from "./grants.ts";

const OUTCOMES = ["denied", "approval", "allowed"] as const;

/** What a policy decides about a request. `approval`: allowed after an approval. */
export type PolicyOutcome = (typeof OUTCOMES)[number];

const recordedDecision = z.strictObject({
  outcome: z.enum(OUTCOMES),
  live: z.boolean().default(false),
  groups: z.array(z.string()).nullable(),
  via: z.string().default(""),
  verified: z.boolean().default(false),
  forced: z.boolean().default(false),
});

/** The decision of the config alone, and facts about its request. */
export interface RecordedDecision {
  readonly outcome: PolicyOutcome;
  /** A grant or a waiver changed the decision. */
  readonly live: boolean;
  /** The groups of the end user, as in a request. */
  readonly groups: readonly string[] | null;
  /** The forwarder of the request; empty: the caller itself sent it. */
  readonly via: string;
  /** A token verified the end user. */
  readonly verified: boolean;
  /** The apply takes fields over from other managers. */
  readonly forced: boolean;
}

/** A decision about a host or a cluster. */
export type Decided =
  | Pick<AllowedCommand | AllowedCluster, "kind" | "requireApproval" | "approvalWaived" | "byGrant"> & {
    readonly enforcement?: AllowedCommand["enforcement"];
  }
  | { readonly kind: "denied" | "mismatch" };

/** What the config alone decides, without grants and waivers. */
export function outcomeOf(decision: Decided): PolicyOutcome {
  if (decision.kind !== "allowed") return "denied";
  // Audit mode denies nothing and needs no approval, with or without grants.
  if (decision.enforcement === "audit") return "allowed";
  if (decision.byGrant) return "denied";
  return decision.requireApproval || decision.approvalWaived ? "approval" : "allowed";
}

/** The `decision` of an audit record. */
export function recordDecision(
  decision: Decided,
  { end_user_groups: groups, k8s_force_fields }: Pick<SignRequest, "end_user_groups" | "k8s_force_fields">,
  sent: Partial<Pick<RecordedDecision, "via" | "verified">> = {},
): { readonly decision: string } {
  const live = decision.kind === "allowed" && decision.enforcement !== "audit" &&
    (decision.byGrant || decision.approvalWaived);
  const facts = withoutEmpty({ ...sent, live, forced: k8s_force_fields.length > 0 });
  return { decision: JSON.stringify({ outcome: outcomeOf(decision), groups, ...facts }) };
}

/** Reads the `decision` of an audit record; `undefined` if it is truncated, or has members that this release lacks. */
export function readRecordedDecision(text: string): RecordedDecision | undefined {
  try {
    return recordedDecision.safeParse(parseJson(text)).data;
  } catch {
    return undefined;
  }
}
