/**
 * Long computations that others can get a word in: a generator that yields where it may pause, and who runs it
 * decides whether it does. The computation itself knows no clock.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { finish, type Steps } from "@gateway/shared/steps";
 *
 * function* add(numbers: readonly number[]): Steps<number> {
 *   let sum = 0;
 *   for (const number of numbers) {
 *     sum += number;
 *     yield;
 *   }
 *   return sum;
 * }
 * assert.equal(finish(add([1, 2, 3])), 6);
 * ```
 *
 * @module
 */
import type { Clock } from "./clock.ts";

/** A computation in steps of well under a millisecond each, with its result at the end. */
export type Steps<T> = Generator<void, T, void>;

/** How long a computation runs before it lets others run, in milliseconds. */
const SLICE_MS = 1;

/** For how long, in milliseconds: a request takes several turns of the event loop, and each must not wait a slice. */
const PAUSE_MS = 1;

/**
 * Runs a computation without a pause.
 *
 * @throws what the computation throws
 */
export function finish<T>(steps: Steps<T>): T {
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return step.value;
}

/**
 * Runs a computation in slices of a millisecond or two; between them requests are answered.
 *
 * @throws what the computation throws
 */
export async function finishInSlices<T>(steps: Steps<T>, clock: Clock): Promise<T> {
  let from = clock.now();
  let step = steps.next();
  while (step.done !== true) {
    if (clock.now() - from >= SLICE_MS) {
      await clock.sleep(PAUSE_MS);
      from = clock.now();
    }
    step = steps.next();
  }
  return step.value;
}
