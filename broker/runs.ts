import type { Execute } from "./execute.ts";

/** The commands that run now. */
export interface Runs {
  readonly execute: Execute;
  /** Cancels all of them, and those that would still come; resolves when each has ended and is recorded. */
  cancel(): Promise<void>;
}

/** Keeps account of what runs, so that a broker that stops leaves nothing behind on a host. */
export function trackRuns(execute: Execute): Runs {
  const stop = new AbortController();
  const running = new Set<Promise<unknown>>();
  return {
    execute(request, signal) {
      const run = execute(request, AbortSignal.any([signal, stop.signal]));
      running.add(run);
      const forget = () => running.delete(run);
      run.then(forget, forget);
      return run;
    },
    async cancel() {
      stop.abort();
      await Promise.allSettled(running);
    },
  };
}
