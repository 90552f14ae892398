/**
 * How old what an instance decides by may be.
 *
 * @module
 */
import type { Clock, Elapsed } from "../clock.ts";
import type { InstanceIdentity, InstanceLink, OtherInstance, Seen } from "./postgres_link.ts";
import { AppError } from "../errors.ts";
import { quoteText } from "../text.ts";

/** An instance that has not looked for so long decides nothing. */
export const MAX_AGE_MS = 2_000;

/** A moment by both clocks. */
export interface Moment {
  readonly elapsed: number;
  readonly clock: number;
}

/**
 * How old what is decided by may be. By two clocks, and the later one counts: one can be set, the other may stand still
 * while the machine sleeps.
 */
export class Freshness {
  readonly #clock: Clock;
  readonly #elapsed: Elapsed;
  #at: Moment | undefined;

  constructor(clock: Clock, elapsed: Elapsed) {
    this.#clock = clock;
    this.#elapsed = elapsed;
  }

  /** The present. Take it before a question is asked: what the answer says was so then or later. */
  now(): Moment {
    return { elapsed: this.#elapsed(), clock: this.#clock.now() };
  }

  /** What is decided by held at a moment. */
  heldAt(moment: Moment): void {
    this.#at = moment;
  }

  /** In milliseconds. */
  get age(): number {
    if (this.#at === undefined) return Infinity;
    const { elapsed, clock } = this.now();
    return Math.max(elapsed - this.#at.elapsed, clock - this.#at.clock);
  }

  /** Whether it may be decided by. */
  get isFresh(): boolean {
    return this.age <= MAX_AGE_MS;
  }
}

/** The other instances, as they were at the last look. */
export class Peers {
  /** By session: the last beat, and since when it has not changed. */
  #beats = new Map<
    string,
    { readonly name: string; readonly beat: bigint; readonly since: number }
  >();

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

/** Between two looks at one that has the name. */
const LOOK_MS = 250;

/** What {@linkcode enter} works with. */
interface EnterOptions {
  /** What an instance is called: `signer`. */
  readonly what: string;
  readonly name: string;
  readonly version: string;
  readonly clock: Clock;
  /** For the time that somebody is silent. */
  readonly elapsed: Elapsed;
  /** Whoever is silent for so long refuses by itself. */
  readonly silentMs: number;
}

/**
 * Waits until whoever has the name is silent for so long that it refuses by itself; then the name is this one's.
 *
 * @throws {AppError} `invalid_config` when a live instance has it
 */
export async function enter(
  { what, name, version, clock, elapsed, silentMs }: EnterOptions,
  link: InstanceLink,
  self: InstanceIdentity,
): Promise<void> {
  let known: (OtherInstance & { readonly since: number }) | undefined;
  while (!await link.enter(self, version)) {
    const found = (await link.list()).find((other) => other.name === name);
    if (found === undefined) continue;
    const isSame = known?.session === found.session && known.beat === found.beat;
    if (known !== undefined && !isSame) {
      throw new AppError(
        "invalid_config",
        `Cannot use state_db: a ${what} with the instance name ${quoteText(name)} is running; ` +
          "give each its own name in instance",
      );
    }
    known = { ...found, since: known?.since ?? elapsed() };
    if (elapsed() - known.since >= silentMs) await link.evict(found);
    else await clock.sleep(LOOK_MS);
  }
}
