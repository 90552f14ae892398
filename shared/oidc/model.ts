/**
 * The `end_user_oidc` block of `signer.json`: the signer verifies the end user itself.
 *
 * @module
 */
import * as z from "@zod/zod";

/** The block with defaults. */
export interface EndUserOidcConfig {
  /** Exactly as in the tokens. */
  readonly issuer: string;
  readonly audience: string;
  readonly required_scopes: readonly string[];
  readonly user_claim: string;
  /** `""`: no groups from tokens. */
  readonly groups_claim: string;
  /** 0: no limit. */
  readonly max_token_age_seconds: number;
  /** See {@linkcode clockSkewSeconds}. */
  readonly clock_skew_seconds: number;
}

const DEFAULT_SKEW_SECONDS = 60;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;
// RFC 6749 section 3.3; a space would separate two scopes.
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

/** Checks an {@linkcode EndUserOidcConfig}; unknown keys are rejected. */
export const endUserOidcConfig: z.ZodType<EndUserOidcConfig> = z.strictObject({
  issuer: z.string().refine(
    (text) => isProviderUrl(text) && !/[?#\s]/.test(text),
    "must be an https URL without query and fragment (http on loopback only)",
  )
    .describe("URL of the OpenID provider, exactly as in its tokens"),
  audience: z.string().min(1).describe("required audience of tokens: the broker's resource_url"),
  required_scopes: z.array(z.string().regex(SCOPE, "must be a scope without spaces")).default([])
    .describe("scopes that every token must have"),
  user_claim: z.string().min(1).default("sub").describe("claim that names the end user"),
  groups_claim: z.string().default("").describe(
    "claim with the end user's groups; a token without this claim is rejected; empty means no groups from tokens",
  ),
  max_token_age_seconds: z.int().min(0).default(0).describe(
    "maximum age of a token, in seconds; 0 means no limit",
  ),
  clock_skew_seconds: z.int().default(0)
    .describe(
      "tolerance for nbf and iat, exp has none; 0 means 60 seconds, a negative number means no tolerance",
    ),
});

/** The tolerance for `nbf` and `iat`: 0 is the default, a negative number none. */
export function clockSkewSeconds({ clock_skew_seconds }: EndUserOidcConfig): number {
  return clock_skew_seconds === 0 ? DEFAULT_SKEW_SECONDS : Math.max(0, clock_skew_seconds);
}

/** Whether a provider may be called under this URL: over TLS, or on this machine. */
export function isProviderUrl(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || url.username !== "" || url.password !== "") return false;
  return url.protocol === "https:" || (url.protocol === "http:" && LOOPBACK.test(url.hostname));
}
