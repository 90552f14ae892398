/**
 * Time as a parameter: code that reads the clock or waits takes a {@linkcode Clock}.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { systemClock } from "@gateway/shared/clock";
 *
 * assert.ok(systemClock.now() > 1_700_000_000_000);
 * ```
 *
 * @module
 */

/** A source of time that can wait. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /**
   * Waits.
   *
   * @param ms how long, in milliseconds
   * @param signal ends the wait early
   * @throws the signal's reason when it is aborted, before or during the wait
   */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** Milliseconds since some moment: time that nobody can set. It may stand still while the machine sleeps. */
export type Elapsed = () => number;

/** The machine's. */
export function systemElapsed(): number {
  return performance.now();
}

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  sleep(ms, signal) {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const onAbort = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      }, ms);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  },
};

/** Resolves when everything has run that is ready now, such as requests that have arrived. */
export function endOfTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/** A task that {@linkcode every} runs; it handles its own failures. */
export type PeriodicTask = (signal: AbortSignal) => Promise<void> | void;

/** When {@linkcode every} runs what. */
export interface PeriodicOptions {
  /** Measures the pauses. */
  readonly clock: Clock;
  /** The pause between the end of one run and the start of the next, in seconds. */
  readonly seconds: number;
  /** Ends the repetition, also while it waits. */
  readonly signal: AbortSignal;
}

/**
 * Runs a task again and again, first after one pause, never two at once. Resolves when the signal is
 * aborted. A task that throws ends the repetition with its error: let it handle what it expects.
 */
export async function every(options: PeriodicOptions, task: PeriodicTask): Promise<void> {
  const { clock, seconds, signal } = options;
  while (!signal.aborted) {
    try {
      await clock.sleep(seconds * 1000, signal);
    } catch (error) {
      if (signal.aborted) return;
      throw error;
    }
    await task(signal);
  }
}
