/**
 * How old what an instance decides by may be.
 *
 * @module
 */
import type { Clock, Elapsed } from "../clock.ts";

/** An instance that has not looked for so long decides nothing. */
export const MAX_AGE_MS = 2_000;

/** A moment by both clocks. */
export interface Moment {
  readonly elapsed: number;
  readonly clock: number;
}

/**
 * How old what is decided by may be. By two clocks, and the later one counts: one can be set, the other may stand still
 * while the machine sleeps.
 */
export class Freshness {
  readonly #clock: Clock;
  readonly #elapsed: Elapsed;
  #at: Moment | undefined;

  constructor(clock: Clock, elapsed: Elapsed) {
    this.#clock = clock;
    this.#elapsed = elapsed;
  }

  /** The present. Take it before a question is asked: what the answer says was so then or later. */
  now(): Moment {
    return { elapsed: this.#elapsed(), clock: this.#clock.now() };
  }

  /** What is decided by held at a moment. */
  heldAt(moment: Moment): void {
    this.#at = moment;
  }

  /** In milliseconds. */
  get age(): number {
    if (this.#at === undefined) return Infinity;
    const { elapsed, clock } = this.now();
    return Math.max(elapsed - this.#at.elapsed, clock - this.#at.clock);
  }

  /** Whether it may be decided by. */
  get isFresh(): boolean {
    return this.age <= MAX_AGE_MS;
  }
}
