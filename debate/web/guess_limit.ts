/**
 * Each address has a number of guesses per minute, and all addresses together have one. An attacker behind
 * the same reverse proxy could lock out everyone. Therefore a browser that was right once gets a cookie and
 * its own guesses. Clients without cookies share the guesses of their address.
 */
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { TokenBuckets } from "@gateway/shared/http";
import { createHmac, timingSafeEqual } from "node:crypto";
import { parseAddress } from "../tools/net_guard.ts";

/** Wrong passwords per minute from one address or one known browser. */
export const CALLER_GUESSES = 10;
export const ALL_GUESSES = 100;

const COOKIE = "debate_browser";
const COOKIE_VALUE = new RegExp(`(?:^|; ?)${COOKIE}=([\\w-]{12})\\.([\\w-]{43})(?:;|$)`);
const ID_BYTES = 9;
const KEY_BYTES = 32;
const COOKIE_SECONDS = 30 * 24 * 3600;

interface GuessLimitOptions {
  readonly clock: Clock;
  readonly randomBytes: (length: number) => Uint8Array;
}

interface Guesser {
  readonly address: string;
  readonly cookie: string | null;
}

/** The guesses of one server; after a restart they are forgotten, as are the known browsers. */
export class GuessLimit {
  readonly #callers: TokenBuckets;
  readonly #all: TokenBuckets;
  readonly #options: GuessLimitOptions;
  readonly #key: Uint8Array;

  constructor(options: GuessLimitOptions) {
    this.#options = options;
    this.#callers = new TokenBuckets(options);
    this.#all = new TokenBuckets(options);
    this.#key = options.randomBytes(KEY_BYTES);
  }

  /** Judges a guess, unless there were too many; then nothing is revealed about it. */
  judge(
    guesser: Guesser,
    isRight: () => boolean,
  ): { readonly isRight: boolean; readonly setCookie?: string } {
    const browser = this.#browserOf(guesser.cookie);
    const caller = browser === undefined ? addressKey(guesser.address) : `browser ${browser}`;
    take(this.#callers, caller, CALLER_GUESSES);
    if (browser === undefined) take(this.#all, "all", ALL_GUESSES);
    if (!isRight()) return { isRight: false };
    this.#callers.giveBack(caller);
    if (browser !== undefined) return { isRight: true };
    this.#all.giveBack("all");
    return { isRight: true, setCookie: this.#newCookie() };
  }

  #newCookie(): string {
    const id = this.#options.randomBytes(ID_BYTES).toBase64({ alphabet: "base64url" });
    // Stealing it gains only those guesses, so it may be sent without TLS, which is necessary on loopback.
    return `${COOKIE}=${id}.${this.#sign(id)}; Path=/; Max-Age=${COOKIE_SECONDS}; HttpOnly; SameSite=Strict`;
  }

  #browserOf(cookie: string | null): string | undefined {
    const [, id, signature] = COOKIE_VALUE.exec(cookie ?? "") ?? [];
    if (id === undefined || signature === undefined) return undefined;
    const [given, expected] = [signature, this.#sign(id)].map((text) => new TextEncoder().encode(text));
    return given !== undefined && expected !== undefined && timingSafeEqual(given, expected) ? id : undefined;
  }

  #sign(id: string): string {
    return createHmac("sha256", this.#key).update(id).digest("base64url");
  }
}

function take(buckets: TokenBuckets, key: string, perMinute: number): void {
  const result = buckets.take(key, perMinute);
  if (result.ok) return;
  const { retryAfterSeconds } = result;
  throw new AppError("rate_limited", "Too many wrong passwords: wait a little before you try again", {
    retryAfterSeconds,
  });
}

/** An IPv6 subscriber has at least a whole /64. */
function addressKey(text: string): string {
  const address = parseAddress(text);
  if (address === undefined) return text;
  return address.kind() === "ipv4" ? address.toString() : `${address.toByteArray().slice(0, 8)}/64`;
}
