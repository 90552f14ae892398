/**
 * Rate limits by key: a token bucket for each, in bounded memory.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { FakeClock } from "@gateway/shared/testing";
 * import { TokenBuckets } from "@gateway/shared/http";
 *
 * const buckets = new TokenBuckets({ clock: new FakeClock() });
 * assert.deepEqual(buckets.take("broker-1", 1), { ok: true });
 * assert.deepEqual(buckets.take("broker-1", 1), { ok: false, retryAfterSeconds: 60 });
 * ```
 *
 * @module
 */
import type { Clock } from "../clock.ts";

/** Whether a token was there; if not, when to try again. */
export type TakeResult = { readonly ok: true } | { readonly ok: false; readonly retryAfterSeconds: number };

/** What {@linkcode TokenBuckets} needs. */
interface TokenBucketsOptions {
  readonly clock: Clock;
  /** The most keys remembered at a time, default 4096. */
  readonly maxKeys?: number;
}

interface Bucket {
  tokens: number;
  /** When the tokens were last counted, in milliseconds since the epoch. */
  countedAt: number;
}

/** After so long every bucket is full again, whatever its limit: forgetting it changes nothing. */
const IDLE_MS = 60_000;

/** Buckets by key; the least recently used comes first in the map. */
export class TokenBuckets {
  readonly #clock: Clock;
  readonly #maxKeys: number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(options: TokenBucketsOptions) {
    this.#clock = options.clock;
    this.#maxKeys = options.maxKeys ?? 4096;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /**
   * Takes one token of a key. A bucket starts full, holds as many tokens as its limit and refills evenly. The
   * limit may change from call to call: it acts at once and never adds tokens.
   *
   * @param perMinute the limit; 0 or less means no limit
   */
  take(key: string, perMinute: number): TakeResult {
    if (perMinute <= 0) return { ok: true };
    const now = this.#clock.now();
    const bucket = this.#buckets.get(key) ?? this.#create(now, perMinute);
    this.#buckets.delete(key);
    this.#buckets.set(key, bucket);
    bucket.tokens = tokensOf(bucket, now, perMinute);
    bucket.countedAt = now;
    if (bucket.tokens < 1) return refusal(perMinute);
    bucket.tokens -= 1;
    return { ok: true };
  }

  /** What {@linkcode take} would say now, with nothing taken and nothing remembered. */
  peek(key: string, perMinute: number): TakeResult {
    const bucket = this.#buckets.get(key);
    if (perMinute <= 0 || bucket === undefined) return { ok: true };
    return tokensOf(bucket, this.#clock.now(), perMinute) < 1 ? refusal(perMinute) : { ok: true };
  }

  /** Gives a token back whose taking turned out not to count. */
  giveBack(key: string): void {
    const bucket = this.#buckets.get(key);
    if (bucket !== undefined) bucket.tokens += 1;
  }

  #create(now: number, tokens: number): Bucket {
    if (this.#buckets.size >= this.#maxKeys) this.#makeRoom(now);
    return { tokens, countedAt: now };
  }

  /** Forgets the idle ones, or the least recently used when none is. */
  #makeRoom(now: number): void {
    for (const [key, bucket] of this.#buckets) {
      const isIdle = now - bucket.countedAt > IDLE_MS;
      if (!isIdle && this.#buckets.size < this.#maxKeys) return;
      this.#buckets.delete(key);
      if (!isIdle) return;
    }
  }
}

function tokensOf({ tokens, countedAt }: Bucket, now: number, perMinute: number): number {
  // A clock that was set back must neither take tokens away nor stop the refill until it has caught up.
  const elapsedMs = Math.max(0, now - countedAt);
  return Math.min(perMinute, tokens + elapsedMs * perMinute / 60_000);
}

function refusal(perMinute: number): TakeResult {
  return { ok: false, retryAfterSeconds: Math.max(1, Math.ceil(60 / perMinute)) };
}
