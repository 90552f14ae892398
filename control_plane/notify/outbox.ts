import { type Clock, within } from "@gateway/shared/clock";
import { AppError, errorName } from "@gateway/shared/errors";
import { outsideRequests, type ServiceLogger } from "@gateway/shared/service";
import { collectBytes } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";

/** What becomes of a notification; what is postponed is tried again. */
export type NotificationResult = "sent" | "failed" | "dropped" | "postponed";

/** Tries once to deliver a notification; bounded in time, also by the signal. */
export type Delivery = (signal: AbortSignal) => Promise<Attempt>;

/** Which notifications an instance takes over. */
export interface NotificationClaim {
  /** Those that somebody was to send before now, in milliseconds since the epoch. */
  readonly now: number;
  /** Until then nobody else sends them. */
  readonly until: number;
  /** How many at most, those that have waited longest. */
  readonly limit: number;
}

/** Where it is kept which notifications are to be sent, and by whom. */
export interface NotificationStore {
  /** Whether what is kept outlives the process. */
  readonly survivesRestart: boolean;

  /** Present where other instances may send them too. */
  readonly shared?: object;

  /**
   * Takes over notifications of pending approvals that nobody sends any more, each for one of those that ask at the
   * same time.
   *
   * @returns their ids
   */
  claimNotifications(claim: NotificationClaim): Promise<readonly string[]>;

  /** Notes that approvers were told of an approval, or that this is given up. */
  endNotification(id: string): Promise<void>;
}

/** What an {@linkcode Outbox} needs. */
interface OutboxOptions {
  readonly store: NotificationStore;
  /** An approval as approvers see it now; `undefined`: this process does not know it, or tells of it with another. */
  readonly find: (id: string) => ApprovalRecord | undefined;
  /** Makes the notification of a record, once for all attempts. */
  readonly prepare: (record: ApprovalRecord) => Delivery;
  /** The one that claims are compared by. */
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  readonly count: (result: NotificationResult) => void;
}

/** How long a process has for a notification that it parked or claimed, in milliseconds. */
export const CLAIM_MS = 40_000;

/** At the end of a claim nobody begins what may take as long: three attempts of 5 s, and the pauses. */
const SENDING_MS = 21_000;
const CLAIM_EVERY_MS = 5_000;
const MAX_CLAIMED = 32;
const MAX_WAITING = 256;
const MAX_AT_A_TIME = 4;
/** Before each attempt; the third is the last. */
const PAUSES_MS: readonly number[] = [0, 1000, 4000];
const CLOSING_GRACE_MS = 2000;

interface Waiting {
  readonly record: ApprovalRecord;
  /** Until then nobody else sends it; absent: nobody else knows of it. */
  readonly until: number | undefined;
}

/**
 * Notifications on their way out. Adding never waits; a receiver that hangs delays notifications, nothing else.
 *
 * Each is kept with its approval before anybody hears of that, and one process has it at a time, for a while: what a
 * killed process, a full queue or a receiver that is down has left over is claimed again, by any process that shares
 * the store, until somebody has decided or the request has expired. Of a process that is killed after a post was
 * accepted and before that was noted, the receiver gets a second one of the same id.
 */
export class Outbox {
  readonly #options: OutboxOptions;
  readonly #waiting: Waiting[] = [];
  readonly #running = new Set<Promise<void>>();
  readonly #closing = new AbortController();
  #claiming: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /** Begins to claim what others, or this program before its last end, have left over. */
  start(): void {
    this.#claiming = outsideRequests(() => this.#claimOn());
  }

  /**
   * Sends a record when its turn comes. When too many wait, the one that has waited longest is left for later.
   *
   * @param until until when nobody else sends it, as the store knows
   */
  add(record: ApprovalRecord, until?: number): void {
    if (this.#isClosed) return this.#leave({ record, until }, "shutting down");
    this.#waiting.push({ record, until });
    this.#startNext();
    if (this.#waiting.length <= MAX_WAITING) return;
    const oldest = this.#waiting.shift();
    if (oldest !== undefined) this.#leave(oldest, `more than ${MAX_WAITING} are waiting`);
  }

  /** Gives what is under way and what waits a short time to get out, and leaves the rest. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const { clock } = this.#options;
    await within({ clock, ms: CLOSING_GRACE_MS }, this.#drained()).catch(() => {});
    for (const left of this.#waiting.splice(0)) this.#leave(left, "shutting down");
    this.#closing.abort();
    await this.#drained();
    await this.#claiming;
  }

  async #drained(): Promise<void> {
    while (this.#running.size > 0) await Promise.race(this.#running);
  }

  #startNext(): void {
    while (this.#running.size < MAX_AT_A_TIME) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      const run = outsideRequests(() => this.#send(next)).finally(() => {
        this.#running.delete(run);
        this.#startNext();
      });
      this.#running.add(run);
    }
  }

  async #send(next: Waiting): Promise<void> {
    const { clock, find } = this.#options;
    const { record, until = Infinity } = next;
    const signal = this.#closing.signal;
    let failure = "";
    try {
      const deliver = this.#options.prepare(record);
      for (const pauseMs of PAUSES_MS) {
        if (pauseMs > 0) await clock.sleep(pauseMs, signal);
        // A receiver that was down must not get a pile of requests that nobody can decide any more.
        if (hasExpired(record, clock.now())) {
          if (failure === "") return await this.#end(record, "dropped", "expired meanwhile");
          break;
        }
        if ((find(record.id) ?? record).status !== "pending") {
          return await this.#end(record, "dropped", "decided meanwhile");
        }
        // Another may have it by the time that the receiver has answered.
        if (failure === "" && clock.now() > until - SENDING_MS) return this.#leave(next, "waited too long");
        const attempt = await deliver(signal);
        if (attempt.kind === "sent") return await this.#end(record, "sent");
        failure = attempt.reason;
        if (!attempt.mayRetry) return await this.#end(record, "failed", failure);
      }
    } catch (error) {
      if (signal.aborted) return this.#leave(next, "shutting down");
      // Only the name: the message may quote the address or the record.
      return await this.#end(record, "failed", `internal error: ${errorName(error)}`);
    }
    if (hasExpired(record, clock.now()) || next.until === undefined) {
      return await this.#end(record, "failed", failure);
    }
    this.#leave(next, failure);
  }

  /** Nobody has to see to this one any more. */
  async #end({ id }: ApprovalRecord, result: NotificationResult, reason = ""): Promise<void> {
    const { store, count, logger } = this.#options;
    count(result);
    if (result === "failed") logger.warn("Cannot send approval notification", { approval: id, reason });
    if (result === "dropped") logger.warn("Dropped approval notification", { approval: id, reason });
    try {
      await store.endNotification(id);
    } catch (error) {
      logger.warn("Cannot note that an approval notification has ended: it may come again", {
        approval: id,
        error,
      });
    }
  }

  /** Whoever claims it next sends it; where nobody can, it is lost. */
  #leave({ record: { id }, until }: Waiting, reason: string): void {
    const { store, count, logger } = this.#options;
    const isKept = until !== undefined && (store.survivesRestart || !this.#isClosed);
    count(isKept ? "postponed" : "dropped");
    logger.warn(isKept ? "Postponed approval notification" : "Dropped approval notification", {
      approval: id,
      reason,
    });
  }

  async #claimOn(): Promise<void> {
    const { store, clock, logger } = this.#options;
    const signal = this.#closing.signal;
    // What is in a store of this process alone was left over by one that has ended.
    let isLeftOver = store.shared === undefined;
    let isFailing = false;
    while (!signal.aborted) {
      const now = isLeftOver ? Number.MAX_SAFE_INTEGER : clock.now();
      isLeftOver = false;
      try {
        await this.#claim(now);
        isFailing = false;
      } catch (error) {
        if (!isFailing) logger.warn("Cannot look for approval notifications that are left over", { error });
        isFailing = true;
      }
      await clock.sleep(CLAIM_EVERY_MS, signal).catch(() => {});
    }
  }

  async #claim(now: number): Promise<void> {
    const { store, clock, find } = this.#options;
    const room = MAX_WAITING - this.#waiting.length;
    // Others that share the store send some as well.
    const limit = store.shared === undefined ? room : Math.min(MAX_CLAIMED, room);
    if (this.#isClosed || limit <= 0) return;
    const until = clock.now() + CLAIM_MS;
    for (const id of await store.claimNotifications({ now, until, limit })) {
      const record = find(id);
      // Another's, which this process will hear of before it claims it again; or decided with one that was announced,
      // and to be announced should they be parted.
      if (record === undefined) continue;
      const { status } = record;
      if (status === "pending") this.add(record, until);
      else await this.#end(record, "dropped", `${status === "expired" ? "expired" : "decided"} meanwhile`);
    }
  }
}

function hasExpired({ expires_at }: ApprovalRecord, now: number): boolean {
  return expires_at !== undefined && Date.parse(expires_at) <= now;
}

/** How one attempt to deliver a notification ended. */
export type Attempt =
  | { readonly kind: "sent" }
  | {
    readonly kind: "failed";
    /** For the log: without the address, whose path is often the receiver's secret. */
    readonly reason: string;
    readonly mayRetry: boolean;
  };

const TIMEOUT_MS = 5000;
const MAX_ANSWER_BYTES = 4096;

/** Posts, follows no redirect, and never rejects. What is answered with 2xx counts as sent, whatever else comes. */
export async function postJson({ fetch, clock, url, headers, body, signal }: {
  readonly fetch: typeof globalThis.fetch;
  readonly clock: Clock;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal: AbortSignal;
}): Promise<Attempt> {
  let status: number | undefined;
  try {
    const late = () => new AppError("timeout", `no answer within ${TIMEOUT_MS / 1000} seconds`);
    await within({ clock, ms: TIMEOUT_MS, signal, late }, async (signal) => {
      const response = await fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body,
        redirect: "manual",
        signal,
      });
      status = response.status;
      // A connection whose answer was read can serve again.
      if (response.body !== null) await collectBytes(response.body, MAX_ANSWER_BYTES);
    });
  } catch (error) {
    if (status === undefined) return { kind: "failed", reason: describe(error), mayRetry: true };
  }
  status ??= 0;
  if (status >= 200 && status < 300) return { kind: "sent" };
  const reason = status >= 300 && status < 400
    ? `answered ${status}; redirects are not followed`
    : `answered ${status}`;
  return { kind: "failed", reason, mayRetry: status >= 500 || status === 429 };
}

/** The platform's texts hold the whole address; the part after the last colon is what went wrong. */
function describe(error: unknown): string {
  if (error instanceof AppError) return error.message;
  if (!(error instanceof Error)) return "connection failed";
  const { message } = error.cause instanceof Error ? error.cause : error;
  const detail = /: ([^:/]+)$/.exec(message)?.[1];
  return `connection failed: ${detail ?? error.name}`;
}
