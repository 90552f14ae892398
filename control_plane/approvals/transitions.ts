import type { ApprovalStatus } from "@gateway/shared/wire";
import { type Approval, hasAskedFor, statusOf } from "./approval.ts";

/** The time, and how long a request waits for its decision, and a decision for its collection. */
export interface Timing {
  /** In milliseconds since the epoch. */
  readonly now: number;
  readonly timeoutMs: number;
}

export interface Verdict {
  readonly approver: string;
  readonly approve: boolean;
  /** Counts only with `approve`; 0: don't learn. */
  readonly learnTtlSeconds: number;
  /** The ids of the identical requests that the approver was shown; absent: only the one that is decided. */
  readonly shown?: readonly string[] | undefined;
  /** What the approver has to say; empty: nothing. */
  readonly comment?: string | undefined;
}

type Decided =
  | { readonly kind: "decided"; readonly approval: Approval }
  /** Who asks never decides. */
  | { readonly kind: "self" }
  | { readonly kind: "not_pending"; readonly status: ApprovalStatus };

/** Decides a pending approval. That nobody decides their own comes first, whatever its status. */
export function decide(
  approval: Approval,
  { approver, approve, learnTtlSeconds, comment, ...timing }: Verdict & Timing,
): Decided {
  if (hasAskedFor(approval, approver)) return { kind: "self" };
  const status = statusOf(approval, timing.now, timing.timeoutMs);
  if (status !== "pending") return { kind: "not_pending", status };
  const decision = {
    by: approver,
    at: timing.now,
    ...(comment !== undefined && comment !== "" && { comment }),
  };
  return {
    kind: "decided",
    approval: {
      ...approval,
      state: approve ? { kind: "approved", ...decision, learnTtlSeconds } : { kind: "denied", ...decision },
    },
  };
}

/** An approved approval after its result was served; `undefined` when it is not an approved one. */
export function consume(approval: Approval): Approval | undefined {
  const { state } = approval;
  return state.kind === "approved" ? { ...approval, state: { ...state, kind: "consumed" } } : undefined;
}

/** Whether nothing is known of an approval any more. A decision made in time can always be collected in time. */
export function isPurgeable({ createdAt }: Approval, { now, timeoutMs }: Timing): boolean {
  return now - createdAt > 2 * timeoutMs;
}
