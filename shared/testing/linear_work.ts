/**
 * Checks that work grows at most linearly with the input, by CPU time instead of elapsed time.
 *
 * ```ts
 * import { assertLinearWork } from "@gateway/shared/testing";
 *
 * assertLinearWork((size) => "a".repeat(size).toUpperCase(), 100_000);
 * ```
 *
 * @module
 */
import assert from "node:assert/strict";
import { threadCpuUsage } from "node:process";

const FACTOR = 8;
/** Linear work grows 8 times, quadratic work 64 times. This factor is their geometric mean. */
const MAX_GROWTH = 23;
/** The system counts CPU time in steps of 10 ms, so measure several steps. */
const MEASURED_MS = 60;
const ATTEMPTS = 3;

/**
 * Asserts that eight times the size takes at most about eight times the work. Work is the CPU time of this
 * thread, so that other programs on the machine do not affect it.
 *
 * @param run does the work for an input of that size
 * @param size the larger of the two sizes
 */
export function assertLinearWork(run: (size: number) => void, size: number): void {
  const growths: number[] = [];
  while (growths.length < ATTEMPTS) {
    const growth = workOf(() => run(size)) / workOf(() => run(Math.ceil(size / FACTOR)));
    if (growth <= MAX_GROWTH) return;
    growths.push(Math.round(growth));
  }
  assert.fail(`${FACTOR} times the size took ${growths.join(", then ")} times the work`);
}

/** CPU time of one run in milliseconds, averaged over enough runs to be measurable. */
function workOf(run: () => void): number {
  // The first run includes compilation: do not measure it.
  run();
  const start = cpuMs();
  for (let runs = 1;; runs++) {
    run();
    const spent = cpuMs() - start;
    if (spent >= MEASURED_MS) return spent / runs;
  }
}

function cpuMs(): number {
  const { user, system } = threadCpuUsage();
  return (user + system) / 1000;
}
