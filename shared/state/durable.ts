/**
 * A view in memory of the content of a store. Decisions read the view and never wait for the store.
 *
 * A change that allows something is stored before it is in the view. A change that denies something is in the
 * view first, because a deny must not wait for a disk. If the store fails, the deny stays in force and is
 * written again later.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { Durable } from "@gateway/shared/state";
 *
 * const stored: string[] = [];
 * const frozen = new Durable<ReadonlySet<string>, string>(new Set(), { onStoreError: () => {} });
 * await frozen.change(async () => {
 *   frozen.view = new Set([...frozen.view, "alice"]);
 *   frozen.enforce("alice");
 *   await frozen.retry(async (name) => void stored.push(name));
 * });
 * assert.deepEqual([stored, frozen.unstored], [["alice"], []]);
 * ```
 *
 * @module
 */
/** Runs changes one after another, in the order in which they were requested. Reads never wait for the lock. */
export class ChangeLock {
  #last: Promise<unknown> = Promise.resolve();

  /**
   * Runs a change after all earlier ones have ended, successfully or not. The change must not use the lock
   * itself.
   */
  run<T>(change: () => Promise<T>): Promise<T> {
    const result = this.#last.then(change);
    this.#last = result.catch(() => undefined);
    return result;
  }
}

/** A view of type `View`, and the denies of type `Deny` that are in force before they are stored. */
export class Durable<View, Deny = never> {
  /**
   * The view in force. Read it once, without a wait, and use it for the whole decision. Only a change or a
   * take-over replaces it.
   */
  view: View;
  readonly #lock: ChangeLock;
  readonly #onStoreError: () => void;
  #unstored: readonly Deny[] = [];

  constructor(view: View, { lock = new ChangeLock(), onStoreError }: {
    /**
     * A lock shared with the changes of other views, if one decision reads them all. By default the view has
     * its own lock.
     */
    readonly lock?: ChangeLock;
    /** Called for each write that the store could not make. */
    readonly onStoreError: () => void;
  }) {
    this.view = view;
    this.#lock = lock;
    this.#onStoreError = onStoreError;
  }

  /** The denies that are not stored yet, the oldest first. */
  get unstored(): readonly Deny[] {
    return this.#unstored;
  }

  /** Runs a change when all earlier ones have ended. */
  change<T>(change: () => Promise<T>): Promise<T> {
    return this.#lock.run(change);
  }

  /** Runs a write to the store; a failure is counted and thrown. */
  async write<T>(write: () => Promise<T>): Promise<T> {
    try {
      return await write();
    } catch (error) {
      this.#onStoreError();
      throw error;
    }
  }

  /** Remembers denies until they are stored. */
  enforce(...denies: readonly Deny[]): void {
    this.#unstored = [...this.#unstored, ...denies];
  }

  /** Forgets denies that are stored or lifted. */
  settle(isSettled: (deny: Deny) => boolean): void {
    this.#unstored = this.#unstored.filter((deny) => !isSettled(deny));
  }

  /** Writes each deny that is not stored yet, up to the first failure. */
  async retry(write: (deny: Deny) => Promise<void>): Promise<void> {
    for (const deny of this.#unstored) {
      try {
        await this.write(() => write(deny));
      } catch {
        return;
      }
      this.settle((other) => other === deny);
    }
  }

  /**
   * Loads what other instances have stored. This instance makes no change between the load and the new view.
   *
   * @param merge builds the view from the loaded content and the denies that are not stored
   */
  takeOver<T>(load: () => Promise<T>, merge: (loaded: T, unstored: readonly Deny[]) => View): Promise<T> {
    return this.change(async () => {
      const loaded = await load();
      this.view = merge(loaded, this.#unstored);
      return loaded;
    });
  }
}
