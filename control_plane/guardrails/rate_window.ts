/** How far back requests count, in milliseconds. */
export const WINDOW_MS = 60_000;

/** Up to this limit requests are counted to the millisecond. */
const FINE_LIMIT = 600;

/** Above it, in steps: a request then counts for up to this much longer than the window. */
const COARSE_MS = WINDOW_MS / FINE_LIMIT;

/** What one more request means for the rate. */
export interface RateFinding {
  readonly exceeded: boolean;
  /** When exceeded: how long until a request can pass again, if none is made until then. Else 0. */
  readonly retryAfterMs: number;
}

/**
 * The requests of the last minute. Refused ones count as well, so that hammering does not help; a request that
 * is a minute old does not. Whatever the rate and the limit, it holds at most 602 moments: what lies further
 * back than the newest `limit` requests can't change an answer any more.
 */
export class RateWindow {
  readonly #limit: number;
  readonly #stepMs: number;
  /** Ascending, and beside each how many requests were made then. */
  readonly #times: number[] = [];
  readonly #counts: number[] = [];
  #total = 0;

  /** The limit is a positive number of requests in a minute. */
  constructor(limit: number) {
    this.#limit = limit;
    this.#stepMs = limit <= FINE_LIMIT ? 1 : COARSE_MS;
  }

  get size(): number {
    return this.#times.length;
  }

  /** Counts a request made now, in milliseconds; `now` never goes back. */
  record(now: number): RateFinding {
    while ((this.#times[0] ?? Infinity) <= now - WINDOW_MS) this.#dropOldest();
    const time = Math.ceil(now / this.#stepMs) * this.#stepMs;
    if (this.#times.at(-1) !== time) {
      this.#times.push(time);
      this.#counts.push(0);
    }
    this.#counts.push((this.#counts.pop() ?? 0) + 1);
    this.#total++;
    const exceeded = this.#total > this.#limit;
    while (this.#total - (this.#counts[0] ?? 0) >= this.#limit) this.#dropOldest();
    // Without the oldest moment fewer than the limit are left.
    return { exceeded, retryAfterMs: exceeded ? (this.#times[0] ?? now) + WINDOW_MS - now : 0 };
  }

  #dropOldest(): void {
    this.#times.shift();
    this.#total -= this.#counts.shift() ?? 0;
  }
}
