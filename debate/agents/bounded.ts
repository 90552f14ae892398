/**
 * Waiting that always ends: by the result, by the run's end, or by a bound in time.
 *
 * @module
 */
import type { Clock } from "@gateway/shared/clock";

/** How long, and what happens then. */
export interface Bound {
  readonly clock: Clock;
  /** The run's signal. */
  readonly signal: AbortSignal;
  /** `undefined`: no bound in time. */
  readonly ms: number | undefined;
  /** The error of what took too long. */
  readonly late: () => Error;
}

/**
 * Runs a task whose signal ends with the bound. The wait is over then even when the task does not heed its
 * signal; what it gives after that is dropped.
 *
 * @throws what the task throws, the reason of the run's signal, or `late()`
 */
export async function bounded<T>(
  { clock, signal, ms, late }: Bound,
  task: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const ended = new AbortController();
  const timer = new AbortController();
  const onAbort = () => ended.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  const interrupted = new Promise<never>((_resolve, reject) => {
    ended.signal.addEventListener("abort", () => reject(ended.signal.reason), { once: true });
  });
  interrupted.catch(() => {});
  if (ms !== undefined) clock.sleep(ms, timer.signal).then(() => ended.abort(late()), () => {});
  try {
    const running = task(ended.signal);
    running.catch(() => {});
    return await Promise.race([running, interrupted]);
  } finally {
    timer.abort();
    signal.removeEventListener("abort", onAbort);
  }
}
