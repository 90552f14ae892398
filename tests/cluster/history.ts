/** The requests of a run and their answers, by the requester's clock. */

export interface Attempt {
  readonly subject: string;
  readonly asked: number;
  /** The time when the answer arrived or the client gave up. */
  readonly ended: number;
  /** `unknown`: the outcome is unknown. */
  readonly result: "done" | "refused" | "unknown";
}

/** A request about an approval, which is the subject. */
export interface ApprovalAttempt extends Attempt {
  readonly step: "park" | "approve" | "deny" | "collect";
  /** The status of the answer; 0: no answer. */
  readonly status: number;
  /** The answer to a collection: the approval is still pending. */
  readonly isPending: boolean;
}

export interface History {
  readonly freezes: readonly Attempt[];
  readonly unfreezes: readonly Attempt[];
  readonly signs: readonly Attempt[];
}
