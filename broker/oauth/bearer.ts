/** What a request brings to prove who sends it. */
export type BearerCredentials =
  | { readonly kind: "token"; readonly token: string }
  | { readonly kind: "missing" }
  /** The token also stands in the URL, where it ends up in logs (RFC 6750 section 2.3). */
  | { readonly kind: "in_url" };

/**
 * Reads the token of a request: exactly one `Authorization` header with two fields, the first `Bearer` in any
 * case (RFC 9110 section 11.1). A token elsewhere is none.
 */
export function readBearer({ headers, url }: Pick<Request, "headers" | "url">): BearerCredentials {
  // Two headers arrive as one, joined by a comma and a blank, and so are more than two fields.
  const [scheme, token, ...rest] = (headers.get("authorization") ?? "").trim().split(/[ \t]+/);
  if (scheme?.toLowerCase() !== "bearer" || token === undefined || rest.length > 0) {
    return { kind: "missing" };
  }
  return new URL(url).searchParams.has("access_token") ? { kind: "in_url" } : { kind: "token", token };
}
