/**
 * Changes that must not overlap: one after another, in the order in which they were asked for.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { ChangeLock } from "@gateway/shared/state";
 *
 * const lock = new ChangeLock();
 * const log: string[] = [];
 * const slow = lock.run(async () => {
 *   await Promise.resolve();
 *   log.push("slow");
 * });
 * const quick = lock.run(async () => void log.push("quick"));
 * await Promise.all([slow, quick]);
 * assert.deepEqual(log, ["slow", "quick"]);
 * ```
 *
 * @module
 */

/** Lets changes to one thing run one after another. What only reads never takes it. */
export class ChangeLock {
  #last: Promise<unknown> = Promise.resolve();

  /**
   * Runs a change when all earlier ones have ended, however they ended. It must not ask for the lock again.
   *
   * @throws what the change throws
   */
  run<T>(change: () => Promise<T>): Promise<T> {
    const result = this.#last.then(change);
    this.#last = result.catch(() => undefined);
    return result;
  }
}
