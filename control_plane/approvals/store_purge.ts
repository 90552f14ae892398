import type { Clock } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/service";

/** How many approvals are removed from the store in one change, while requests wait. */
const BATCH = 200;

/** What a {@linkcode StorePurge} needs. */
interface StorePurgeOptions {
  readonly remove: (ids: readonly string[]) => Promise<void>;
  /** The longest time between two purges, in milliseconds, while something happens. */
  readonly everyMs: number;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
}

/** Removes from the store what is forgotten: now and then, because what is left there is not loaded either. */
export class StorePurge {
  readonly #options: StorePurgeOptions;
  #running: Promise<void> = Promise.resolve();
  #nextAt = -Infinity;

  constructor(options: StorePurgeOptions) {
    this.#options = options;
  }

  /** Whether it is time, or so much was forgotten that it does not have to be. */
  isDue(now: number, forgotten: number): boolean {
    return now >= this.#nextAt || forgotten >= BATCH;
  }

  /** Removes approvals, after those that are being removed. */
  run(ids: readonly string[], now: number): void {
    this.#nextAt = now + this.#options.everyMs;
    if (ids.length > 0) this.#running = this.#running.then(() => this.#remove(ids));
  }

  /** Resolves when nothing is being removed any more. Never rejects. */
  ended(): Promise<void> {
    return this.#running;
  }

  async #remove(ids: readonly string[]): Promise<void> {
    const { remove, clock, logger } = this.#options;
    try {
      for (let from = 0; from < ids.length; from += BATCH) {
        // Requests come in between.
        if (from > 0) await clock.sleep(0);
        await remove(ids.slice(from, from + BATCH));
      }
    } catch (error) {
      logger.warn("Cannot remove old approvals from the state store", { error });
    }
  }
}
