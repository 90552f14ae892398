import { AppError } from "@gateway/shared/errors";
import { canceledBy } from "./records.ts";

/**
 * Limits the total size of the entries that are inside at the same time. Further entries wait in the order of
 * their arrival.
 */
export class Semaphore {
  readonly #room: number;
  readonly #onEmpty: () => void;
  readonly #waiting = new Set<{ readonly size: number; readonly admit: () => void }>();
  #taken = 0;

  /** @param onEmpty called when no entry is left inside */
  constructor(room: number, onEmpty: () => void = () => {}) {
    this.#room = room;
    this.#onEmpty = onEmpty;
  }

  /**
   * Whether an entry of this size can enter now. An entry larger than the total room enters when nothing else
   * is inside.
   */
  hasRoom(size: number): boolean {
    return this.#waiting.size === 0 && this.#fits(size);
  }

  /** Enters without waiting; `undefined` if there is no room. */
  tryEnter(size = 1): Disposable | undefined {
    if (!this.hasRoom(size)) return undefined;
    this.#taken += size;
    return this.#leave(size);
  }

  /**
   * Waits for room. Disposing of the result frees the room.
   *
   * @throws {AppError} the error of {@linkcode canceledBy} when the signal is aborted first, and
   * `rate_limited` with this text when more than `maxWaiting` would wait
   */
  async enter(
    signal: AbortSignal,
    { size = 1, maxWaiting = Infinity, full = "" }: {
      readonly size?: number;
      readonly maxWaiting?: number;
      readonly full?: string;
    } = {},
  ): Promise<Disposable> {
    const entered = this.tryEnter(size);
    if (entered !== undefined) return entered;
    if (this.#waiting.size >= maxWaiting) throw new AppError("rate_limited", full);
    await new Promise<void>((resolve, reject) => {
      const leave = () => {
        this.#waiting.delete(entry);
        this.#admit();
        reject(canceledBy(signal));
      };
      const admit = () => {
        signal.removeEventListener("abort", leave);
        resolve();
      };
      const entry = { size, admit };
      if (signal.aborted) return leave();
      signal.addEventListener("abort", leave, { once: true });
      this.#waiting.add(entry);
    });
    return this.#leave(size);
  }

  #leave(size: number): Disposable {
    return {
      [Symbol.dispose]: () => {
        this.#taken -= size;
        this.#admit();
        if (this.#taken === 0) this.#onEmpty();
      },
    };
  }

  #admit(): void {
    for (const entry of this.#waiting) {
      if (!this.#fits(entry.size)) return;
      this.#waiting.delete(entry);
      this.#taken += entry.size;
      entry.admit();
    }
  }

  #fits(size: number): boolean {
    return this.#taken === 0 || this.#taken + size <= this.#room;
  }
}
