import type { Epochs, InstanceLink, Shared } from "@gateway/shared/instances";
import type { Approval } from "../approval/approval.ts";
import type { Timing } from "../approval/transitions.ts";

/** What the guardrails know of one subject. */
export interface StoredBaseline {
  readonly subject: string;
  /** In milliseconds since the epoch. */
  readonly lastSeen: number;
  readonly hosts: readonly string[];
  readonly commands: readonly string[];
}

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

/** Which notifications an instance takes over. */
export interface NotificationClaim {
  /** Those that somebody was to send before now, in milliseconds since the epoch. */
  readonly now: number;
  /** Until then nobody else sends them. */
  readonly until: number;
  /** How many at most, those that have waited longest. */
  readonly limit: number;
}

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
export interface ControlStore {
  /** Whether what is kept outlives the process. */
  readonly survivesRestart: boolean;

  /** Present where other instances may change it too: each change of an approval is made by one of them then. */
  readonly shared?: SharedApprovals;

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

  /**
   * Takes over notifications of pending approvals that nobody sends any more, each for one of those that ask at the
   * same time.
   *
   * @returns their ids
   */
  claimNotifications(claim: NotificationClaim): Promise<readonly string[]>;

  /** Notes that approvers were told of an approval, or that this is given up. */
  endNotification(id: string): Promise<void>;

  /** All baselines; unreadable ones are left out with a warning. */
  loadBaselines(): Promise<readonly StoredBaseline[]>;

  /** The baseline of a subject that another process may have put; absent where no other shares the store. */
  findBaseline?(subject: string): Promise<StoredBaseline | undefined>;

  /**
   * Keeps a baseline, in the place of an older one of its subject; what another instance has put since is kept with it.
   *
   * @throws {AppError} `internal` when it was not kept
   */
  putBaseline(baseline: StoredBaseline): Promise<void>;

  /** Removes the baselines of these subjects, in one change, unless another instance has put one since. */
  deleteBaselines(subjects: readonly string[]): Promise<void>;

  /** Releases the store; it can't be used any more. */
  close(): Promise<void>;
}
