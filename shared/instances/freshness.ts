/**
 * The age of an instance's state, the time of the shared database, and the other instances.
 *
 * @module
 */
import { type Clock, type Elapsed, within } from "../clock.ts";
import { configError } from "../errors.ts";
import { quoteText } from "../text.ts";
import type { GroupState, InstanceIdentity, InstanceLink, Notice, OtherInstance } from "./postgres_link.ts";

/**
 * The maximum age of the last poll of the database. If the poll is older, the instance makes no decisions.
 */
export const MAX_AGE_MS = 2_000;

/**
 * A moment by two clocks. An operator can set one of them, and the other may stop while the machine sleeps.
 */
interface Moment {
  readonly elapsed: number;
  readonly clock: number;
}

/** The age of the state, by the clock that shows more time. */
export class Freshness {
  readonly #clock: Clock;
  readonly #elapsed: Elapsed;
  #at: Moment | undefined;

  constructor(clock: Clock, elapsed: Elapsed) {
    this.#clock = clock;
    this.#elapsed = elapsed;
  }

  /**
   * The current moment. Take it before a query, because the result of the query was true at that moment or
   * later.
   */
  now(): Moment {
    return { elapsed: this.#elapsed(), clock: this.#clock.now() };
  }

  heldAt(moment: Moment): void {
    this.#at = moment;
  }

  get age(): number {
    if (this.#at === undefined) return Infinity;
    const { elapsed, clock } = this.now();
    return Math.max(elapsed - this.#at.elapsed, clock - this.#at.clock);
  }

  get isFresh(): boolean {
    return this.age <= MAX_AGE_MS;
  }
}

/** A larger offset of the machine's clock is logged. */
const WARN_OFFSET_MS = 2_000;
/** With a larger offset, an instance makes no decisions: its audit records would contradict those of the others. */
const MAX_OFFSET_MS = 30_000;
/** The maximum drift between two clocks. */
const DRIFT = 0.01;

/**
 * The time of the database, which all instances use, so that a revocation or an expiry does not depend on the
 * instance that decides. Before the first reading it is the machine's time.
 */
export class SharedClock implements Clock {
  readonly #clock: Clock;
  readonly #elapsed: Elapsed;
  readonly #warn: (text: string) => void;
  /** `error` bounds the uncertainty, `offset` is the lead of the machine's clock. */
  #estimate: Readonly<Record<"shown" | "at" | "error" | "offset", number>> | undefined;
  #isOff = false;

  constructor(clock: Clock, elapsed: Elapsed, warn: (text: string) => void) {
    this.#clock = clock;
    this.#elapsed = elapsed;
    this.#warn = warn;
  }

  /**
   * Adds a reading of the database's time, taken between two moments, unless the last reading is more
   * certain.
   */
  addReading(shown: number, asked: Moment, answered: Moment): void {
    const error = Math.max(0, answered.elapsed - asked.elapsed) / 2;
    const at = asked.elapsed + error;
    const known = this.#estimate;
    if (known === undefined || error <= known.error + (at - known.at) * DRIFT) {
      this.#estimate = { shown, at, error, offset: asked.clock + error - shown };
    }
    const isOff = Math.abs(this.offset) > WARN_OFFSET_MS;
    if (isOff && !this.#isOff) this.#warn(this.#describeOffset());
    this.#isOff = isOff;
  }

  now(): number {
    if (this.#estimate === undefined) return this.#clock.now();
    const { shown, at } = this.#estimate;
    return Math.round(shown + this.#elapsed() - at);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return this.#clock.sleep(ms, signal);
  }

  /** The proven lead of the machine's clock in milliseconds; negative if the clock is behind. */
  get offset(): number {
    const { offset, error } = this.#estimate ?? { offset: 0, error: 0 };
    return Math.sign(offset) * Math.max(0, Math.abs(offset) - error);
  }

  /** The reason why this instance must not decide; `undefined` if the clocks agree. */
  get problem(): string | undefined {
    return Math.abs(this.offset) > MAX_OFFSET_MS ? this.#describeOffset() : undefined;
  }

  #describeOffset(): string {
    const seconds = Math.round(Math.abs(this.offset) / 1000);
    const where = this.offset > 0 ? "ahead of" : "behind";
    return `this machine's clock is ${seconds} s ${where} the state database's: set it by NTP`;
  }
}

/** Finds instances that have stopped sending heartbeats. */
export class Liveness {
  /** For each session: the last heartbeat, and the time since which it has not changed. */
  #heartbeats = new Map<string, { readonly name: string; readonly beat: bigint; readonly since: number }>();

  get names(): readonly string[] {
    return [...this.#heartbeats.values()].map(({ name }) => name);
  }

  /** @returns the instances whose heartbeat has not changed for `ms`, by a monotonic clock */
  findSilent(others: readonly OtherInstance[], now: number, ms: number): readonly OtherInstance[] {
    const known = this.#heartbeats;
    this.#heartbeats = new Map(others.map(({ name, session, beat }) => {
      const last = known.get(session);
      return [session, { name, beat, since: last?.beat === beat ? last.since : now }];
    }));
    return others.filter(({ session }) => now - (this.#heartbeats.get(session)?.since ?? now) >= ms);
  }
}

/** Waits for the next poll of an instance. A change starts the poll early. */
export class PollTimer {
  #wake: () => void = () => {};
  #isTriggered = false;
  /** Whether the state has changed since it was last read. */
  isChanged = false;
  /** Whether others have confirmed a change that this instance waits for. */
  hasConfirmations = false;

  /** Whether the next poll needs to read only confirmations. */
  get hasOnlyConfirmations(): boolean {
    return this.hasConfirmations && !this.#isTriggered;
  }

  trigger(): void {
    this.#isTriggered = true;
    this.#wake();
  }

  notify(notice: Notice): void {
    if (notice === "change") {
      this.isChanged = true;
      return this.trigger();
    }
    this.hasConfirmations = true;
    this.#wake();
  }

  /** Call it when a poll begins. Later notices start another poll. */
  reset(): void {
    this.#isTriggered = false;
    this.hasConfirmations = false;
  }

  /** Resolves after this time; earlier when triggered, except without a database connection. */
  async wait(clock: Clock, ms: number, signal: AbortSignal, isDisconnected: boolean): Promise<void> {
    const triggered = Promise.withResolvers<void>();
    this.#wake = triggered.resolve;
    if ((this.#isTriggered || this.hasConfirmations) && !isDisconnected) triggered.resolve();
    await within({ clock, ms, signal }, triggered.promise).catch(() => {});
  }
}

/** Waits until all other instances have confirmed a change. */
export class Confirmation {
  readonly #done = Promise.withResolvers<void>();
  readonly done: Promise<void> = this.#done.promise;
  isSettled = false;
  /** The epoch to be confirmed. */
  #target: bigint | undefined;
  /** The number of certificates that existed when all had confirmed the change. */
  #certificates: bigint | undefined;
  /** Instances that have not confirmed, by session. */
  #silent: ReadonlyMap<string, string> | undefined;

  /** Instances that have not confirmed, including instances that were evicted in the meantime. */
  get silent(): readonly string[] {
    return [...this.#silent?.values() ?? []];
  }

  /**
   * All instances have confirmed the change, but this instance has not read their earlier certificates yet.
   */
  get wantsCertificates(): boolean {
    return !this.isSettled && this.#certificates !== undefined;
  }

  /** @param known the number of certificates that this instance has read */
  update({ state, certificates, others }: GroupState, known: bigint): void {
    const target = this.#target ??= state;
    const confirmed = new Set(others.filter(({ seen }) => seen >= target).map(({ session }) => session));
    const asked = this.#silent ?? new Map(others.map(({ session, name }) => [session, name]));
    this.#silent = new Map([...asked].filter(([session]) => !confirmed.has(session)));
    if (others.some(({ seen }) => seen < target)) return;
    // The instances stored their certificates before they confirmed, so this instance can read all of them.
    this.#certificates ??= certificates;
    if (known < this.#certificates) return;
    this.isSettled = true;
    this.#done.resolve();
  }
}

/** The interval between two checks of an instance with the same name. */
const CHECK_MS = 250;

interface EnterOptions {
  /** The name of the service. */
  readonly what: string;
  readonly version: string;
  readonly clock: Clock;
  readonly elapsed: Elapsed;
  /** An instance without a heartbeat for this time makes no decisions. */
  readonly silentMs: number;
}

/**
 * Registers an instance. If a silent instance has the name, waits until that instance can make no more
 * decisions.
 *
 * @throws {AppError} `invalid_config` if a live instance has the name
 */
export async function enter(
  { what, version, clock, elapsed, silentMs }: EnterOptions,
  link: InstanceLink,
  self: InstanceIdentity,
): Promise<void> {
  const { name } = self;
  let known: (OtherInstance & { readonly since: number }) | undefined;
  while (!await link.enter(self, version)) {
    const found = (await link.list()).find((other) => other.name === name);
    if (found === undefined) continue;
    if (known !== undefined && (known.session !== found.session || known.beat !== found.beat)) {
      throw configError(
        `Cannot use state_db: a ${what} with the instance name ${quoteText(name)} is running; ` +
          "give each its own name in instance",
      );
    }
    known = { ...found, since: known?.since ?? elapsed() };
    if (elapsed() - known.since >= silentMs) await link.evict(found);
    else await clock.sleep(CHECK_MS);
  }
}
