/** What a run has asked for and was told, by the clock of whoever asked. */

export interface Attempt {
  readonly subject: string;
  readonly asked: number;
  /** When the answer was there, or the request was given up. */
  readonly ended: number;
  /** `unknown`: nobody knows whether it was done. */
  readonly result: "done" | "refused" | "unknown";
}

/** A request about an approval, which is the subject. */
export interface ApprovalAttempt extends Attempt {
  readonly step: "park" | "approve" | "deny" | "collect";
  /** Of the answer; 0: there was none. */
  readonly status: number;
  /** Of a collection that was told to wait: nobody has decided yet. */
  readonly isPending: boolean;
}

export interface History {
  readonly freezes: readonly Attempt[];
  readonly unfreezes: readonly Attempt[];
  readonly signs: readonly Attempt[];
}
