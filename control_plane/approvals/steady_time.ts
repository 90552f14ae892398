import type { Clock } from "@gateway/shared/clock";

/**
 * Time that never goes back. When the clock is set back it stands still for that moment and runs on from
 * there, so that nobody stays blocked until the clock has caught up, and nothing is forgotten or allowed early.
 */
export class SteadyTime {
  readonly #clock: Clock;
  #readAt: number;
  #now: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#readAt = this.#now = clock.now();
  }

  /** Milliseconds; equal to the clock as long as that was never set back. */
  now(): number {
    const readAt = this.#clock.now();
    this.#now += Math.max(0, readAt - this.#readAt);
    this.#readAt = readAt;
    return this.#now;
  }

  /** What the clock showed, or would have, at a moment of this time. */
  onClock(moment: number): number {
    return this.#readAt - (this.#now - moment);
  }

  /** The moment of this time at which the clock showed so; what it has not shown yet is now. */
  at(shown: number): number {
    return Math.min(this.#now, this.#now - (this.#readAt - shown));
  }
}
