/**
 * Whether a request comes from a page of ours, as its browser says: `no_evidence` is a program, or a browser that
 * says nothing.
 */
export type RequestOrigin = "same_origin" | "no_evidence" | "cross_origin";

/**
 * Judges `Sec-Fetch-Site` and `Origin` (Fetch Metadata; Fetch standard, section 3.2), which scripts cannot set.
 * Whatever points elsewhere, or is not understood, is `cross_origin`.
 *
 * @param own the origin of our pages as the operator configured it; without one no `Origin` is ours. What a request
 * says of the host that it was sent to proves nothing: whoever sends it can have chosen it
 */
export function checkSameOrigin(headers: Headers, own: string | undefined): RequestOrigin {
  const site = headers.get("sec-fetch-site");
  const origin = headers.get("origin");
  if (site !== null && site !== "same-origin" && site !== "none") return "cross_origin";
  if (origin !== null && origin !== own) {
    // Our pages have no referrer, and their forms then no origin; but that alone proves nothing.
    return origin === "null" && site === "same-origin" ? "same_origin" : "cross_origin";
  }
  if (site === null) return origin === null ? "no_evidence" : "same_origin";
  return site === "same-origin" ? "same_origin" : "no_evidence";
}

/** The origin of our pages, from the template of their addresses. */
export function originOf(approvalUrlTemplate: string): string | undefined {
  return URL.parse(approvalUrlTemplate)?.origin;
}
