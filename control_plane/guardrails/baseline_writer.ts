import type { Clock } from "@gateway/shared/clock";
import { outsideRequests, type ServiceLogger } from "@gateway/shared/service";
import type { Baseline } from "./tracker.ts";

/** The part of the store that keeps baselines. Times of last sight are milliseconds since the epoch there. */
export interface BaselineStore {
  /** All baselines; unreadable ones are left out with a warning. */
  loadBaselines(): Promise<readonly Baseline[]>;

  /** The baseline of a subject that another process may have put; absent where no other shares the store. */
  findBaseline?(subject: string): Promise<Baseline | undefined>;

  /**
   * Keeps a baseline, in the place of an older one of its subject; what another instance has put since is kept with it.
   *
   * @throws {AppError} `internal` when it was not kept
   */
  putBaseline(baseline: Baseline): Promise<void>;

  /** Removes the baselines of these subjects, in one change, unless another instance has put one since. */
  deleteBaselines(subjects: readonly string[]): Promise<void>;
}

/** What a {@linkcode BaselineWriter} needs. */
interface BaselineWriterOptions {
  readonly store: BaselineStore;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  /** Told of every change that could not be kept, for metrics. */
  readonly onStoreError: () => void;
  /** The baseline of a subject as it is now, if it has one. */
  readonly read: (subject: string) => Baseline | undefined;
  /** How old the time of the last sight may grow in the store, in milliseconds. */
  readonly refreshMs: number;
}

/** Changes of a subject within this time become one write. */
const PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;

/** Few at a time: SQLite holds up the process while it writes. */
const PUTS_AT_A_TIME = 64;
const DELETES_AT_A_TIME = 256;

/**
 * Writes baselines after the fact. Nothing waits for it: what a process killed has not written is lost, at
 * most the last seconds, or the last minute of a flood. Only the names of subjects wait, each once, and only of
 * such that are remembered or in the store; what is written is the baseline at the time of writing.
 */
export class BaselineWriter {
  readonly #options: BaselineWriterOptions;
  readonly #puts = new Set<string>();
  readonly #deletes = new Set<string>();
  /** What may be in the store, with the last sight it has there. */
  readonly #stored = new Map<string, number>();
  readonly #closing = new AbortController();
  #isRunning = false;
  #run: Promise<void> = Promise.resolve();

  constructor(options: BaselineWriterOptions) {
    this.#options = options;
  }

  /** How many subjects wait to be written or removed. */
  get waiting(): number {
    return this.#puts.size + this.#deletes.size;
  }

  /** Notes what the store has, before it is remembered. */
  loaded(baselines: readonly Baseline[]): void {
    for (const { subject, lastSeen } of baselines) {
      this.#stored.set(subject, lastSeen);
      // It is remembered again, and its removal may be under way.
      if (this.#deletes.has(subject)) this.changed(subject);
    }
  }

  /** A baseline is new or has changed. */
  changed(subject: string): void {
    this.#deletes.delete(subject);
    this.#puts.add(subject);
    this.#start();
  }

  /** A subject was seen; written when the store would take it for idle much too early. */
  seen(subject: string, now: number): void {
    const written = this.#stored.get(subject);
    if (written !== undefined && Math.abs(now - written) >= this.#options.refreshMs) this.changed(subject);
  }

  /** A subject is not remembered any more. */
  forgotten(subject: string): void {
    this.#puts.delete(subject);
    if (!this.#stored.has(subject)) return;
    this.#deletes.add(subject);
    this.#start();
  }

  /** Writes what waits, unless the store fails. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#run;
    while (this.waiting > 0) {
      if (await this.#writeSome()) continue;
      this.#options.logger.warn("Cannot keep the last changes of behaviour baselines", {
        subjects: this.waiting,
      });
      return;
    }
  }

  #start(): void {
    if (this.#isRunning || this.#closing.signal.aborted) return;
    this.#isRunning = true;
    this.#run = outsideRequests(() => this.#writeUntilDone());
  }

  async #writeUntilDone(): Promise<void> {
    const { signal } = this.#closing;
    let pauseMs = PAUSE_MS;
    while (this.waiting > 0 && !signal.aborted) {
      // Only closing ends a pause early.
      await this.#options.clock.sleep(pauseMs, signal).catch(() => {});
      if (signal.aborted) break;
      pauseMs = await this.#writeSome() ? PAUSE_MS : Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    }
    this.#isRunning = false;
  }

  /** False when the store failed: what is not written waits on, that which failed behind all others. */
  async #writeSome(): Promise<boolean> {
    try {
      await this.#deleteSome();
      for (const subject of [...this.#puts.values().take(PUTS_AT_A_TIME)]) await this.#put(subject);
      return true;
    } catch (error) {
      this.#options.onStoreError();
      this.#options.logger.warn("Cannot keep behaviour baselines, trying again", {
        subjects: this.waiting,
        error,
      });
      return false;
    }
  }

  async #deleteSome(): Promise<void> {
    const subjects = [...this.#deletes.values().take(DELETES_AT_A_TIME)];
    if (subjects.length === 0) return;
    await this.#options.store.deleteBaselines(subjects);
    for (const subject of subjects) {
      this.#stored.delete(subject);
      this.#deletes.delete(subject);
    }
  }

  async #put(subject: string): Promise<void> {
    const baseline = this.#options.read(subject);
    const isWanted = this.#puts.delete(subject);
    if (!isWanted || baseline === undefined) return;
    // Before it is: who forgets the subject meanwhile must know that there is something to remove.
    this.#stored.set(subject, baseline.lastSeen);
    try {
      await this.#options.store.putBaseline(baseline);
    } catch (error) {
      this.#puts.add(subject);
      throw error;
    }
  }
}
