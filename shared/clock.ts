/**
 * Time and randomness as parameters, bounded waits, and computations in steps.
 *
 * @module
 */

/** A source of time that can wait. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /** Waits. Throws the signal's reason if the signal is aborted before or during the wait. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/**
 * Monotonic milliseconds, which are independent of changes to the clock. They may not advance while the
 * machine sleeps.
 */
export type Elapsed = () => number;

/** The machine's monotonic time. */
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

/** A global of Deno that its types do not declare. */
declare function setImmediate(callback: () => void): unknown;

/** Resolves after all events that are ready now, such as requests that have arrived. */
export function endOfTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/**
 * Repeats a task until the signal is aborted. The first run follows a pause, and runs never overlap. A task
 * that throws ends the repetition with its error.
 *
 * @param options with the pause between the end of one run and the start of the next
 */
export async function every(
  { clock, seconds, signal }: {
    readonly clock: Clock;
    readonly seconds: number;
    readonly signal: AbortSignal;
  },
  task: (signal: AbortSignal) => Promise<void> | void,
): Promise<void> {
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
  bytes(length: number): Uint8Array;
}

/** The operating system's generator. */
export const systemRandom: Random = {
  bytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
};

/** A certificate serial: an unsigned 64-bit number from eight random bytes, big-endian. */
export function randomSerial(random: Random): bigint {
  const bytes = random.bytes(8);
  return new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0);
}

/** The limits of a wait. */
export interface Bound {
  readonly clock: Clock;
  /** Absent: as long as the signal allows. */
  readonly ms?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** The error after the time; by default a `DOMException` with the name `TimeoutError`. */
  readonly late?: () => unknown;
  /** The error after the signal; by default the signal's reason. */
  readonly aborted?: (reason: unknown) => unknown;
}

/**
 * The abort reason of a timer that is no longer needed. It is a string, because creating an error with its
 * stack is slow.
 */
const OVER = "over";

/**
 * Calls `onOver` once with the error of the bound. Returns a function that removes the timer and the
 * listener.
 */
function watch(
  { clock, ms, signal, late, aborted = (reason) => reason }: Bound,
  onOver: (reason: unknown) => void,
): () => void {
  const tooLate = late ?? (() => new DOMException("The wait took too long", "TimeoutError"));
  const timer = new AbortController();
  const abort = () => {
    timer.abort(OVER);
    onOver(aborted(signal?.reason));
  };
  signal?.addEventListener("abort", abort, { once: true });
  if (signal?.aborted) abort();
  else if (ms !== undefined) clock.sleep(ms, timer.signal).then(() => onOver(tooLate()), () => {});
  return () => {
    timer.abort(OVER);
    signal?.removeEventListener("abort", abort);
  };
}

/** A signal that is aborted with the error of a bound. Dispose it to end its timer and listener. */
export class Deadline implements Disposable {
  readonly #ended = new AbortController();
  readonly #stop: () => void;

  constructor(bound: Bound) {
    this.#stop = watch(bound, (reason) => this.#ended.abort(reason));
  }

  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  [Symbol.dispose](): void {
    this.#stop();
  }
}

/**
 * Waits for the result of a step, within a bound. The wait ends even if the step ignores its signal: a later
 * result is released, and a later failure is ignored.
 *
 * @param bound with a function that releases a late result, such as a connection to close
 * @param step a function gets a signal that is aborted with the wait, and is not called if the signal is
 * aborted already. A promise continues, and its owner ends it
 * @throws the error of the step or of the bound
 */
export async function within<T>(
  bound: Bound & { readonly release?: (result: T) => unknown },
  step: Promise<T> | ((signal: AbortSignal) => Promise<T>),
): Promise<T> {
  let stop: (() => void) | undefined;
  try {
    return await new Promise<T>((resolve, reject) => {
      let ended: AbortController | undefined;
      let isOver = false;
      stop = watch(bound, (reason) => {
        isOver = true;
        ended?.abort(reason);
        reject(reason);
      });
      let running: Promise<T>;
      if (typeof step !== "function") running = step;
      else if (isOver) return;
      // Create a controller only for functions, because it costs as much as the rest of the wait.
      else running = step((ended = new AbortController()).signal);
      running.then((result) => isOver ? bound.release?.(result) : resolve(result)).catch(reject);
    });
  } finally {
    stop?.();
  }
}

/** A computation in steps of well under a millisecond each, with its result at the end. */
export type Steps<T> = Generator<void, T, void>;

/** How long a computation runs before others run, in milliseconds. */
const SLICE_MS = 1;
/**
 * The pause between two slices. A request takes several turns of the event loop, and must not wait for a
 * slice in each.
 */
const PAUSE_MS = 1;

/** Runs a computation without a pause. */
export function finish<T>(steps: Steps<T>): T {
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return step.value;
}

/** Runs a computation in slices of a millisecond or two. Requests are answered between the slices. */
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
