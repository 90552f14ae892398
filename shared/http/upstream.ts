/**
 * Whether the service that another one depends on still answers, for that one's `/readyz`.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { UpstreamWatch } from "@gateway/shared/http";
 * import { FakeClock } from "@gateway/shared/testing";
 *
 * const clock = new FakeClock();
 * const client = { request: () => Promise.reject(new Error("refused")) };
 * const upstream = new UpstreamWatch({ what: "the signer", client, clock });
 * const stop = new AbortController();
 * const watching = upstream.run(stop.signal);
 * await clock.advance(10_000);
 * assert.equal(upstream.problem(), "no answer from the signer for 10 s");
 * stop.abort();
 * await watching;
 * ```
 *
 * @module
 */
import { type Clock, every } from "../clock.ts";

/** So long without an answer, and the service that waits for it is not ready. */
const SILENT_MS = 10_000;
const ASK_SECONDS = 2;
const ASK_TIMEOUT_MS = 4_000;
/** What it is asked for. Whether it has such a page matters to nobody: "not found" is an answer. */
const PATH = "/healthz";
/** It is there, and does not take this service's certificate: no answer that anything can be done with. */
const UNAUTHENTICATED = 401;

/** The part of a client that is used here. */
export interface UpstreamClient {
  /** Rejects when there is no answer. */
  request(options: {
    readonly method: "GET";
    readonly path: string;
    readonly timeoutMs: number;
    readonly signal: AbortSignal;
  }): Promise<{ readonly status: number }>;
}

/** What an {@linkcode UpstreamWatch} needs. */
interface UpstreamWatchOptions {
  /** As messages name it; no address, for anybody may read them. */
  readonly what: string;
  /** With a connection of its own: one that requests wait for would make the service look silent. */
  readonly client: UpstreamClient;
  readonly clock: Clock;
}

/** Asks a service again and again, and knows when it last answered. */
export class UpstreamWatch {
  readonly #options: UpstreamWatchOptions;
  #answeredAt: number;

  /** Until it has been silent for long enough, it counts as one that answers. */
  constructor(options: UpstreamWatchOptions) {
    this.#options = options;
    this.#answeredAt = options.clock.now();
  }

  /** Asks until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#ask(signal);
    await every(
      { clock: this.#options.clock, seconds: ASK_SECONDS, signal },
      () => this.#ask(signal),
    );
  }

  /** What to tell of a service that has been silent for 10 s; `undefined` for one that answers. */
  problem(): string | undefined {
    const { what } = this.#options;
    const silentMs = this.silentMs;
    return silentMs < SILENT_MS ? undefined : `no answer from ${what} for ${Math.floor(silentMs / 1000)} s`;
  }

  /** How long it has not answered, in milliseconds. */
  get silentMs(): number {
    const now = this.#options.clock.now();
    // A clock that was set back must not make the silence last longer than it does.
    this.#answeredAt = Math.min(this.#answeredAt, now);
    return now - this.#answeredAt;
  }

  async #ask(signal: AbortSignal): Promise<void> {
    const { client, clock } = this.#options;
    try {
      const { status } = await client.request({
        method: "GET",
        path: PATH,
        timeoutMs: ASK_TIMEOUT_MS,
        signal,
      });
      if (status !== UNAUTHENTICATED) this.#answeredAt = clock.now();
    } catch {
      // Silence is what is told of it.
    }
  }
}
