import { AppError } from "@gateway/shared/errors";
import { problemResponse, TokenBuckets } from "@gateway/shared/http";
import { refuseMethod } from "@gateway/shared/http/routes";
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { WebPorts } from "./ports.ts";
import { isIPv4 } from "node:net";
import { parseAddress } from "../tools/net_guard.ts";

/** The only path without credentials. It shows that the server is alive, and no other information. */
const LIVENESS_PATH = "/healthz";

const ENCODER = new TextEncoder();

type Judgement = { readonly isRight: boolean; readonly setCookie?: string };

/**
 * Accepts a request and returns headers for the response, or rejects the request with a response.
 *
 * `address` is the IP address of the client.
 */
export function createGuard(ports: WebPorts) {
  const { WEB_USERNAME, WEB_PASSWORD, WEB_ALLOW_OPEN } = ports.settings;
  const hasCredentials = WEB_USERNAME !== "";
  const expected = digest(ENCODER.encode(`${WEB_USERNAME}:${WEB_PASSWORD}`));
  const judgeGuess = createGuessLimit(ports);

  const judge = (headers: Headers, address: string): Judgement => {
    const authorization = headers.get("authorization");
    // The first request of a browser has no credentials and does not count as a guess.
    if (authorization === null) return { isRight: false };
    return judgeGuess(address, headers.get("cookie"), () => {
      // The comparison takes the same time for all credentials.
      const given = decode(/^Basic +([A-Za-z0-9+/_=-]+) *$/i.exec(authorization)?.[1]);
      return timingSafeEqual(digest(given ?? new Uint8Array()), expected) && given !== undefined;
    });
  };

  return (
    { headers, method, url }: Request,
    address: string,
  ): Response | Readonly<Record<string, string>> => {
    // Routes could derive another path from the same URL, for example if its host contains a backslash. The path
    // that is free of credentials is therefore answered here.
    const path = URL.parse(url)?.pathname;
    if (path === LIVENESS_PATH) {
      if (!["GET", "HEAD"].includes(method)) return refuseMethod(["GET"], "Method not allowed");
      return new Response("ok\n", { headers: { "content-type": "text/plain" } });
    }
    const { isRight, setCookie }: Judgement = hasCredentials ? judge(headers, address) : { isRight: true };
    if (!isRight) {
      // The sender of an alert must not try the password of the page.
      const problem = method === "POST" && path === ALERTS_PATH
        ? "No alerts are received: set ALERT_SECRET on the server"
        : "User name or password is missing or wrong";
      const response = problemResponse(new AppError("unauthenticated", problem));
      response.headers.set("www-authenticate", CHALLENGE);
      return response;
    }
    // Without credentials, the page of an attacker could reach this server by DNS rebinding.
    if (!hasCredentials && !WEB_ALLOW_OPEN && !isLoopbackHost(headers.get("host"))) {
      const fix = "set WEB_USERNAME and WEB_PASSWORD, or WEB_ALLOW_OPEN";
      throw new AppError("forbidden", `Without credentials, only loopback host names are allowed: ${fix}`);
    }
    if (method !== "GET" && method !== "HEAD" && isCrossSite(headers)) {
      throw new AppError("forbidden", "Requests from pages of other sites are not allowed");
    }
    return setCookie === undefined ? {} : { "set-cookie": setCookie };
  };
}

const ALERTS_PATH = "/api/alerts";

/**
 * Checks the secret of a request that posts an alert: true if it is right, a response if it is wrong, and false for
 * all other requests. Senders do not get the password of the page, because it approves tool calls.
 */
export function createAlertGuard(ports: WebPorts): (request: Request, address: string) => Response | boolean {
  const { ALERT_SECRET } = ports.settings;
  if (ALERT_SECRET === "") return () => false;
  const expected = digest(ENCODER.encode(ALERT_SECRET));
  const guesses = new TokenBuckets(ports);
  return ({ headers, method, url }, address) => {
    if (method !== "POST" || URL.parse(url)?.pathname !== ALERTS_PATH) return false;
    const given = secretOf(headers);
    if (given !== undefined) {
      // A client behind the same proxy must not block alerts. The length of the secret prevents guessing.
      if (timingSafeEqual(digest(given), expected)) return true;
      take(guesses, addressKey(address), CALLER_GUESSES);
    }
    const response = problemResponse(
      new AppError("unauthenticated", "The secret of the alert is missing or wrong: send ALERT_SECRET"),
    );
    response.headers.set("www-authenticate", 'Bearer realm="alerts"');
    return response;
  };
}

/** The secret of a header, or the password of basic authentication with any user name. */
function secretOf(headers: Headers): Uint8Array | undefined {
  const plain = headers.get("x-alert-secret");
  if (plain !== null) return ENCODER.encode(plain);
  const [, scheme = "", value = ""] = /^(Basic|Bearer) +(\S+) *$/i.exec(headers.get("authorization") ?? "") ??
    [];
  if (scheme.toLowerCase() !== "basic") return scheme === "" ? undefined : ENCODER.encode(value);
  const pair = decode(value);
  const colon = pair?.indexOf(0x3a) ?? -1;
  return colon < 0 ? undefined : pair?.subarray(colon + 1);
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
 * Detects a request from a page of another site. Such a page can send requests with the stored credentials of the
 * browser.
 */
function isCrossSite(headers: Headers): boolean {
  const site = headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin" && site !== "none") return true;
  const origin = headers.get("origin");
  // Programs other than browsers do not send this header.
  if (origin === null) return false;
  const host = headers.get("host");
  const own = host === null ? undefined : URL.parse(`http://${host}`)?.host;
  const theirs = URL.parse(origin);
  if (theirs === null || own === undefined) return true;
  // Behind a proxy that terminates TLS, the origin is https: without a port.
  return theirs.host !== own && theirs.host !== URL.parse(`https://${host}`)?.host;
}

function isLoopbackHost(host: string | null): boolean {
  const name = host === null || /[/?#@\\\s]/.test(host) ? undefined : URL.parse(`http://${host}`)?.hostname;
  return name !== undefined && isLoopback(name.replace(/^\[|\]$/g, ""));
}

/** Only this machine can reach a loopback address. */
export function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "::1" || (isIPv4(hostname) && hostname.startsWith("127."));
}

/**
 * Wrong passwords are limited per address and in total. An attacker behind the same reverse proxy could lock out
 * everyone, so a browser gets a cookie and a separate limit after its first correct password. Clients without
 * cookies share the limit of their address.
 */

/** Wrong passwords per minute from one address or one known browser. */
export const CALLER_GUESSES = 10;
export const ALL_GUESSES = 100;

const COOKIE = "debate_browser";
const COOKIE_VALUE = new RegExp(`(?:^|; ?)${COOKIE}=([\\w-]{12})\\.([\\w-]{43})(?:;|$)`);
const ID_BYTES = 9;
const KEY_BYTES = 32;
const COOKIE_SECONDS = 30 * 24 * 3600;

/** A restart resets the limits and forgets the known browsers. */
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
    // A stolen cookie gives only a separate limit. It must work without TLS, because loopback has no TLS.
    return `${COOKIE}=${id}.${sign(id)}; Path=/; Max-Age=${COOKIE_SECONDS}; HttpOnly; SameSite=Strict`;
  }

  /** Checks a password. Over the limit, the response does not reveal if the password was right. */
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

/** An IPv6 subscriber has at least a /64 network, which counts as one address. */
function addressKey(text: string): string {
  const address = parseAddress(text);
  if (address === undefined) return text;
  return address.kind() === "ipv4" ? address.toString() : `${address.toByteArray().slice(0, 8)}/64`;
}
