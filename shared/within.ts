/**
 * Waiting that always ends: with the result, when the time is up, or when a signal is aborted. The time is that of
 * an injected clock, and neither a timer nor a listener is left behind.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { FakeClock } from "@gateway/shared/testing/fake_clock";
 * import { within } from "@gateway/shared/within";
 *
 * const clock = new FakeClock();
 * const late = () => new Error("too late");
 * const never = within({ clock, ms: 10_000, late }, () => new Promise<void>(() => {}));
 * const [result] = await Promise.allSettled([never, clock.advance(10_000)]);
 * assert.equal(result.status, "rejected");
 * ```
 *
 * @module
 */
import type { Clock } from "./clock.ts";

/** What ends a wait before its result is there. */
export interface Bound {
  /** Whose time counts. */
  readonly clock: Clock;
  /** How long it may take, in milliseconds; absent is as long as the signal allows. */
  readonly ms?: number | undefined;
  /** The caller's own wish to end it. */
  readonly signal?: AbortSignal | undefined;
  /** The error when the time is up; by default a `DOMException` with the name `TimeoutError`. */
  readonly late?: () => unknown;
  /** The error when the signal is aborted; by default the signal's reason. */
  readonly aborted?: (reason: unknown) => unknown;
}

/** A {@linkcode Bound} on a step with a result that somebody has to release. */
export interface StepBound<T> extends Bound {
  /** Gets a result that comes when the wait is over, such as a connection to close. What it throws is dropped. */
  readonly release?: (result: T) => unknown;
}

/** Given to every timer that is no longer needed: an error would be made with a stack that nobody reads. */
const OVER = "over";

/**
 * A signal that is aborted when the time is up or the caller's signal is, for what has to wind up by itself. It
 * takes a timer and a listener until it is disposed of.
 */
export class Deadline implements Disposable {
  readonly #ended = new AbortController();
  readonly #timer = new AbortController();
  readonly #bound: Bound;

  /** Begins to run at once. */
  constructor(bound: Bound) {
    this.#bound = bound;
    const { clock, ms, signal, late = tookTooLong } = bound;
    signal?.addEventListener("abort", this.#abort, { once: true });
    if (signal?.aborted) this.#abort();
    else if (ms !== undefined) {
      clock.sleep(ms, this.#timer.signal).then(() => this.#ended.abort(late()), () => {});
    }
  }

  /** Its reason is the error of the bound. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** Ends timer and listener; the signal stays as it is. */
  [Symbol.dispose](): void {
    this.#timer.abort(OVER);
    this.#bound.signal?.removeEventListener("abort", this.#abort);
  }

  readonly #abort = (): void => {
    const { signal, aborted = (reason) => reason } = this.#bound;
    this.#timer.abort(OVER);
    this.#ended.abort(aborted(signal?.reason));
  };
}

/**
 * Waits for the result of a step, as long as its bound allows. The wait is over then even when the step does not
 * heed its signal: a result that comes later is released, and a failure dropped.
 *
 * @param step is not begun when the signal is aborted already; it gets a signal that is aborted with the wait. One
 * that is under way keeps running, and its owner ends it
 * @throws what the step throws, or the error of the bound
 */
export async function within<T>(
  bound: StepBound<T>,
  step: Promise<T> | ((signal: AbortSignal) => Promise<T>),
): Promise<T> {
  using deadline = new Deadline(bound);
  const { signal } = deadline;
  if (typeof step === "function") signal.throwIfAborted();
  const running = typeof step === "function" ? step(signal) : step;
  return await new Promise<T>((resolve, reject) => {
    const end = () => reject(signal.reason);
    signal.addEventListener("abort", end, { once: true });
    running.then((result) => {
      if (!signal.aborted) return resolve(result);
      return bound.release?.(result);
    }).catch(reject);
    if (signal.aborted) end();
  });
}

function tookTooLong(): DOMException {
  return new DOMException("The wait took too long", "TimeoutError");
}
