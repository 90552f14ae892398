/**
 * Whether a request comes from a page of ours, as its browser says: `no_evidence` is a program, or a browser that
 * says nothing.
 */
export type RequestOrigin = "same_origin" | "no_evidence" | "cross_origin";

/**
 * Judges `Sec-Fetch-Site` and `Origin` (Fetch Metadata; Fetch standard, section 3.2), which scripts cannot set.
 * Whatever points elsewhere, or is not understood, is `cross_origin`.
 *
 * @param host what the request was sent to: its `Host` header
 */
export function checkSameOrigin(headers: Headers, host: string | null): RequestOrigin {
  const site = headers.get("sec-fetch-site");
  const origin = headers.get("origin");
  if (site !== null && site !== "same-origin" && site !== "none") return "cross_origin";
  if (origin !== null && origin !== ownOrigin(host)) {
    // Our pages have no referrer, and their forms then no origin; but that alone proves nothing.
    return origin === "null" && site === "same-origin" ? "same_origin" : "cross_origin";
  }
  if (site === null) return origin === null ? "no_evidence" : "same_origin";
  return site === "same-origin" ? "same_origin" : "no_evidence";
}

function ownOrigin(host: string | null): string | undefined {
  return host === null || !/^[^/?#@\\\s]+$/.test(host) ? undefined : URL.parse(`https://${host}`)?.origin;
}
