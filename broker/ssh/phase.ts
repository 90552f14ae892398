/** What ends the wait for one step before its result is there. */
export interface PhaseBound {
  readonly milliseconds: number;
  /** The error when the time is up. */
  readonly onTimeout: () => Error;
  /** Each signal that ends the wait, with the error that it stands for. */
  readonly stops: readonly PhaseStop[];
}

/** A signal, and the error when it is aborted. */
export interface PhaseStop {
  readonly signal: AbortSignal | undefined;
  readonly onAbort: (reason: unknown) => Error;
}

/** Waits for the result of a step, as long as its bound allows. The step itself goes on: its owner ends it. */
export function waitFor<T>(step: Promise<T>, bound: PhaseBound): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const ended = new AbortController();
    const end = () => {
      clearTimeout(timer);
      // Without a reason an error is made for each wait, with a stack that nobody reads.
      ended.abort("ended");
    };
    const timer = setTimeout(() => {
      end();
      reject(bound.onTimeout());
    }, bound.milliseconds);
    // Before the signals: a step that nobody listens to ends the process when it fails.
    step.finally(end).then(resolve, reject);
    for (const { signal, onAbort } of bound.stops) {
      const stop = () => {
        end();
        reject(onAbort(signal?.reason));
      };
      if (signal?.aborted) return stop();
      signal?.addEventListener("abort", stop, { once: true, signal: ended.signal });
    }
  });
}

/** The result of a step, or `undefined` when it fails or is not there in time. */
export async function settledWithin<T>(step: Promise<T>, milliseconds: number): Promise<T | undefined> {
  try {
    return await waitFor(step, {
      milliseconds,
      onTimeout: () => new Error("not settled in time"),
      stops: [],
    });
  } catch {
    return undefined;
  }
}
