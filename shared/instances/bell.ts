/**
 * What wakes an instance before its next look is due.
 *
 * @module
 */
import { type Clock, within } from "../clock.ts";

/** Rung by what others do, and by who waits for them. */
export class Bell {
  #wake: () => void = () => {};
  #isRung = false;
  /** The state has changed since it was last read. */
  isChanged = false;
  /** Others decide by a change that somebody here waits for. */
  isSeen = false;

  /** Whether there is nothing to be done but to ask what others have seen. */
  get isOnlySeen(): boolean {
    return this.isSeen && !this.#isRung;
  }

  /** There is something to look for. */
  ring(): void {
    this.#isRung = true;
    this.#wake();
  }

  change(): void {
    this.isChanged = true;
    this.ring();
  }

  /** Others have seen something that is waited for. */
  seen(): void {
    this.isSeen = true;
    this.#wake();
  }

  /** A look begins: what rings from here on is for the next. */
  answer(): void {
    this.#isRung = false;
    this.isSeen = false;
  }

  /** Resolves when it rings, or has rung, and after so long. Never rejects. */
  async pause(
    { clock, ms, signal, isDeaf }: {
      readonly clock: Clock;
      readonly ms: number;
      readonly signal: AbortSignal;
      /** Only the time counts. */
      readonly isDeaf: boolean;
    },
  ): Promise<void> {
    const news = Promise.withResolvers<void>();
    this.#wake = news.resolve;
    if ((this.#isRung || this.isSeen) && !isDeaf) news.resolve();
    await within({ clock, ms, signal }, news.promise).catch(() => {});
  }
}
