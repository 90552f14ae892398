import type { Epochs, InstanceLink, Shared } from "@gateway/shared/instances";
import type { Approval } from "../approvals/approval.ts";
import type { ApprovalStore } from "../approvals/outcomes.ts";
import type { Timing } from "../approvals/transitions.ts";
import type { BaselineStore } from "../guardrails/baseline_writer.ts";
import type { NotificationStore } from "../notify/outbox.ts";

export interface SharedApprovals extends Shared {
  /** Those that are not purgeable, the oldest first, as they were at one moment. */
  load(
    link: InstanceLink,
    timing: Timing,
  ): Promise<{ readonly epochs: Epochs; readonly approvals: readonly Approval[] }>;
}

/**
 * Keeps approvals and baselines for the next start. Every change is all or nothing, and committed when its
 * promise resolves: a process killed later does not lose it. A change that rejects has not been made, as far
 * as the store can tell. Times are kept to the millisecond.
 */
export interface ControlStore extends ApprovalStore, NotificationStore, BaselineStore {
  /** Present where other instances may change it too: each change of an approval is made by one of them then. */
  readonly shared?: SharedApprovals;

  /** Releases the store; it can't be used any more. */
  close(): Promise<void>;
}
