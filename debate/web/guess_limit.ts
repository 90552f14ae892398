/**
 * How often a password may be guessed. Each address has a number of guesses per minute, and so have all
 * together, so that using many addresses does not help. Both would let a stranger lock out everybody whose
 * requests come through the same reverse proxy; therefore a browser that was right once is recognised by a
 * cookie and has its own guesses, which nobody else can use up. A client without cookies, such as a script,
 * shares the guesses of its address.
 *
 * @module
 */
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { TokenBuckets } from "@gateway/shared/http";
import { createHmac, timingSafeEqual } from "node:crypto";
import { parseAddress } from "../tools/ip_address.ts";

/** Wrong passwords per minute from one address or one known browser. */
export const CALLER_GUESSES = 10;
/** Wrong passwords per minute from all unknown clients together. */
export const ALL_GUESSES = 100;

const COOKIE = "debate_browser";
const COOKIE_VALUE = new RegExp(`(?:^|; ?)${COOKIE}=([\\w-]{12})\\.([\\w-]{43})(?:;|$)`);
const ID_BYTES = 9;
const KEY_BYTES = 32;
const COOKIE_SECONDS = 30 * 24 * 3600;

/** What a {@linkcode GuessLimit} needs. */
interface GuessLimitOptions {
  readonly clock: Clock;
  /** Returns this many random bytes. */
  readonly randomBytes: (length: number) => Uint8Array;
}

interface Guesser {
  /** The IP address that the request comes from. */
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

  /**
   * Judges a guess, unless there were too many; then nothing is revealed about it.
   *
   * @returns whether it is right, and for a browser that is not known yet the `Set-Cookie` header that makes it
   * known
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
