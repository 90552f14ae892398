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
type PeriodicTask = (signal: AbortSignal) => Promise<void> | void;

/** When {@linkcode every} runs what. */
interface PeriodicOptions {
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

/** A source of unpredictable bytes. */
export interface Random {
  /** So many fresh random bytes. */
  bytes(length: number): Uint8Array;
}

/** The operating system's generator. */
export const systemRandom: Random = {
  bytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
};

/** An unsigned 64-bit number from eight random bytes, big-endian: a certificate serial. */
export function randomSerial(random: Random): bigint {
  const bytes = random.bytes(8);
  return new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0);
}

/** What ends a wait before its result is there. */
export interface Bound {
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
interface StepBound<T> extends Bound {
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

/** A computation in steps of well under a millisecond each, with its result at the end. */
export type Steps<T> = Generator<void, T, void>;

/** How long a computation runs before it lets others run, in milliseconds. */
const SLICE_MS = 1;

/** For how long, in milliseconds: a request takes several turns of the event loop, and each must not wait a slice. */
const PAUSE_MS = 1;

/**
 * Runs a computation without a pause.
 *
 * @throws what the computation throws
 */
export function finish<T>(steps: Steps<T>): T {
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return step.value;
}

/**
 * Runs a computation in slices of a millisecond or two; between them requests are answered.
 *
 * @throws what the computation throws
 */
export async function finishInSlices<T>(steps: Steps<T>, clock: Clock): Promise<T> {
  let from = clock.now();
  let step = steps.next();
  while (step.done !== true) {
    if (clock.now() - from >= SLICE_MS) {
      await clock.sleep(PAUSE_MS);
      from = clock.now();
    }
    step = steps.next();
  }
  return step.value;
}
