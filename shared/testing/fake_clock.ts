/**
 * A clock that moves only when a test advances it.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { FakeClock } from "@gateway/shared/testing";
 *
 * const clock = new FakeClock(1000);
 * const slept = clock.sleep(500).then(() => clock.now());
 * await clock.advance(2000);
 * assert.equal(await slept, 1500);
 * assert.equal(clock.now(), 3000);
 * ```
 *
 * @module
 */
import type { Clock } from "../clock.ts";

interface Sleeper {
  readonly dueMs: number;
  readonly wake: () => void;
}

/** A {@linkcode Clock} under the control of a test. */
export class FakeClock implements Clock {
  #nowMs: number;
  readonly #sleepers = new Set<Sleeper>();

  /** Starts at the given time, in milliseconds since the epoch; by default 2026-01-02T03:04:05Z. */
  constructor(startMs: number = Date.UTC(2026, 0, 2, 3, 4, 5)) {
    this.#nowMs = startMs;
  }

  /** The number of waiting calls of {@linkcode FakeClock.sleep}. */
  get sleeping(): number {
    return this.#sleepers.size;
  }

  now(): number {
    return this.#nowMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const onAbort = () => {
        this.#sleepers.delete(sleeper);
        reject(signal?.reason);
      };
      const wake = () => {
        this.#sleepers.delete(sleeper);
        signal?.removeEventListener("abort", onAbort);
        resolve();
      };
      const sleeper = { dueMs: this.#nowMs + ms, wake };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#sleepers.add(sleeper);
    });
  }

  /**
   * Advances the time. It stops at each sleeper that is due and lets it run before the next one. A negative
   * step simulates an operator who sets the clock back.
   */
  async advance(ms: number): Promise<void> {
    const end = this.#nowMs + ms;
    await settle();
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) {
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      next.wake();
      await settle();
    }
    this.#nowMs = end;
  }

  #next(end: number): Sleeper | undefined {
    return [...this.#sleepers].filter(({ dueMs }) => dueMs <= end).sort((a, b) => a.dueMs - b.dueMs)[0];
  }
}

/** Runs the continuations of all resolved promises, including promises that these resolve. */
function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
