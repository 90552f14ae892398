/** Finds contradictions in the answers of several instances, from the view of clients (like Jepsen). */
import type { Attempt, History } from "./history.ts";

/**
 * Certificates that were issued although their subject was frozen: the request began after the freeze was
 * acknowledged, and no unfreeze can have happened in between.
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
        // If no answer arrived, the change may have happened at any time after the request.
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
