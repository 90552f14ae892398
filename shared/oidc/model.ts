/**
 * The `end_user_oidc` block of `signer.json`: how the signer checks for itself who the end user is.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { endUserOidcConfig } from "@gateway/shared/oidc/model";
 *
 * const block = endUserOidcConfig.parse({ issuer: "https://login.example", audience: "https://mcp.example" });
 * assert.equal(block.user_claim, "sub");
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";

/** The block after defaults. */
export interface EndUserOidcConfig {
  /** As it stands in the tokens, to the letter. */
  readonly issuer: string;
  /** The `aud` that a token must have. */
  readonly audience: string;
  /** Scopes that a token must carry, all of them. */
  readonly required_scopes: readonly string[];
  /** The claim that names the end user. */
  readonly user_claim: string;
  /** `""`: groups are not taken from tokens. */
  readonly groups_claim: string;
  /** 0 means no limit. */
  readonly max_token_age_seconds: number;
  /** 0 is 60 seconds, a negative number none; see {@linkcode clockSkewSeconds}. */
  readonly clock_skew_seconds: number;
}

const DEFAULT_SKEW_SECONDS = 60;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;
// RFC 6749 section 3.3; a blank inside would make two scopes of one.
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

/** Checks an {@linkcode EndUserOidcConfig}; unknown keys are refused. */
export const endUserOidcConfig: z.ZodType<EndUserOidcConfig> = z.strictObject({
  issuer: z.string().refine(
    isIssuerUrl,
    "must be an https URL without query and fragment (http on loopback only)",
  )
    .describe("URL of the OpenID provider, exactly as in its tokens"),
  audience: z.string().min(1).describe("the audience that tokens must have: the broker's resource_url"),
  required_scopes: z.array(z.string().regex(SCOPE, "must be a scope without blanks")).default([])
    .describe("scopes that a token must carry, all of them"),
  user_claim: z.string().min(1).default("sub").describe("claim that names the end user"),
  groups_claim: z.string().default("").describe(
    "claim with the end user's groups, a token without it is refused; empty: no groups from tokens",
  ),
  max_token_age_seconds: z.int().min(0).default(0).describe(
    "how long ago a token may have been issued; 0 means no limit",
  ),
  clock_skew_seconds: z.int().default(0)
    .describe(
      "tolerance for nbf and iat, exp has none; 0 means 60 seconds, a negative number means no tolerance",
    ),
});

/** The tolerance for `nbf` and `iat` in seconds. */
export function clockSkewSeconds({ clock_skew_seconds }: EndUserOidcConfig): number {
  return clock_skew_seconds === 0 ? DEFAULT_SKEW_SECONDS : Math.max(0, clock_skew_seconds);
}

/** Whether a provider may be spoken to under this URL: over TLS, or on this machine. */
export function isProviderUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, username, password } = new URL(text);
  if (username !== "" || password !== "") return false;
  return protocol === "https:" || (protocol === "http:" && LOOPBACK.test(hostname));
}

function isIssuerUrl(text: string): boolean {
  return isProviderUrl(text) && !/[?#\s]/.test(text);
}
