import type { Clock } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/service";
import type { BehaviorConfig, BehaviorMode } from "../config/config.ts";
import { SteadyTime } from "../approvals/steady_time.ts";
import { type BaselineStore, BaselineWriter } from "./baseline_writer.ts";
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
