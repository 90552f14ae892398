/** Looks for a contradiction in what several instances acknowledged, seen from outside (as Jepsen does). */

/** A request, by the test's own clock. */
export interface Attempt {
  readonly subject: string;
  readonly asked: number;
  /** When the answer was there, or the request was given up. */
  readonly ended: number;
  /** `unknown`: nobody knows whether it was done. */
  readonly result: "done" | "refused" | "unknown";
}

/** What was asked in one run. */
export interface History {
  readonly freezes: readonly Attempt[];
  readonly unfreezes: readonly Attempt[];
  /** `done`: a certificate came. */
  readonly signs: readonly Attempt[];
}

/**
 * Certificates that came though their subject was frozen: the request was begun after a freeze was acknowledged, and
 * no unfreeze can have come between.
 */
export function findContradictions({ freezes, unfreezes, signs }: History): readonly string[] {
  const found: string[] = [];
  for (const sign of signs) {
    if (sign.result !== "done") continue;
    const freeze = freezes.find((each) =>
      each.subject === sign.subject && each.result === "done" && each.ended < sign.asked &&
      !unfreezes.some((other) =>
        other.subject === each.subject && other.result !== "refused" && other.asked < sign.ended &&
        // One whose answer never came may have been done at any time after it was asked for.
        (other.result === "unknown" || other.ended > each.asked)
      )
    );
    if (freeze === undefined) continue;
    found.push(
      `${sign.subject}: frozen at ${freeze.ended.toFixed(0)} ms, a certificate asked for at ` +
        `${sign.asked.toFixed(0)} ms came at ${sign.ended.toFixed(0)} ms`,
    );
  }
  return found;
}
