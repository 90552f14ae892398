/** Finds contradictions in the answers of several control planes about approvals. */
import type { ApprovalAttempt } from "./history.ts";

/**
 * Contradictions as sentences of the report. Empty if one control plane without failures could have given all
 * answers.
 */
export function findApprovalContradictions(attempts: readonly ApprovalAttempt[]): readonly string[] {
  const byId = new Map<string, ApprovalAttempt[]>();
  for (const attempt of attempts) {
    const known = byId.get(attempt.subject);
    if (known === undefined) byId.set(attempt.subject, [attempt]);
    else known.push(attempt);
  }
  return [...byId].flatMap(([id, own]) => findOf(own).map((what) => `approval ${id}: ${what}`));
}

function findOf(attempts: readonly ApprovalAttempt[]): readonly string[] {
  const found: string[] = [];
  const of = (step: ApprovalAttempt["step"]) => attempts.filter((attempt) => attempt.step === step);
  const [collects, approvals, denials] = [of("collect"), of("approve"), of("deny")];
  const decisions = [...approvals, ...denials];
  const isDone = ({ result }: ApprovalAttempt) => result === "done";
  const mayBe = ({ result }: ApprovalAttempt) => result !== "refused";
  const decided = decisions.filter(isDone);
  const collected = collects.filter(isDone);
  if (collected.length > 1) found.push(`collected ${collected.length} times`);
  if (decided.length > 1) found.push(`decided ${decided.length} times`);
  if (collected.length > 0 && denials.some(isDone)) found.push("collected, and denied");
  for (const { asked, ended, status, isPending } of collects) {
    if (status === 200 && !approvals.some((each) => mayBe(each) && each.asked < ended)) {
      found.push("collected, and nobody approved it");
    }
    if (status === 410 && !collects.some((each) => mayBe(each) && each.asked < ended)) {
      found.push("used up, and nobody collected it");
    }
    if (status === 403 && !denials.some((each) => mayBe(each) && each.asked < ended)) {
      found.push("refused as denied, and nobody denied it");
    }
    if (status === 404) found.push("unknown, though it was parked");
    if (status === 408) found.push("expired before its time");
    if (isPending && decided.some((each) => each.ended < asked)) {
      found.push("undecided, though it was decided");
    }
  }
  for (const { status, ended } of decisions) {
    if (status === 409 && !decisions.some((each) => mayBe(each) && each.asked < ended)) {
      found.push("not pending, and nobody decided it");
    }
  }
  return found;
}
