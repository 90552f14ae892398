import { AppError } from "@gateway/shared/errors";
import { problemResponse, TokenBuckets } from "@gateway/shared/http";
import { refuseMethod } from "@gateway/shared/http/routes";
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { WebPorts } from "./ports.ts";
import { isIPv4 } from "node:net";
import { parseAddress } from "../tools/net_guard.ts";

/** The only path without credentials: it shows that the server is alive, and nothing more. */
const LIVENESS_PATH = "/healthz";

const ENCODER = new TextEncoder();

type Judgement = { readonly isRight: boolean; readonly setCookie?: string };

/**
 * Lets a request pass with headers for its answer, or answers it.
 *
 * The guard's `address` is the IP address that the request comes from.
 */
export function createGuard(ports: WebPorts) {
  const { WEB_USERNAME, WEB_PASSWORD, WEB_ALLOW_OPEN } = ports.settings;
  const hasCredentials = WEB_USERNAME !== "";
  const expected = digest(ENCODER.encode(`${WEB_USERNAME}:${WEB_PASSWORD}`));
  const judgeGuess = createGuessLimit(ports);

  const judge = (headers: Headers, address: string): Judgement => {
    const authorization = headers.get("authorization");
    // This is no guess: a browser first sends a request without credentials.
    if (authorization === null) return { isRight: false };
    return judgeGuess(address, headers.get("cookie"), () => {
      // Equal times reveal nothing about the credentials.
      const given = decode(/^Basic +([A-Za-z0-9+/_=-]+) *$/i.exec(authorization)?.[1]);
      return timingSafeEqual(digest(given ?? new Uint8Array()), expected) && given !== undefined;
    });
  };

  return (
    { headers, method, url }: Request,
    address: string,
  ): Response | Readonly<Record<string, string>> => {
    // Answered here, since the routes may find another path in the same URL, such as one whose host has a
    // backslash.
    if (URL.parse(url)?.pathname === LIVENESS_PATH) {
      if (!["GET", "HEAD"].includes(method)) return refuseMethod(["GET"], "Method not allowed");
      return new Response("ok\n", { headers: { "content-type": "text/plain" } });
    }
    const { isRight, setCookie }: Judgement = hasCredentials ? judge(headers, address) : { isRight: true };
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

const CHALLENGE = 'Basic realm="debate", charset="UTF-8"';

function decode(encoded: string | undefined): Uint8Array | undefined {
  try {
    return encoded === undefined ? undefined : Uint8Array.fromBase64(encoded);
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

/** A browser says that the request comes from a page of another site. */
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

/** The address can be reached only from this machine. */
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

/** The guesses of one server; after a restart they are forgotten, as are the known browsers. */
function createGuessLimit({ clock, randomBytes }: Pick<WebPorts, "clock" | "randomBytes">) {
  const [callers, all] = [new TokenBuckets({ clock }), new TokenBuckets({ clock })];
  const key = randomBytes(KEY_BYTES);
  const sign = (id: string) => createHmac("sha256", key).update(id).digest("base64url");

  function browserOf(cookie: string | null): string | undefined {
    const [, id, signature] = COOKIE_VALUE.exec(cookie ?? "") ?? [];
    if (id === undefined || signature === undefined) return undefined;
    return timingSafeEqual(ENCODER.encode(signature), ENCODER.encode(sign(id))) ? id : undefined;
  }

  function newCookie(): string {
    const id = randomBytes(ID_BYTES).toBase64({ alphabet: "base64url" });
    // Stealing it gains only those guesses, so it may be sent without TLS, which is necessary on loopback.
    return `${COOKIE}=${id}.${sign(id)}; Path=/; Max-Age=${COOKIE_SECONDS}; HttpOnly; SameSite=Strict`;
  }

  /** Judges a guess, unless there were too many; then nothing is revealed about it. */
  return (address: string, cookie: string | null, check: () => boolean): Judgement => {
    const browser = browserOf(cookie);
    const caller = browser === undefined ? addressKey(address) : `browser ${browser}`;
    take(callers, caller, CALLER_GUESSES);
    if (browser === undefined) take(all, "all", ALL_GUESSES);
    if (!check()) return { isRight: false };
    callers.giveBack(caller);
    if (browser !== undefined) return { isRight: true };
    all.giveBack("all");
    return { isRight: true, setCookie: newCookie() };
  };
}

function take(buckets: TokenBuckets, key: string, perMinute: number): void {
  const result = buckets.take(key, perMinute);
  if (!result.ok) {
    throw new AppError("rate_limited", "Too many wrong passwords: wait before you retry", result);
  }
}

/** An IPv6 subscriber has at least a whole /64. */
function addressKey(text: string): string {
  const address = parseAddress(text);
  if (address === undefined) return text;
  return address.kind() === "ipv4" ? address.toString() : `${address.toByteArray().slice(0, 8)}/64`;
}
