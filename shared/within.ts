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
  readonly #watch: Watch;

  /** Begins to run at once. */
  constructor(bound: Bound) {
    this.#watch = new Watch(bound, (reason) => this.#ended.abort(reason));
  }

  /** Its reason is the error of the bound. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** Ends timer and listener; the signal stays as it is. */
  [Symbol.dispose](): void {
    this.#watch.stop();
  }
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
  let watch: Watch | undefined;
  try {
    return await new Promise<T>((resolve, reject) => {
      let ended: AbortController | undefined;
      let isOver = false;
      watch = new Watch(bound, (reason) => {
        isOver = true;
        ended?.abort(reason);
        reject(reason);
      });
      let running: Promise<T>;
      if (typeof step !== "function") running = step;
      else if (isOver) return;
      // For those alone who use it: it costs as much as all the rest of the wait.
      else running = step((ended = new AbortController()).signal);
      running.then((result) => isOver ? bound.release?.(result) : resolve(result)).catch(reject);
    });
  } finally {
    watch?.stop();
  }
}

/** Tells once that the time is up, or that the caller's signal is aborted: with the error of the bound. */
class Watch {
  readonly #timer = new AbortController();
  readonly #bound: Bound;
  readonly #onOver: (reason: unknown) => void;

  constructor(bound: Bound, onOver: (reason: unknown) => void) {
    this.#bound = bound;
    this.#onOver = onOver;
    const { clock, ms, signal, late = tookTooLong } = bound;
    signal?.addEventListener("abort", this.#abort, { once: true });
    if (signal?.aborted) this.#abort();
    else if (ms !== undefined) clock.sleep(ms, this.#timer.signal).then(() => onOver(late()), () => {});
  }

  stop(): void {
    this.#timer.abort(OVER);
    this.#bound.signal?.removeEventListener("abort", this.#abort);
  }

  readonly #abort = (): void => {
    const { signal, aborted = (reason) => reason } = this.#bound;
    this.#timer.abort(OVER);
    this.#onOver(aborted(signal?.reason));
  };
}

function tookTooLong(): DOMException {
  return new DOMException("The wait took too long", "TimeoutError");
}
