/** Something that runs until it is done or its signal is aborted. */
type Run<Request, Result> = (request: Request, signal: AbortSignal) => Promise<Result>;

export interface Runs {
  track<Request, Result>(run: Run<Request, Result>): Run<Request, Result>;
  /** Cancels all of them, and those that would still come; resolves when each has ended and is recorded. */
  cancel(): Promise<void>;
}

/** Keeps account of what runs, so that a broker that stops leaves nothing behind on a host. */
export function trackRuns(): Runs {
  const stop = new AbortController();
  const running = new Set<Promise<unknown>>();
  return {
    track: (run) => (request, signal) => {
      const tracked = run(request, AbortSignal.any([signal, stop.signal]));
      running.add(tracked);
      const forget = () => running.delete(tracked);
      tracked.then(forget, forget);
      return tracked;
    },
    async cancel() {
      stop.abort();
      await Promise.allSettled(running);
    },
  };
}
