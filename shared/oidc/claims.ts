/**
 * What the claims of a token say about an end user, once its signature is known to be good.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { parseClaims, refuse } from "@gateway/shared/oidc/claims";
 *
 * assert.deepEqual(parseClaims(new TextEncoder().encode('{"sub":"alice"}')), { sub: "alice" });
 * assert.equal(refuse("token expired").code, "invalid_token");
 * ```
 *
 * @module
 */
import { isUnsafe } from "../characters.ts";
import { parseStandardJson } from "../json.ts";
import { clockSkewSeconds, type EndUserOidcConfig } from "./model.ts";

/** Who the end user is, by a token that can be trusted. */
export interface VerifiedEndUser {
  /** The token can be trusted. */
  readonly kind: "verified";
  /** The value of the `user_claim`; it has no blanks and control characters. */
  readonly endUser: string;
  /** `null`: the config takes no groups from tokens. `[]`: the end user has none. */
  readonly groups: readonly string[] | null;
}

/** Why a token says nothing about an end user. */
export interface RefusedToken {
  /** The token can't be trusted. */
  readonly kind: "refused";
  /** For the audit log; nothing of the token stands in it. */
  readonly reason: string;
  /** RFC 6750 section 3.1. */
  readonly code: "invalid_token" | "insufficient_scope";
}

/** What came of a token. */
export type EndUserResult = VerifiedEndUser | RefusedToken;

/** The claims of a token (RFC 7519 section 4). */
export type Claims = Readonly<Record<string, unknown>>;

/** A refusal. */
export function refuse(reason: string, code: RefusedToken["code"] = "invalid_token"): RefusedToken {
  return { kind: "refused", reason, code };
}

/** The claims in a token's payload, or `undefined` when it is not a JSON object. */
export function parseClaims(payload: Uint8Array): Claims | undefined {
  try {
    const value: unknown = parseStandardJson(new TextDecoder("utf-8", { fatal: true }).decode(payload));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Whether a token is one for us at all: right issuer and audience, not expired, not far in the future. Comes
 * before the signature, so that other tokens cost no key lookup, and once more after it.
 */
export function checkAddress(
  claims: Claims,
  config: EndUserOidcConfig,
  nowMs: number,
): RefusedToken | undefined {
  if (claim(claims, "iss") !== config.issuer) return refuse("token is from another issuer");
  const audience = claim(claims, "aud");
  const audiences: readonly unknown[] = Array.isArray(audience) ? audience : [audience];
  if (!audiences.includes(config.audience)) return refuse("token is for another audience");
  const expiry = claim(claims, "exp");
  if (!isTime(expiry)) return refuse("exp claim absent or not numeric");
  if (nowMs / 1000 >= expiry) return refuse("token expired");
  return undefined;
}

/**
 * Whether a token can be an access token. An ID token tells a client who logged in, and a logout token who logged out:
 * neither grants access (OpenID Connect Core section 2, Back-Channel Logout section 2.4, RFC 9068 section 4). An ID
 * token without `nonce` and hashes looks like an access token; its audience is the client.
 */
export function isAccessToken(header: Claims, claims: Claims): boolean {
  const type = claim(header, "typ") ?? "JWT";
  if (typeof type !== "string" || !/^(?:JWT|(?:application\/)?at\+jwt)$/i.test(type)) return false;
  if (claim(claims, "events") !== undefined) return false;
  // Keycloak: access tokens of older versions have a nonce, too.
  const own = claim(claims, "typ");
  if (own === "Bearer") return true;
  return own !== "ID" && ["nonce", "at_hash", "c_hash"].every((name) => claim(claims, name) === undefined);
}

/** What the claims of a token with a good signature say. */
export function decideEndUser(claims: Claims, config: EndUserOidcConfig, nowMs: number): EndUserResult {
  const address = checkAddress(claims, config, nowMs);
  if (address !== undefined) return address;
  const endUser = claim(claims, config.user_claim);
  if (typeof endUser !== "string" || endUser === "") return refuse("user claim absent or not a string");
  if (isUnsafe(endUser)) return refuse("user claim has control characters or blanks");
  // An unverified address can be another person's.
  const isVerified = claim(claims, "email_verified");
  if (config.user_claim === "email" && ![undefined, true, "true"].some((value) => value === isVerified)) {
    return refuse("email address not verified");
  }
  const time = checkTimes(claims, config, nowMs / 1000);
  if (time !== undefined) return time;
  const groups = readGroups(claims, config);
  if (groups === undefined) return refuse("groups claim absent or neither a list nor a string");
  if (groups?.some(isUnsafe)) return refuse("groups claim has control characters or blanks");
  const scopes = readScopes(claims);
  if (!config.required_scopes.every((scope) => scopes.has(scope))) {
    return refuse("insufficient scope", "insufficient_scope");
  }
  return { kind: "verified", endUser, groups };
}

function checkTimes(claims: Claims, config: EndUserOidcConfig, now: number): RefusedToken | undefined {
  const skew = clockSkewSeconds(config);
  const notBefore = claim(claims, "nbf");
  if (notBefore !== undefined && !isTime(notBefore)) return refuse("nbf claim not numeric");
  if (notBefore !== undefined && notBefore > now + skew) return refuse("token not valid yet");
  if (config.max_token_age_seconds === 0) return undefined;
  const issuedAt = claim(claims, "iat");
  if (!isTime(issuedAt)) return refuse("iat claim absent or not numeric");
  // A time in the future would be a negative age, which is younger than any limit.
  if (issuedAt > now + skew) return refuse("token issued in the future");
  if (now - issuedAt > config.max_token_age_seconds + skew) return refuse("token too old");
  return undefined;
}

/** `null` without a groups claim in the config, `undefined` when the token lacks it. */
function readGroups(claims: Claims, config: EndUserOidcConfig): readonly string[] | null | undefined {
  if (config.groups_claim === "") return null;
  const groups = claim(claims, config.groups_claim);
  if (Array.isArray(groups)) return groups.filter((group) => typeof group === "string" && group !== "");
  return typeof groups === "string" && groups !== "" ? [groups] : undefined;
}

function readScopes(claims: Claims): ReadonlySet<unknown> {
  const scope = claim(claims, "scope");
  if (typeof scope === "string") return new Set(scope.split(" "));
  const list = claim(claims, "scp");
  return new Set(Array.isArray(list) ? list : []);
}

/** A claim by its plain name, and nothing that every object has. */
function claim(claims: Claims, name: string): unknown {
  return Object.hasOwn(claims, name) ? claims[name] : undefined;
}

function isTime(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

function isObject(value: unknown): value is Claims {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
