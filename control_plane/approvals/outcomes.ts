import type { Clock, Random } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/service";
import type { ApprovalStatus, SignRequest } from "@gateway/shared/wire";
import type { Approval, Timing } from "./approval.ts";

/** How a new approval is kept. Times are milliseconds since the epoch. */
export interface RetentionOptions {
  /** No instance that shares the store removes the approval before this time. */
  readonly keptUntil?: number;
  /**
   * Until this time, only the inserting instance notifies approvers. Later, any instance can claim the
   * notification.
   */
  readonly notifyUntil?: number;
}

/** The part of the store that keeps approvals. */
export interface ApprovalStore {
  /**
   * Removes the purgeable approvals and loads the others, the oldest first; unreadable ones are left out with a
   * warning. The timeout is for approvals without their own.
   */
  loadApprovals(timing: Timing): Promise<readonly Approval[]>;

  /** @throws {AppError} `internal` if the approval was not kept, or if the store could truncate a text in it */
  insertApproval(approval: Approval, keeping?: RetentionOptions): Promise<void>;

  /**
   * Stores the new states of all approvals or of none.
   *
   * @throws {AppError} `internal` if they were not kept or an ID is unknown; `conflict` and `gone` if another
   * instance has decided or collected one of them
   */
  updateApproval(...approvals: readonly Approval[]): Promise<void>;

  /** Claims the collection of an approval for 30 s, unless another instance has; absent without other instances. */
  claimCollection?(id: string): Promise<boolean>;

  releaseCollection?(id: string): Promise<void>;

  /** Removes approvals in one change, except approvals that another instance still needs. */
  deleteApprovals(ids: readonly string[]): Promise<void>;
}

export interface RegistryOptions {
  /** The store. Closing the registry does not close it. */
  readonly store: ApprovalStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly timeoutSeconds: number;
  readonly maxPendingPerCaller: number;
  /** The time that this process has to notify approvers; 0: no notification. */
  readonly notifyMs?: number;
  readonly logger: ServiceLogger;
  /** Called for every change that the store could not save (`statedb_errors_total`). */
  readonly onStoreError: () => void;
}

export type CreateOutcome =
  | {
    readonly kind: "parked";
    readonly approval: Approval;
    /** An identical request is already pending. One decision applies to both, so there is no notification. */
    readonly hasJoined: boolean;
    readonly notifyUntil?: number;
  }
  | { readonly kind: "too_many"; readonly limit: number; readonly of: "caller" | "end user" };

export type DecideOutcome =
  | {
    readonly kind: "decided";
    readonly approval: Approval;
    /** Identical requests that the approver was not shown and that approvers have not been notified of. */
    readonly remaining: readonly Approval[];
  }
  | { readonly kind: "unknown" | "outdated" }
  | { readonly kind: "not_identical"; readonly id: string }
  | { readonly kind: "not_pending"; readonly status: ApprovalStatus }
  | { readonly kind: "self"; readonly approval: Approval };

type Plain<K extends string> = K extends string ? { readonly kind: K } : never;

export type ClaimOutcome =
  | Plain<"unknown" | "not_owner" | "wrong_key" | "pending" | "issuing" | "denied" | "consumed">
  /** `isFirst`: no earlier poll of this process received this answer. */
  | { readonly kind: "expired"; readonly approval: Approval; readonly isFirst: boolean }
  | { readonly kind: "claimed"; readonly claim: Claim };

/**
 * The right to have an approved request signed. Only one poll holds it at a time, and releases it when the
 * poll ends.
 */
export interface Claim {
  readonly approval: Approval;
  /** The stored request, with the end user's token if this process still has it. */
  readonly request: SignRequest;
  /**
   * Claims the approval in the store, so that no other control plane signs it at the same time.
   *
   * @returns false if another control plane has claimed or collected it; the claim has then ended
   */
  enter(): Promise<boolean>;
  /**
   * Marks the approval as collected: first in the audit log, then in the store, then in memory. The result
   * may be released afterwards. If this rejects, the approval can be collected again.
   */
  consume(audit: () => Promise<void>): Promise<void>;
  /** Releases an approval that was not consumed. */
  release(): void;
}
