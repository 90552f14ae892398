/**
 * Only our own page may talk to the server through a browser. Another site can make a browser send requests here,
 * with the credentials that the browser has stored, and it can make its own name resolve to our address.
 *
 * @module
 */
import { isIPv4 } from "node:net";

/** Whether a request that changes something comes from another site's page, as its browser says. */
export function isCrossSite(headers: Headers): boolean {
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

/** Whether a host header names this machine's loopback. */
export function isLoopbackHost(host: string | null): boolean {
  const name = host === null || /[/?#@\\\s]/.test(host) ? undefined : URL.parse(`http://${host}`)?.hostname;
  return name !== undefined && isLoopback(name.replace(/^\[|\]$/g, ""));
}

/** Whether an address to listen on can be reached only from this machine. */
export function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "::1" || (isIPv4(hostname) && hostname.startsWith("127."));
}
