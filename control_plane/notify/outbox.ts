import type { Clock } from "@gateway/shared/clock";
import { errorName } from "@gateway/shared/errors";
import type { ServiceLogger } from "@gateway/shared/log";
import { outsideRequests } from "@gateway/shared/request_context";
import { within } from "@gateway/shared/within";
import type { ApprovalRecord } from "@gateway/shared/wire/approval";
import type { Attempt } from "./post.ts";

/** What becomes of a notification. */
export type NotificationResult = "sent" | "failed" | "dropped";

/** Tries once to deliver a notification; bounded in time, also by the signal. */
export type Delivery = (signal: AbortSignal) => Promise<Attempt>;

/** What an {@linkcode Outbox} needs. */
export interface OutboxOptions {
  /** Makes the notification of a record, once for all attempts. */
  readonly prepare: (record: ApprovalRecord) => Delivery;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  readonly count: (result: NotificationResult) => void;
}

const MAX_WAITING = 256;
const MAX_AT_A_TIME = 4;
/** Before each attempt; the third is the last. */
const PAUSES_MS: readonly number[] = [0, 1000, 4000];
const CLOSING_GRACE_MS = 2000;

/**
 * Notifications on their way out. Adding never waits; a receiver that hangs delays and at last loses
 * notifications, nothing else. What waits is lost with the process: approvers see all requests in their list.
 */
export class Outbox {
  readonly #options: OutboxOptions;
  readonly #waiting: ApprovalRecord[] = [];
  readonly #running = new Set<Promise<void>>();
  readonly #closing = new AbortController();
  #isClosed = false;

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /** Sends a record when its turn comes. When too many wait, the one that has waited longest is dropped. */
  add(record: ApprovalRecord): void {
    if (this.#isClosed) return this.#drop(record, "shutting down");
    this.#waiting.push(record);
    this.#startNext();
    if (this.#waiting.length <= MAX_WAITING) return;
    const oldest = this.#waiting.shift();
    if (oldest !== undefined) this.#drop(oldest, `more than ${MAX_WAITING} are waiting`);
  }

  /** Gives what is under way and what waits a short time to get out, and drops the rest. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const { clock } = this.#options;
    await within({ clock, ms: CLOSING_GRACE_MS }, this.#drained()).catch(() => {});
    for (const record of this.#waiting.splice(0)) this.#drop(record, "shutting down");
    this.#closing.abort();
    await this.#drained();
  }

  async #drained(): Promise<void> {
    while (this.#running.size > 0) await Promise.race(this.#running);
  }

  #startNext(): void {
    while (this.#running.size < MAX_AT_A_TIME) {
      const record = this.#waiting.shift();
      if (record === undefined) return;
      const run = outsideRequests(() => this.#send(record)).finally(() => {
        this.#running.delete(run);
        this.#startNext();
      });
      this.#running.add(run);
    }
  }

  async #send(record: ApprovalRecord): Promise<void> {
    const { clock, count, logger } = this.#options;
    const signal = this.#closing.signal;
    let failure = "";
    try {
      const deliver = this.#options.prepare(record);
      for (const pauseMs of PAUSES_MS) {
        if (pauseMs > 0) await clock.sleep(pauseMs, signal);
        // A receiver that was down must not get a pile of requests that nobody can decide any more.
        if (hasExpired(record, clock.now())) {
          if (failure === "") return this.#drop(record, "expired meanwhile");
          break;
        }
        const attempt = await deliver(signal);
        if (attempt.kind === "sent") return count("sent");
        failure = attempt.reason;
        if (!attempt.mayRetry) break;
      }
    } catch (error) {
      if (signal.aborted) return this.#drop(record, "shutting down");
      // Only the name: the message may quote the address or the record.
      failure = `internal error: ${errorName(error)}`;
    }
    count("failed");
    logger.warn("Cannot send approval notification", { approval: record.id, reason: failure });
  }

  #drop({ id }: ApprovalRecord, reason: string): void {
    const { count, logger } = this.#options;
    count("dropped");
    logger.warn("Dropped approval notification", { approval: id, reason });
  }
}

function hasExpired({ expires_at }: ApprovalRecord, now: number): boolean {
  return expires_at !== undefined && Date.parse(expires_at) <= now;
}
