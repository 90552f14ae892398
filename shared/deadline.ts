/**
 * A bound on how long something may take, on an injected clock.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { withDeadline } from "@gateway/shared/deadline";
 * import { FakeClock } from "@gateway/shared/testing/fake_clock";
 *
 * const clock = new FakeClock();
 * const late = () => new Error("too late");
 * const never = withDeadline({ clock, ms: 10_000, late }, () => new Promise<void>(() => {}));
 * const [result] = await Promise.allSettled([never, clock.advance(10_000)]);
 * assert.equal(result.status, "rejected");
 * ```
 *
 * @module
 */
import type { Clock } from "./clock.ts";

/** How long, and what happens then. */
export interface Deadline {
  readonly clock: Clock;
  /** From the start of the task, in milliseconds. */
  readonly ms: number;
  /** The caller's own wish to end the task early. */
  readonly signal?: AbortSignal | undefined;
  /** The error of a task that took too long. */
  readonly late: () => Error;
}

/**
 * Runs a task that may not take longer. The wait is over at the deadline even when the task does not heed its
 * signal; what it gives or throws after that is dropped.
 *
 * @param task gets a signal that is aborted when the time is up or the caller's signal is
 * @throws what the task throws, `late()` when the time is up, the reason of the caller's signal
 */
export async function withDeadline<T>(
  { clock, ms, signal, late }: Deadline,
  task: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const ended = new AbortController();
  const timer = new AbortController();
  const onAbort = () => ended.abort(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  const interrupted = new Promise<never>((_resolve, reject) => {
    ended.signal.addEventListener("abort", () => reject(ended.signal.reason), { once: true });
  });
  clock.sleep(ms, timer.signal).then(() => ended.abort(late()), () => {});
  try {
    return await Promise.race([task(ended.signal), interrupted]);
  } finally {
    timer.abort();
    signal?.removeEventListener("abort", onAbort);
    interrupted.catch(() => {});
  }
}
