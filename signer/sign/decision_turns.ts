import type { Clock, Steps } from "@gateway/shared/clock";

/** How long decisions compute before other requests are answered, in milliseconds. */
const SLICE_MS = 1;

/** For how long, in milliseconds. */
const PAUSE_MS = 1;

/** Computes a while; returns whether the decision is there. */
type Decision = (isOver: () => boolean) => boolean;

/**
 * Computes decisions in slices, the callers in turn: a caller with many or long commands delays neither the decisions of
 * other callers nor the routes that decide nothing, such as freeze.
 */
export class DecisionTurns {
  readonly #clock: Clock;
  /** By caller; the first is next. */
  readonly #waiting = new Map<string, Decision[]>();
  #isServing = false;

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** The result of the steps, once the caller's turns have finished them. */
  run<T>(caller: string, steps: Steps<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const decision: Decision = (isOver) => {
        try {
          for (;;) {
            const step = steps.next();
            if (step.done === true) resolve(step.value);
            if (step.done === true || isOver()) return step.done === true;
          }
        } catch (error) {
          reject(error);
          return true;
        }
      };
      const own = this.#waiting.get(caller);
      if (own === undefined) this.#waiting.set(caller, [decision]);
      else own.push(decision);
      if (!this.#isServing) void this.#serve();
    });
  }

  async #serve(): Promise<void> {
    this.#isServing = true;
    let from = this.#clock.now();
    // The clock may be set back.
    const isOver = () => Math.abs(this.#clock.now() - from) >= SLICE_MS;
    for (;;) {
      const [next] = this.#waiting;
      if (next === undefined) break;
      const [caller, decisions] = next;
      if (decisions[0]?.(isOver) === true) decisions.shift();
      this.#waiting.delete(caller);
      if (decisions.length > 0) this.#waiting.set(caller, decisions);
      if (!isOver()) continue;
      await this.#clock.sleep(PAUSE_MS);
      from = this.#clock.now();
    }
    this.#isServing = false;
  }
}
