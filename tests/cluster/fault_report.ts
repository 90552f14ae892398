/** The report of a run with faults. */
import type { FaultCounts } from "./faults.ts";
import type { Attempt } from "./history.ts";
import type { Workload } from "./workload.ts";

/** Upper limits of the histogram buckets in milliseconds. */
const BUCKETS = [5, 10, 20, 50, 100, 250, 500, 1_000, 2_500, 5_000, Infinity] as const;
const BAR = 40;

/** Faults by kind, answers by kind, and the duration of acknowledged freezes. */
export function formatReport(workload: Workload, faults: FaultCounts): string {
  const { freezes, unfreezes, signs, approvals, grants, revoked } = workload;
  const steps = (step: string) => approvals.filter((each) => each.step === step);
  const asked: readonly (readonly [string, readonly Attempt[]])[] = [
    ["freeze", freezes],
    ["unfreeze", unfreezes],
    ["sign", signs],
    ["decide", [...steps("approve"), ...steps("deny")]],
    ["collect", steps("collect")],
  ];
  const times = freezes.filter(({ result }) => result === "done").map(({ asked, ended }) => ended - asked);
  return [
    ...[...faults].toSorted().map(([name, count]) => `${String(count).padStart(6)}  ${name}`),
    "",
    ...asked.map(([name, attempts]) => `${name.padEnd(9)}${formatResults(attempts)}`),
    `${grants.size} grants kept, ${revoked.size} taken back`,
    "",
    "freezes by the time until they were acknowledged:",
    ...formatHistogram(times),
  ].join("\n");
}

function formatResults(attempts: readonly Attempt[]): string {
  const count = (result: Attempt["result"]) => attempts.filter((each) => each.result === result).length;
  return (["done", "refused", "unknown"] as const).map((result) =>
    `${String(count(result)).padStart(8)} ${result}`
  ).join("");
}

function formatHistogram(times: readonly number[]): readonly string[] {
  const counts = BUCKETS.map((end, index) =>
    times.filter((ms) => ms <= end && ms > (BUCKETS[index - 1] ?? -1)).length
  );
  const most = Math.max(1, ...counts);
  return BUCKETS.map((end, index) => {
    const count = counts[index] ?? 0;
    const label = end === Infinity ? "  longer" : `<=${String(end).padStart(5)}ms`.slice(0, 9);
    return `${label.padEnd(10)}${String(count).padStart(6)} ${"#".repeat(Math.ceil(BAR * count / most))}`;
  });
}
