/** Looks for a contradiction in what several instances acknowledged, seen from outside (as Jepsen does). */
import type { Attempt, History } from "./history.ts";

/**
 * Certificates that came though their subject was frozen: the request was begun after a freeze was acknowledged, and
 * no unfreeze can have come between.
 */
export function findContradictions({ freezes, unfreezes, signs }: History): readonly string[] {
  const [frozen, unfrozen] = [Map.groupBy(freezes, subjectOf), Map.groupBy(unfreezes, subjectOf)];
  const found: string[] = [];
  for (const sign of signs) {
    if (sign.result !== "done") continue;
    const { subject, asked, ended } = sign;
    const lifted = unfrozen.get(subject) ?? [];
    const freeze = (frozen.get(subject) ?? []).find((each) =>
      each.result === "done" && each.ended < asked &&
      !lifted.some((other) =>
        other.result !== "refused" && other.asked < ended &&
        // One whose answer never came may have been done at any time after it was asked for.
        (other.result === "unknown" || other.ended > each.asked)
      )
    );
    if (freeze === undefined) continue;
    found.push(
      `${subject}: frozen at ${freeze.ended.toFixed(0)} ms, a certificate asked for at ` +
        `${asked.toFixed(0)} ms came at ${ended.toFixed(0)} ms`,
    );
  }
  return found;
}

function subjectOf({ subject }: Attempt): string {
  return subject;
}
