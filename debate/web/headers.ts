/** The page runs and shows what comes from here, and is framed by nobody. */
const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

const NO_POLICY = "default-src 'none'; frame-ancestors 'none'";

const HEADERS = {
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

/** Headers of every answer, where it does not say otherwise itself. */
export function secure(response: Response): Response {
  const { headers } = response;
  const isPage = headers.get("content-type")?.startsWith("text/html") === true;
  for (const [name, value] of Object.entries(HEADERS)) headers.set(name, value);
  headers.set("content-security-policy", isPage ? PAGE_POLICY : NO_POLICY);
  if (!headers.has("cache-control")) headers.set("cache-control", "no-store");
  return response;
}
