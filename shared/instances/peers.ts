/**
 * Which of the other instances have been silent for how long.
 *
 * @module
 */
import type { OtherInstance } from "./link.ts";

/** The other instances, as they were at the last look. */
export class Peers {
  /** By session: the last beat, and since when it has not changed. */
  #beats = new Map<
    string,
    { readonly name: string; readonly beat: bigint; readonly since: number }
  >();

  /** What they are called. */
  get names(): readonly string[] {
    return [...this.#beats.values()].map(({ name }) => name);
  }

  /** Takes note of their beats; gives those that have not changed for so long. `now`: by time that nobody can set. */
  silent(
    others: readonly OtherInstance[],
    { now, ms }: { readonly now: number; readonly ms: number },
  ): readonly OtherInstance[] {
    const known = this.#beats;
    this.#beats = new Map(others.map(({ name, session, beat }) => {
      const last = known.get(session);
      return [session, { name, beat, since: last?.beat === beat ? last.since : now }];
    }));
    return others.filter(({ session }) => now - (this.#beats.get(session)?.since ?? now) >= ms);
  }
}
