import type { Clock, Random } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/service";
import type { ApprovalStatus } from "@gateway/shared/wire";
import type { Approval } from "./approval.ts";
import type { Claim } from "./claim.ts";
import type { FullLimit } from "./pending_count.ts";
import type { Timing } from "./transitions.ts";

/** How a new approval is kept. */
export interface Keeping {
  /** Where others share the store, none of them removes it before; milliseconds since the epoch. */
  readonly keptUntil?: number;
  /**
   * Approvers are to be told of it: until then whoever inserts it sees to that, later anybody who claims it;
   * milliseconds since the epoch. Absent: nobody has to be told.
   */
  readonly notifyUntil?: number;
}

/** The part of the store that keeps approvals. */
export interface ApprovalStore {
  /**
   * The approvals that are not purgeable, the oldest first; unreadable ones are left out with a warning. The others
   * are removed: call it before anything else. Each has its own timeout; the given one is for those that have none.
   */
  loadApprovals(timing: Timing): Promise<readonly Approval[]>;

  /**
   * Keeps a new approval.
   *
   * @throws {AppError} `internal` when it was not kept, also when there is one of its id, or when a text in it
   * could come back shorter than it was
   */
  insertApproval(approval: Approval, keeping?: Keeping): Promise<void>;

  /**
   * Keeps the new states of approvals, of all or of none; nothing else of them changes.
   *
   * @throws {AppError} `internal` when they were not kept, also when there is no approval of such an id; `conflict`
   * and `gone` where another instance has decided or collected one of them
   */
  updateApproval(...approvals: readonly Approval[]): Promise<void>;

  /**
   * Claims the right to have an approval signed, for 30 s by the clock of the database. Absent where no other instance
   * shares the store.
   *
   * @returns false when another instance has claimed it, or when the approval is not there to be collected
   */
  claimCollection?(id: string): Promise<boolean>;

  /** Releases the claim on an approval that was not collected. */
  releaseCollection?(id: string): Promise<void>;

  /** Removes the approvals of these ids that nobody wants kept, in one change. */
  deleteApprovals(ids: readonly string[]): Promise<void>;
}

/** What a registry of approvals works with. */
export interface RegistryOptions {
  /** Stays open when the registry is closed. */
  readonly store: ApprovalStore;
  readonly clock: Clock;
  readonly random: Random;
  /** How long a request waits for its decision, and a decision for its collection. */
  readonly timeoutSeconds: number;
  /** One end user of a caller may have a quarter of it. */
  readonly maxPendingPerCaller: number;
  /** How long this process has to tell approvers of a new request, before others may; 0: nobody has to be told. */
  readonly notifyMs?: number;
  readonly logger: ServiceLogger;
  /** Called for every change that the store could not make (`statedb_errors_total`). */
  readonly onStoreError: () => void;
}

/** What came of a request for approval. */
export type CreateOutcome =
  | {
    readonly kind: "parked";
    readonly approval: Approval;
    /** An identical request waits already, and both are decided as one: nobody has to be told of this one. */
    readonly hasJoined: boolean;
    /** Until when this process sees to it that approvers are told, in milliseconds since the epoch. */
    readonly notifyUntil?: number;
  }
  | ({ readonly kind: "too_many" } & FullLimit);

export type DecideOutcome =
  | {
    readonly kind: "decided";
    readonly approval: Approval;
    /** Identical requests that were not shown to the approver and of which approvers have not been notified. */
    readonly remaining: readonly Approval[];
  }
  | { readonly kind: "unknown" }
  /** The request of this id is not identical to the one that is decided, or is unknown. */
  | { readonly kind: "not_identical"; readonly id: string }
  | { readonly kind: "not_pending"; readonly status: ApprovalStatus }
  | { readonly kind: "self"; readonly approval: Approval };

export interface Claimant {
  readonly caller: string;
  /** The key that the result has to be for, as an authorized_keys line; absent: whatever key was asked for. */
  readonly publicKey?: string | undefined;
}

type Plain<K extends string> = K extends string ? { readonly kind: K } : never;

export type ClaimOutcome =
  | Plain<"unknown" | "not_owner" | "wrong_key" | "pending" | "issuing" | "denied" | "consumed">
  | {
    readonly kind: "expired";
    readonly approval: Approval;
    /** Whether no poll of this process was told so before. */
    readonly isFirst: boolean;
  }
  | { readonly kind: "claimed"; readonly claim: Claim };

export interface WaitOptions {
  readonly ms: number;
  readonly signal: AbortSignal;
}
