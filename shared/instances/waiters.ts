/**
 * Who waits until every instance decides by a change.
 *
 * @module
 */
import type { Seen } from "./link.ts";

/** One that waits. */
export class Waiter {
  readonly #done = Promise.withResolvers<void>();
  /** What has to be seen; `undefined`: not known yet. */
  #target: bigint | undefined;
  /** The certificates that there were when all had seen it. */
  #certificates: bigint | undefined;
  #isSettled = false;
  /** By session: who has not confirmed it. */
  #silent: ReadonlyMap<string, string> | undefined;

  /** The names of those that have not confirmed it, also those that were evicted meanwhile. */
  get silent(): readonly string[] {
    return [...this.#silent?.values() ?? []];
  }

  /** Resolves when all have seen it. */
  get done(): Promise<void> {
    return this.#done.promise;
  }

  /** Whether all have seen it. */
  get isSettled(): boolean {
    return this.#isSettled;
  }

  /** Whether all have seen it, and what they had issued before is to be read still. */
  get wantsCertificates(): boolean {
    return !this.#isSettled && this.#certificates !== undefined;
  }

  /**
   * Hears what the others have seen.
   *
   * @param known the certificates that are known here
   */
  hear({ state, certificates, others }: Seen, known: bigint): void {
    this.#target ??= state;
    const target = this.#target;
    const confirmed = new Set(others.filter(({ seen }) => seen >= target).map(({ session }) => session));
    const asked = this.#silent ?? new Map(others.map(({ session, name }) => [session, name]));
    this.#silent = new Map([...asked].filter(([session]) => !confirmed.has(session)));
    if (others.some(({ seen }) => seen < target)) return;
    // What they have issued they have stored before they said so: it has to be known here.
    this.#certificates ??= certificates;
    if (known < this.#certificates) return;
    this.#isSettled = true;
    this.#done.resolve();
  }
}
