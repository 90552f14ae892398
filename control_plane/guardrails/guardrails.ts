import type { Clock } from "@gateway/shared/clock";
import { outsideRequests, type ServiceLogger } from "@gateway/shared/service";
import type { BehaviorConfig, BehaviorMode } from "../config/config.ts";
import { SteadyTime } from "../approvals/approval.ts";
import { type Baseline, type BehaviorRequest, type Finding, Tracker } from "./tracker.ts";

/** What the guardrails say of a request. What happens then is the caller's part; in observe, nothing. */
export type Verdict =
  | {
    readonly kind: "normal";
    /** Call it when the signer has issued what was asked for, and only then. */
    learn(): void;
  }
  | {
    readonly kind: "anomalous";
    readonly rateExceeded: boolean;
    /** `rate-exceeded`, `new-host:<host>`, `new-command:<word>`, in this order; at least one. */
    readonly anomalies: readonly string[];
    /** At least 1 when the rate is exceeded, else 0. */
    readonly retryAfterSeconds: number;
    /** As above; in enforce it does nothing, since only {@linkcode Guardrails.learn} follows an approval. */
    learn(): void;
  };

/** What {@linkcode Guardrails.open} needs. */
interface GuardrailsOptions {
  readonly config: BehaviorConfig;
  readonly store: BaselineStore;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  /** Told of every change that could not be kept, for metrics. */
  readonly onStoreError?: () => void;
}

const UNWATCHED: Verdict = { kind: "normal", learn() {} };

interface Watch {
  readonly mode: Exclude<BehaviorMode, "off">;
  readonly time: SteadyTime;
  readonly tracker: Tracker;
  readonly writer: BaselineWriter;
  readonly store: BaselineStore;
  readonly idleMs: number;
}

/**
 * Rate, new hosts and new commands of each subject. Decisions are made from memory at once; baselines go to
 * the store later and come back at the next start, rates do not.
 *
 * Limits: requests that are in flight together before anything of their subject was learned all pass as the
 * first one, as many as the rate allows; in enforce one of them is learned. A broker that is trusted and lies
 * about its end users gets a first request and a rate for each.
 */
export class Guardrails {
  readonly #watch: Watch | undefined;

  private constructor(watch: Watch | undefined) {
    this.#watch = watch;
  }

  /**
   * Restores the baselines that are not idle for too long. With mode off the store is not touched.
   *
   * @throws what the store throws when they can't be read
   */
  static async open(options: GuardrailsOptions): Promise<Guardrails> {
    const { config, store, clock, logger, onStoreError = () => {} } = options;
    if (config.mode === "off") return new Guardrails(undefined);
    const idleMs = config.subject_ttl_minutes * 60_000;
    const time = new SteadyTime(clock);
    const read = (subject: string) => {
      const baseline = tracker.baseline(subject);
      return baseline && { ...baseline, lastSeen: time.onClock(baseline.lastSeen) };
    };
    const writer = new BaselineWriter({ store, clock, logger, onStoreError, read, refreshMs: idleMs / 8 });
    const tracker = new Tracker({
      rateLimitPerMin: config.rate_limit_per_min,
      maxSubjects: config.max_subjects,
      idleMs,
      maxDistinct: config.max_distinct_per_subject,
    }, (subject) => writer.forgotten(subject));
    const guardrails = new Guardrails({ mode: config.mode, time, tracker, writer, store, idleMs });
    guardrails.#restore(await store.loadBaselines());
    return guardrails;
  }

  get subjects(): number {
    return this.#watch?.tracker.size ?? 0;
  }

  /**
   * Learns of a subject that is not known here what another control plane has written of it: without that its first
   * request would be compared with nothing. Wait for it before {@linkcode check}.
   *
   * @throws what the store throws, in enforce
   */
  async meet({ subject }: BehaviorRequest): Promise<void> {
    if (this.#watch === undefined) return;
    const { mode, time, tracker, writer, store, idleMs } = this.#watch;
    if (store.findBaseline === undefined || tracker.baseline(subject) !== undefined) return;
    try {
      const found = await store.findBaseline(subject);
      const now = time.now();
      if (found === undefined || now - time.at(found.lastSeen) > idleMs) return;
      writer.loaded([found]);
      tracker.adopt(found, now);
    } catch (error) {
      if (mode === "enforce") throw error;
    }
  }

  /** Judges a request and counts it towards the rate of its subject, whatever becomes of it. */
  check(request: BehaviorRequest): Verdict {
    if (this.#watch === undefined) return UNWATCHED;
    const { mode, time, tracker, writer } = this.#watch;
    const now = time.now();
    const finding = tracker.check(request, now);
    writer.seen(request.subject, time.onClock(now));
    const isUsual = !finding.rate.exceeded && finding.novelties.length === 0;
    const learn = once(() => {
      if (mode === "observe") this.learn(request);
      else if (isUsual) this.#learnUsual(request);
    });
    return isUsual ? { kind: "normal", learn } : { kind: "anomalous", ...describe(finding), learn };
  }

  /** Makes a request part of what its subject usually does: it was approved and issued. */
  learn(request: BehaviorRequest): void {
    if (this.#watch === undefined) return;
    const { time, tracker, writer } = this.#watch;
    if (tracker.learn(request, time.now())) writer.changed(request.subject);
  }

  async close(): Promise<void> {
    await this.#watch?.writer.close();
  }

  #learnUsual(request: BehaviorRequest): void {
    if (this.#watch === undefined) return;
    const { time, tracker, writer } = this.#watch;
    if (tracker.learnUsual(request, time.now())) writer.changed(request.subject);
  }

  #restore(stored: readonly Baseline[]): void {
    if (this.#watch === undefined) return;
    const { time, tracker, writer, idleMs } = this.#watch;
    const now = time.now();
    writer.loaded(stored);
    const kept: Baseline[] = [];
    for (const baseline of stored) {
      const lastSeen = time.at(baseline.lastSeen);
      if (now - lastSeen > idleMs) writer.forgotten(baseline.subject);
      else kept.push({ ...baseline, lastSeen });
    }
    tracker.restore(kept);
  }
}

function describe({ rate, novelties }: Finding) {
  return {
    rateExceeded: rate.exceeded,
    anomalies: rate.exceeded ? ["rate-exceeded", ...novelties] : novelties,
    retryAfterSeconds: rate.exceeded ? Math.max(1, Math.ceil(rate.retryAfterMs / 1000)) : 0,
  };
}

function once(task: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    task();
  };
}

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
