import { AppError } from "@gateway/shared/errors";
import { canceledBy } from "../request/records.ts";

/** How many may do something at once, and how many more may wait for it. */
interface TurnLimits {
  readonly atOnce: number;
  readonly waiting: number;
}

/** Lets so many in at once, the others in the order in which they came. */
export class Turns {
  readonly #limits: TurnLimits;
  readonly #waiting: (() => void)[] = [];
  #taken = 0;

  constructor(limits: TurnLimits) {
    this.#limits = limits;
  }

  /**
   * Waits for a turn, which ends when it is disposed of.
   *
   * @throws {AppError} `rate_limited` when too many wait already, what the signal says when it is aborted first
   */
  async take(signal: AbortSignal): Promise<Disposable> {
    if (this.#taken < this.#limits.atOnce) this.#taken += 1;
    else await this.#wait(signal);
    return { [Symbol.dispose]: () => this.#pass() };
  }

  #wait(signal: AbortSignal): Promise<void> {
    if (this.#waiting.length >= this.#limits.waiting) {
      throw new AppError(
        "rate_limited",
        `too many commands wait in this session already (limit: ${this.#limits.waiting})`,
      );
    }
    return new Promise((resolve, reject) => {
      const leave = () => {
        const at = this.#waiting.indexOf(enter);
        if (at >= 0) this.#waiting.splice(at, 1);
        reject(canceledBy(signal));
      };
      const enter = () => {
        signal.removeEventListener("abort", leave);
        resolve();
      };
      if (signal.aborted) return leave();
      signal.addEventListener("abort", leave, { once: true });
      this.#waiting.push(enter);
    });
  }

  /** The turn goes to who has waited longest, without being free in between. */
  #pass(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#taken -= 1;
    else next();
  }
}
