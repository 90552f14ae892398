import type { Clock, Random } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/service";
import type { ApprovalStatus } from "@gateway/shared/wire";
import type { ControlStore } from "../state/store.ts";
import type { Approval } from "./approval.ts";
import type { Claim } from "./claim.ts";
import type { FullLimit } from "./pending_count.ts";

/** What a registry of approvals works with. */
export interface RegistryOptions {
  /** Stays open when the registry is closed. */
  readonly store: ControlStore;
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
