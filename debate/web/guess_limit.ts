/**
 * How often a password may be guessed. An address has so many guesses a minute, and all of them together too, so that
 * many addresses are no way around. Both would let a stranger lock out everybody whose requests come by the same
 * reverse proxy; therefore a browser that has been right once is known by a cookie and has guesses of its own, which
 * nobody else can use up. What sends no cookie, such as a script, shares those of its address.
 *
 * @module
 */
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { TokenBuckets } from "@gateway/shared/token_bucket";
import { createHmac, timingSafeEqual } from "node:crypto";
import { parseAddress } from "../tools/ip_address.ts";

/** Wrong passwords of one address or one known browser, a minute. */
export const CALLER_GUESSES = 10;
/** Wrong passwords of all unknown ones together, a minute. */
export const ALL_GUESSES = 100;

const COOKIE = "debate_browser";
const COOKIE_VALUE = new RegExp(`(?:^|; ?)${COOKIE}=([\\w-]{12})\\.([\\w-]{43})(?:;|$)`);
const ID_BYTES = 9;
const KEY_BYTES = 32;
const COOKIE_SECONDS = 30 * 24 * 3600;

/** What a {@linkcode GuessLimit} needs. */
export interface GuessLimitOptions {
  readonly clock: Clock;
  /** So many random bytes. */
  readonly randomBytes: (length: number) => Uint8Array;
}

/** Who guesses. */
export interface Guesser {
  /** The IP address that the request comes from. */
  readonly address: string;
  /** The request's `Cookie` header. */
  readonly cookie: string | null;
}

/** The guesses of one server; a restart forgets them, and the browsers that it knew. */
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

  /**
   * Judges a guess, unless there were too many: then nothing is told about it.
   *
   * @returns whether it is right, and for a browser that is not known yet the `Set-Cookie` header that makes it so
   * @throws {AppError} `rate_limited`
   */
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
    // Whoever steals it gets nothing but those guesses: it may travel without TLS, as on loopback it has to.
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

/** One subscriber has at least the whole /64 of an IPv6 address. */
function addressKey(text: string): string {
  const address = parseAddress(text);
  if (address === undefined) return text;
  return address.kind() === "ipv4" ? address.toString() : `${address.toByteArray().slice(0, 8)}/64`;
}
