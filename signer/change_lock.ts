/** Lets changes run one after another, in the order in which they were asked for. Requests never take it. */
export class ChangeLock {
  #last: Promise<unknown> = Promise.resolve();

  /** Runs a change when all earlier ones have ended, however they ended. It must not ask for the lock again. */
  run<T>(change: () => Promise<T>): Promise<T> {
    const result = this.#last.then(change);
    this.#last = result.catch(() => undefined);
    return result;
  }
}
