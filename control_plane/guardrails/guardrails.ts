import type { Clock } from "@gateway/shared/clock";
import { outsideRequests, type ServiceLogger } from "@gateway/shared/service";
import { MonotonicTime } from "../approvals/approval.ts";
import type { BehaviorConfig } from "../config/config.ts";
import { type Baseline, type BehaviorRequest, Tracker } from "./tracker.ts";

export interface Verdict {
  readonly kind: "normal" | "anomalous";
  /** `rate-exceeded`, `new-host:<host>`, `new-command:<word>`, in this order. */
  readonly anomalies: readonly string[];
  readonly rateExceeded: boolean;
  /** At least 1 if the rate is exceeded, else 0. */
  readonly retryAfterSeconds: number;
  /**
   * Called when the signer has issued the credential. For an anomaly it has no effect in enforce, because
   * {@linkcode Guardrails.learn} follows the approval.
   */
  learn(): void;
}

interface GuardrailsOptions {
  readonly config: BehaviorConfig;
  readonly store: BaselineStore;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  /** Called for every change that the store could not save. */
  readonly onStoreError?: () => void;
}

const NORMAL = { kind: "normal", anomalies: [], rateExceeded: false, retryAfterSeconds: 0 } as const;

/**
 * Rate, new hosts and new commands of each subject. Decisions are made from memory. Baselines are stored
 * later and loaded at the next start. Rates are not stored.
 *
 * Limits: concurrent first requests of a subject all pass, as many as the rate allows; in enforce one of them is
 * learned. A trusted broker that lies about its end users gets a first request and a rate for each.
 */
export class Guardrails {
  readonly #options: GuardrailsOptions;
  readonly #idleMs: number;
  readonly #time: MonotonicTime;
  readonly #tracker: Tracker;
  readonly #writer: BaselineWriter;

  private constructor(options: GuardrailsOptions) {
    const { config, store, clock, logger, onStoreError = () => {} } = options;
    this.#options = options;
    this.#idleMs = config.subject_ttl_minutes * 60_000;
    this.#time = new MonotonicTime(clock);
    const read = (subject: string) => {
      const baseline = this.#tracker.baseline(subject);
      return baseline && { ...baseline, lastSeen: this.#time.onClock(baseline.lastSeen) };
    };
    const refreshMs = this.#idleMs / 8;
    this.#writer = new BaselineWriter({ store, clock, logger, onStoreError, read, refreshMs });
    this.#tracker = new Tracker({
      rateLimitPerMin: config.rate_limit_per_min,
      maxSubjects: config.max_subjects,
      idleMs: this.#idleMs,
      maxDistinct: config.max_distinct_per_subject,
    }, (subject) => this.#writer.forgotten(subject));
  }

  /**
   * Restores the baselines of subjects that were not idle for too long. In mode off the store is not used.
   */
  static async open(options: GuardrailsOptions): Promise<Guardrails> {
    const guardrails = new Guardrails(options);
    if (options.config.mode !== "off") guardrails.#restore(await options.store.loadBaselines());
    return guardrails;
  }

  get subjects(): number {
    return this.#tracker.size;
  }

  /**
   * Loads the baseline that another control plane has stored of an unknown subject, because its first request here would
   * otherwise count as usual. Wait for it before {@linkcode check}.
   *
   * @throws the store's error, in enforce
   */
  async loadBaseline({ subject }: BehaviorRequest): Promise<void> {
    const { config: { mode }, store } = this.#options;
    if (mode === "off" || store.findBaseline === undefined) return;
    if (this.#tracker.baseline(subject) !== undefined) return;
    try {
      const found = await store.findBaseline(subject);
      const now = this.#time.now();
      if (found === undefined || now - this.#time.at(found.lastSeen) > this.#idleMs) return;
      this.#writer.loaded([found]);
      this.#tracker.adopt(found, now);
    } catch (error) {
      if (mode === "enforce") throw error;
    }
  }

  /** Judges a request and counts it for the rate of its subject. */
  check(request: BehaviorRequest): Verdict {
    const { mode } = this.#options.config;
    if (mode === "off") return { ...NORMAL, learn() {} };
    const now = this.#time.now();
    const { rate, novelties } = this.#tracker.check(request, now);
    this.#writer.seen(request.subject, this.#time.onClock(now));
    const isUsual = !rate.exceeded && novelties.length === 0;
    const learn = () => {
      if (mode === "observe") this.learn(request);
      else if (isUsual && this.#tracker.learnUsual(request, this.#time.now())) {
        this.#writer.changed(request.subject);
      }
    };
    if (isUsual) return { ...NORMAL, learn };
    return {
      kind: "anomalous",
      anomalies: rate.exceeded ? ["rate-exceeded", ...novelties] : novelties,
      rateExceeded: rate.exceeded,
      retryAfterSeconds: rate.exceeded ? Math.max(1, Math.ceil(rate.retryAfterMs / 1000)) : 0,
      learn,
    };
  }

  /** Learns a request that was approved and issued. */
  learn(request: BehaviorRequest): void {
    if (this.#options.config.mode === "off") return;
    if (this.#tracker.learn(request, this.#time.now())) this.#writer.changed(request.subject);
  }

  close(): Promise<void> {
    return this.#writer.close();
  }

  #restore(stored: readonly Baseline[]): void {
    const now = this.#time.now();
    this.#writer.loaded(stored);
    const kept: Baseline[] = [];
    for (const baseline of stored) {
      const lastSeen = this.#time.at(baseline.lastSeen);
      if (now - lastSeen > this.#idleMs) this.#writer.forgotten(baseline.subject);
      else kept.push({ ...baseline, lastSeen });
    }
    this.#tracker.restore(kept);
  }
}

/** The part of the store that keeps baselines. Times are milliseconds since the epoch. */
export interface BaselineStore {
  /** Unreadable baselines are left out with a warning. */
  loadBaselines(): Promise<readonly Baseline[]>;

  /** A baseline that another process may have stored; absent without other processes. */
  findBaseline?(subject: string): Promise<Baseline | undefined>;

  /**
   * Replaces a baseline, and keeps the additions of other instances since then.
   *
   * @throws {AppError} `internal` if it was not stored
   */
  putBaseline(baseline: Baseline): Promise<void>;

  /** Removes baselines in one change, except those that another instance has stored since. */
  deleteBaselines(subjects: readonly string[]): Promise<void>;
}

interface BaselineWriterOptions extends Required<Omit<GuardrailsOptions, "config">> {
  /** The current baseline of a subject. */
  readonly read: (subject: string) => Baseline | undefined;
  /**
   * The maximum difference between the time of a subject's last request and its stored time, in milliseconds.
   */
  readonly refreshMs: number;
}

/** Changes of a subject within this time become one write. */
const PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;

/** SQLite blocks the process while it writes. */
const PUTS_AT_A_TIME = 64;
const DELETES_AT_A_TIME = 256;

/**
 * Writes baselines in the background. If the process is killed, the changes of the last seconds are lost, or
 * of the last minute under heavy load. The queue contains the name of each changed subject once, and a
 * baseline is read when it is written.
 */
export class BaselineWriter {
  readonly #options: BaselineWriterOptions;
  readonly #puts = new Set<string>();
  readonly #deletes = new Set<string>();
  /** Subjects that may be in the store, each with the stored time of its last request. */
  readonly #stored = new Map<string, number>();
  readonly #closing = new AbortController();
  #isRunning = false;
  #run: Promise<void> = Promise.resolve();

  constructor(options: BaselineWriterOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#puts.size + this.#deletes.size;
  }

  /** Notes the store's baselines, before they are remembered. */
  loaded(baselines: readonly Baseline[]): void {
    for (const { subject, lastSeen } of baselines) {
      this.#stored.set(subject, lastSeen);
      // The store may be removing the subject at this moment, so write it again.
      if (this.#deletes.has(subject)) this.changed(subject);
    }
  }

  changed(subject: string): void {
    this.#deletes.delete(subject);
    this.#puts.add(subject);
    this.#start();
  }

  /**
   * Writes the time of the last request if the stored time is so old that the store would treat the subject
   * as idle much too early.
   */
  seen(subject: string, now: number): void {
    const written = this.#stored.get(subject);
    if (written !== undefined && Math.abs(now - written) >= this.#options.refreshMs) this.changed(subject);
  }

  forgotten(subject: string): void {
    this.#puts.delete(subject);
    if (!this.#stored.has(subject)) return;
    this.#deletes.add(subject);
    this.#start();
  }

  /** Writes everything that waits, unless the store fails. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#run;
    while (this.waiting > 0) {
      if (await this.#writeSome()) continue;
      const subjects = this.waiting;
      this.#options.logger.warn("last changes of behavior baselines not stored", { subjects });
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
      // A pause ends early only when the writer closes.
      await this.#options.clock.sleep(pauseMs, signal).catch(() => {});
      if (signal.aborted) break;
      pauseMs = await this.#writeSome() ? PAUSE_MS : Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    }
    this.#isRunning = false;
  }

  /**
   * Writes some of the waiting baselines. Returns false if the store failed; the failed subject then moves to
   * the end of the queue.
   */
  async #writeSome(): Promise<boolean> {
    const { store, onStoreError, logger } = this.#options;
    try {
      const deletes = [...this.#deletes.values().take(DELETES_AT_A_TIME)];
      if (deletes.length > 0) await store.deleteBaselines(deletes);
      for (const subject of deletes) {
        this.#stored.delete(subject);
        this.#deletes.delete(subject);
      }
      for (const subject of [...this.#puts.values().take(PUTS_AT_A_TIME)]) await this.#put(subject);
      return true;
    } catch (error) {
      onStoreError();
      logger.warn("behavior baselines not stored, retrying", { subjects: this.waiting, error });
      return false;
    }
  }

  async #put(subject: string): Promise<void> {
    const baseline = this.#options.read(subject);
    const isWanted = this.#puts.delete(subject);
    if (!isWanted || baseline === undefined) return;
    // Record the subject before the write, so that it is removed from the store if it is forgotten in the
    // meantime.
    this.#stored.set(subject, baseline.lastSeen);
    try {
      await this.#options.store.putBaseline(baseline);
    } catch (error) {
      this.#puts.add(subject);
      throw error;
    }
  }
}
