import { type Clock, within } from "@gateway/shared/clock";
import { AppError, errorName } from "@gateway/shared/errors";
import { outsideRequests, type ServiceLogger } from "@gateway/shared/service";
import { collectBytes } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";

/** A postponed notification is sent again later. */
export type NotificationResult = "sent" | "failed" | "dropped" | "postponed";

export type Delivery = (signal: AbortSignal) => Promise<Attempt>;

export interface NotificationClaim {
  /** Claims whose time has passed are free. Milliseconds since the epoch. */
  readonly now: number;
  readonly until: number;
  /** The maximum number of notifications. The longest-waiting ones are claimed first. */
  readonly limit: number;
}

export interface NotificationStore {
  readonly survivesRestart: boolean;

  /** Present if other instances may send notifications too. */
  readonly shared?: object;

  /** Claims free notifications of pending approvals, each for one instance, and returns their IDs. */
  claimNotifications(claim: NotificationClaim): Promise<readonly string[]>;

  /** Notes that a notification was sent or given up. */
  endNotification(id: string): Promise<void>;
}

interface OutboxOptions {
  readonly store: NotificationStore;
  /** The approval for approvers; `undefined` if this process does not know it, or announces it with another one. */
  readonly find: (id: string) => ApprovalRecord | undefined;
  /** Writes a notification once for all attempts. */
  readonly prepare: (record: ApprovalRecord) => Delivery;
  /** The clock of all claims. */
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  readonly count: (result: NotificationResult) => void;
}

/** The time that a process has to send a notification. */
export const CLAIM_MS = 40_000;

/**
 * The time for three attempts of 5 s and the pauses between them. No attempt starts if less time is left
 * before a claim ends.
 */
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
  /** The end of the claim; absent: no other process knows of the notification. */
  readonly until: number | undefined;
}

/**
 * Sends notifications in the background. A receiver that hangs delays only notifications.
 *
 * Each notification is stored with its approval, and one process claims it at a time. Any process that shares
 * the store claims a notification again that a killed process, a full queue or a failed receiver has left,
 * until the request is decided or expires. If a process is killed between a post and its note, the receiver
 * gets the same ID again.
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

  /** Starts to claim notifications that other processes, or this program before its last end, have left. */
  start(): void {
    this.#claiming = outsideRequests(() => this.#claimOn());
  }

  /** Never waits. If too many notifications wait, the oldest is left for later. @param until the end of the claim */
  add(record: ApprovalRecord, until?: number): void {
    if (this.#isClosed) return this.#leave({ record, until }, "shutting down");
    this.#waiting.push({ record, until });
    this.#startNext();
    if (this.#waiting.length <= MAX_WAITING) return;
    const oldest = this.#waiting.shift();
    if (oldest !== undefined) this.#leave(oldest, `more than ${MAX_WAITING} are waiting`);
  }

  /** Waits a short time for pending notifications, and leaves the rest. */
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
        // A receiver that was down must not get requests that can no longer be decided.
        if (hasExpired(record, clock.now())) {
          if (failure === "") return await this.#end(record, "dropped", "expired meanwhile");
          break;
        }
        if ((find(record.id) ?? record).status !== "pending") {
          return await this.#end(record, "dropped", "decided meanwhile");
        }
        // Another process could claim it before the receiver has answered.
        if (failure === "" && clock.now() > until - SENDING_MS) return this.#leave(next, "waited too long");
        const attempt = await deliver(signal);
        if (attempt.kind === "sent") return await this.#end(record, "sent");
        failure = attempt.reason;
        if (!attempt.mayRetry) return await this.#end(record, "failed", failure);
      }
    } catch (error) {
      if (signal.aborted) return this.#leave(next, "shutting down");
      // Log only the name of the error, because its message may quote the address or the record.
      return await this.#end(record, "failed", `internal error: ${errorName(error)}`);
    }
    if (hasExpired(record, clock.now()) || next.until === undefined) {
      return await this.#end(record, "failed", failure);
    }
    this.#leave(next, failure);
  }

  async #end({ id }: ApprovalRecord, result: NotificationResult, reason = ""): Promise<void> {
    const { store, count, logger } = this.#options;
    count(result);
    if (result === "failed") logger.warn("approval notification failed", { approval: id, reason });
    if (result === "dropped") logger.warn("approval notification dropped", { approval: id, reason });
    try {
      await store.endNotification(id);
    } catch (error) {
      logger.warn("result of an approval notification not stored, it may be sent again", {
        approval: id,
        error,
      });
    }
  }

  /** Leaves a notification to the next process that claims it. Without a store, the notification is lost. */
  #leave({ record: { id }, until }: Waiting, reason: string): void {
    const { store, count, logger } = this.#options;
    const isKept = until !== undefined && (store.survivesRestart || !this.#isClosed);
    count(isKept ? "postponed" : "dropped");
    logger.warn(isKept ? "approval notification postponed" : "approval notification dropped", {
      approval: id,
      reason,
    });
  }

  async #claimOn(): Promise<void> {
    const { store, clock, logger } = this.#options;
    const signal = this.#closing.signal;
    // In a store that only this process uses, every existing claim belongs to a process that has ended.
    let isLeftOver = store.shared === undefined;
    let isFailing = false;
    while (!signal.aborted) {
      const now = isLeftOver ? Number.MAX_SAFE_INTEGER : clock.now();
      isLeftOver = false;
      try {
        await this.#claim(now);
        isFailing = false;
      } catch (error) {
        if (!isFailing) logger.warn("search for unsent approval notifications failed", { error });
        isFailing = true;
      }
      await clock.sleep(CLAIM_EVERY_MS, signal).catch(() => {});
    }
  }

  async #claim(now: number): Promise<void> {
    const { store, clock, find } = this.#options;
    const room = MAX_WAITING - this.#waiting.length;
    const limit = store.shared === undefined ? room : Math.min(MAX_CLAIMED, room);
    if (this.#isClosed || limit <= 0) return;
    const until = clock.now() + CLAIM_MS;
    for (const id of await store.claimNotifications({ now, until, limit })) {
      const record = find(id);
      // Another instance's approval that this process does not know yet, or one that was announced with its lead.
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

export type Attempt =
  | { readonly kind: "sent" }
  | {
    readonly kind: "failed";
    /** The reason of a failure without the address, whose path is often the receiver's secret. */
    readonly reason: string;
    readonly mayRetry: boolean;
  };

const TIMEOUT_MS = 5000;
const MAX_ANSWER_BYTES = 4096;

/** Posts without following redirects. Never rejects. Any 2xx counts as sent. */
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
      // A connection is reused only after its answer was read.
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

/** The platform's messages contain the address; the part after the last colon is the reason. */
function describe(error: unknown): string {
  if (error instanceof AppError) return error.message;
  if (!(error instanceof Error)) return "connection failed";
  const { message } = error.cause instanceof Error ? error.cause : error;
  const detail = /: ([^:/]+)$/.exec(message)?.[1];
  return `connection failed: ${detail ?? error.name}`;
}
