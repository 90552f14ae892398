import { AppError } from "@gateway/shared/errors";
import { problemResponse, TokenBuckets } from "@gateway/shared/http";
import { refuseMethod } from "@gateway/shared/http/routes";
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { WebPorts } from "./ports.ts";
import { isIPv4 } from "node:net";
import type { Clock } from "@gateway/shared/clock";
import { parseAddress } from "../tools/net_guard.ts";

/** The only path without credentials: it shows that the server is alive, and nothing more. */
const LIVENESS_PATH = "/healthz";

type Passed = Readonly<Record<string, string>>;

/**
 * Lets a request pass, or answers it.
 *
 * @param address the IP address that it comes from
 */
type Guard = (request: Request, address: string) => Passed | Response;

export function createGuard({ settings, clock, randomBytes }: WebPorts): Guard {
  const { WEB_USERNAME, WEB_PASSWORD, WEB_ALLOW_OPEN } = settings;
  const hasCredentials = WEB_USERNAME !== "";
  const check = createCheck(WEB_USERNAME, WEB_PASSWORD);
  const guesses = new GuessLimit({ clock, randomBytes });

  /** A request without credentials does not count as a guess: a browser first asks without them. */
  const judge = (headers: Headers, address: string) => {
    const authorization = headers.get("authorization");
    if (authorization === null) return { isRight: false };
    return guesses.judge({ address, cookie: headers.get("cookie") }, () => check(authorization));
  };

  return ({ headers, method, url }, address) => {
    // Answered here, since the routes may find another path in the same URL, such as one whose host has a
    // backslash.
    if (URL.parse(url)?.pathname === LIVENESS_PATH) return tellAlive(method);
    const { isRight, setCookie } = hasCredentials ? judge(headers, address) : { isRight: true };
    if (!isRight) {
      const response = problemResponse(new AppError("unauthenticated", "Username and password are needed"));
      response.headers.set("www-authenticate", CHALLENGE);
      return response;
    }
    // If no credentials are required, a foreign page's name could resolve to our address (DNS rebinding).
    if (!hasCredentials && !WEB_ALLOW_OPEN && !isLoopbackHost(headers.get("host"))) {
      throw new AppError(
        "forbidden",
        "This server only answers to names of the loopback interface: set WEB_USERNAME and WEB_PASSWORD, or WEB_ALLOW_OPEN",
      );
    }
    if (method !== "GET" && method !== "HEAD" && isCrossSite(headers)) {
      throw new AppError("forbidden", "The request comes from a page of another site");
    }
    return setCookie === undefined ? {} : { "set-cookie": setCookie };
  };
}

function tellAlive(method: string): Response {
  if (method === "GET" || method === "HEAD") {
    return new Response("ok\n", { headers: { "content-type": "text/plain" } });
  }
  return refuseMethod(["GET"], "Method not allowed");
}

type CheckCredentials = (authorization: string | null) => boolean;

const CHALLENGE = 'Basic realm="debate", charset="UTF-8"';

/** Checks in a time that reveals nothing about the credentials. */
function createCheck(username: string, password: string): CheckCredentials {
  const expected = digest(new TextEncoder().encode(`${username}:${password}`));
  return (authorization) => {
    const [, encoded] = /^Basic +([A-Za-z0-9+/_=-]+) *$/i.exec(authorization ?? "") ?? [];
    const given = encoded === undefined ? undefined : decode(encoded);
    return timingSafeEqual(digest(given ?? new Uint8Array()), expected) && given !== undefined;
  };
}

function decode(encoded: string): Uint8Array | undefined {
  try {
    return Uint8Array.fromBase64(encoded);
  } catch {
    return undefined;
  }
}

function digest(bytes: Uint8Array): Uint8Array {
  return createHash("sha256").update(bytes).digest();
}

/**
 * Another site can make a browser send requests here with stored credentials, and it can make its own name
 * resolve to our address (DNS rebinding).
 */

/** Whether a request that changes something comes from another site's page, as its browser says. */
function isCrossSite(headers: Headers): boolean {
  const site = headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin" && site !== "none") return true;
  const origin = headers.get("origin");
  // Programs other than browsers do not send it.
  if (origin === null) return false;
  const host = headers.get("host");
  const own = host === null ? undefined : URL.parse(`http://${host}`)?.host;
  const theirs = URL.parse(origin);
  if (theirs === null || own === undefined) return true;
  // Behind a proxy that terminates TLS, it is https: without a port.
  return theirs.host !== own && theirs.host !== URL.parse(`https://${host}`)?.host;
}

function isLoopbackHost(host: string | null): boolean {
  const name = host === null || /[/?#@\\\s]/.test(host) ? undefined : URL.parse(`http://${host}`)?.hostname;
  return name !== undefined && isLoopback(name.replace(/^\[|\]$/g, ""));
}

/** Whether an address to listen on can be reached only from this machine. */
export function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "::1" || (isIPv4(hostname) && hostname.startsWith("127."));
}

/**
 * Each address has a number of guesses per minute, and all addresses together have one. An attacker behind
 * the same reverse proxy could lock out everyone. Therefore a browser that was right once gets a cookie and
 * its own guesses. Clients without cookies share the guesses of their address.
 */

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
class GuessLimit {
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
