/**
 * One time for all instances that share a database: the database's. Their machines' clocks may be set differently, or be
 * set while they run; who is revoked, and what has expired, must not depend on which of them decides.
 *
 * @module
 */
import type { Clock, Elapsed } from "../clock.ts";
import type { Moment } from "./freshness.ts";
import type { InstanceClock } from "./postgres_link.ts";

/** From here on an operator is told that a machine's clock is wrong. */
const WARN_OFFSET_MS = 2_000;
/** From here on an instance decides nothing: its audit records would tell another story than those of the others. */
const MAX_OFFSET_MS = 30_000;

/** By how much an estimate grows less certain: two clocks run apart by less. */
const DRIFT = 0.01;

/** What the database's clock showed, and between which moments here. */
export interface Reading {
  /** Milliseconds since the epoch. */
  readonly shown: number;
  readonly asked: Moment;
  readonly answered: Moment;
}

interface Estimate {
  readonly shown: number;
  /** By the time that nobody can set. */
  readonly at: number;
  /** At most so much off, in milliseconds. */
  readonly error: number;
  /** By how much this machine's clock is ahead of the database's. */
  readonly offset: number;
}

/** The time of the database, as an instance knows it between its looks. */
export class SharedClock implements InstanceClock {
  readonly #clock: Clock;
  readonly #elapsed: Elapsed;
  readonly #warn: (text: string) => void;
  #estimate: Estimate | undefined;
  #isOff = false;

  /**
   * Until the first reading it shows the machine's time.
   *
   * @param warn told when the machine's clock is found to be off, for the operator
   */
  constructor(
    { clock, elapsed, warn }: {
      readonly clock: Clock;
      readonly elapsed: Elapsed;
      readonly warn: (text: string) => void;
    },
  ) {
    this.#clock = clock;
    this.#elapsed = elapsed;
    this.#warn = warn;
  }

  /** Takes a reading; one that took much longer than the last says less than that. */
  heard(reading: Reading): void {
    this.#take(reading);
    const isOff = Math.abs(this.offset) > WARN_OFFSET_MS;
    if (isOff && !this.#isOff) this.#warn(describeOffset(this.offset));
    this.#isOff = isOff;
  }

  #take({ shown, asked, answered }: Reading): void {
    const error = Math.max(0, answered.elapsed - asked.elapsed) / 2;
    const at = asked.elapsed + error;
    const known = this.#estimate;
    if (known !== undefined && error > known.error + (at - known.at) * DRIFT) return;
    this.#estimate = { shown, at, error, offset: asked.clock + error - shown };
  }

  /** Milliseconds since the epoch. */
  now(): number {
    if (this.#estimate === undefined) return this.#clock.now();
    const { shown, at } = this.#estimate;
    return Math.round(shown + this.#elapsed() - at);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return this.#clock.sleep(ms, signal);
  }

  get offset(): number {
    const { offset, error } = this.#estimate ?? { offset: 0, error: 0 };
    return Math.sign(offset) * Math.max(0, Math.abs(offset) - error);
  }

  /** What to mend before anything is decided; `undefined` where the clocks agree well enough. */
  get problem(): string | undefined {
    return Math.abs(this.offset) > MAX_OFFSET_MS ? describeOffset(this.offset) : undefined;
  }
}

function describeOffset(offset: number): string {
  const seconds = Math.round(Math.abs(offset) / 1000);
  return `this machine's clock is ${seconds} s ${
    offset > 0 ? "ahead of" : "behind"
  } the state database's: set it by NTP`;
}
