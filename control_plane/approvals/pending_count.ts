/** Whom a pending approval counts for. */
export interface Asker {
  readonly caller: string;
  /** The person it names; empty: nobody. */
  readonly endUser: string;
}

export interface FullLimit {
  readonly limit: number;
  /** Whose requests it bounds: all of the broker, or those that it asks for one person. */
  readonly of: "caller" | "end user";
}

/** It takes as many end users to fill the limit of their broker: one alone does not lock the others out. */
const SHARES = 4;

/** How many approvals wait for a decision: in all, of each caller, and of each of its end users. */
export class PendingCount {
  readonly #callers = new Tally();
  readonly #askers = new Tally();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  /**
   * The limit that one more request of somebody would exceed: that of the caller, or that of one of its end users.
   * A caller that names nobody is limited as a whole.
   */
  findFullLimit(asker: Asker, maxPerCaller: number): FullLimit | undefined {
    if (this.#callers.of(asker.caller) >= maxPerCaller) return { limit: maxPerCaller, of: "caller" };
    if (asker.endUser === "") return undefined;
    const share = Math.ceil(maxPerCaller / SHARES);
    return this.#askers.of(keyOf(asker)) >= share ? { limit: share, of: "end user" } : undefined;
  }

  add(asker: Asker): void {
    this.#total += 1;
    this.#callers.add(asker.caller);
    this.#askers.add(keyOf(asker));
  }

  remove(asker: Asker): void {
    this.#total -= 1;
    this.#callers.remove(asker.caller);
    this.#askers.remove(keyOf(asker));
  }
}

function keyOf({ caller, endUser }: Asker): string {
  return JSON.stringify([caller, endUser]);
}

class Tally {
  readonly #counts = new Map<string, number>();

  of(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  add(key: string): void {
    this.#counts.set(key, this.of(key) + 1);
  }

  remove(key: string): void {
    const left = this.of(key) - 1;
    // Not kept at 0: the names of those that come and go would stay.
    if (left > 0) this.#counts.set(key, left);
    else this.#counts.delete(key);
  }
}
