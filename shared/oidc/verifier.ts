/**
 * Who an end user is, from a bearer token of an OpenID provider (RFC 6750, RFC 7519, OpenID Connect Discovery
 * 1.0).
 *
 * ```ts ignore
 * import { loadEndUserVerifier } from "@gateway/shared/oidc";
 *
 * const verifier = await loadEndUserVerifier(config, { fetch, clock: systemClock });
 * const result = await verifier.verify(token);
 * ```
 *
 * @module
 */
import type { Clock } from "../clock.ts";
import { AppError } from "../errors.ts";
import { clockSkewSeconds, type EndUserOidcConfig } from "./model.ts";
import { discoverProvider, type FindKey, KeySet, type ProviderPorts } from "./provider.ts";
import { hasEscapedKey, parseStandardJson } from "../json.ts";
import { compactVerify, type CryptoKey, errors } from "@panva/jose";
import { isUnsafe } from "../text.ts";

export type { ProviderPorts } from "./provider.ts";

/** Finds out who the end user is from a bearer token. */
export interface EndUserVerifier {
  /** Never throws for a bad token or a provider that is down: both are refusals. Nothing of the token is kept. */
  verify(token: string): Promise<EndUserResult>;
  /** Fetches the provider's keys again before the next token is verified. */
  expireKeys(): void;
}

const MAX_TOKEN_LENGTH = 16 * 1024;
const COMPACT = /^(?<header>[\w-]+)\.(?<payload>[\w-]+)\.[\w-]+$/;

/**
 * A verifier for one provider, which must answer now.
 *
 * @param block the key of the config that names the provider, for messages
 * @throws {AppError} `invalid_config` when the provider or its keys can't be had or used
 */
export async function loadEndUserVerifier(
  config: EndUserOidcConfig,
  ports: ProviderPorts,
  block: "end_user_oidc" | "oauth" = "end_user_oidc",
): Promise<EndUserVerifier> {
  try {
    const provider = await discoverProvider(config.issuer, ports);
    const keys = new KeySet(provider, ports);
    await keys.current();
    const { algorithms } = provider;
    return {
      verify: (token) => verify(token, { config, algorithms, keys, clock: ports.clock }),
      expireKeys: () => keys.expire(),
    };
  } catch (cause) {
    if (!(cause instanceof AppError)) throw cause;
    throw new AppError("invalid_config", `Cannot load ${block}: ${cause.message}`, { cause });
  }
}

interface Verification {
  readonly config: EndUserOidcConfig;
  readonly algorithms: readonly string[];
  readonly keys: KeySet;
  readonly clock: Clock;
}

async function verify(token: string, verification: Verification): Promise<EndUserResult> {
  const { config, algorithms, keys, clock } = verification;
  const parts = token.length > MAX_TOKEN_LENGTH ? undefined : COMPACT.exec(token)?.groups;
  const headerBytes = decodeSegment(parts?.["header"]);
  const header = hasPlainKeys(headerBytes) ? parseClaims(headerBytes) : undefined;
  const claimed = parseClaims(decodeSegment(parts?.["payload"]));
  if (header === undefined || claimed === undefined) return refuse("token malformed");
  const problem = checkAddress(claimed, config, clock.now());
  if (problem !== undefined) return problem;
  // A header that must be understood changes what the signature means; a token of this kind has none.
  if (Object.hasOwn(header, "crit")) return refuse("token has critical header parameters");
  if (!isAccessToken(header, claimed)) return refuse("token is an ID or logout token, not an access token");
  const signed = await verifySignature(token, { keys, algorithms, namesKey: Object.hasOwn(header, "kid") });
  if (signed.kind === "refused") return refuse(signed.reason);
  const claims = parseClaims(signed.payload);
  return claims === undefined ? refuse("token malformed") : decideEndUser(claims, config, clock.now());
}

/** The bytes of a part; none when it is not base64url. */
function decodeSegment(segment = ""): Uint8Array {
  try {
    return Uint8Array.fromBase64(segment, { alphabet: "base64url" });
  } catch {
    return new Uint8Array();
  }
}

/** The library reads the header once more, with the engine's parser. */
function hasPlainKeys(header: Uint8Array): boolean {
  return !hasEscapedKey(new TextDecoder().decode(header));
}

/** A token whose signature is the issuer's. */
interface SignedToken {
  readonly kind: "signed";
  /** The bytes that were signed. */
  readonly payload: Uint8Array;
}

/** With what a signature is checked. */
interface SignatureCheck {
  readonly keys: KeySet;
  readonly algorithms: readonly string[];
  /** Whether the token says which key it was signed with. */
  readonly namesKey: boolean;
}

interface Refusal extends RefusedToken {
  /** Whether keys that the issuer has made meanwhile could change the answer. */
  readonly isKeyMissing: boolean;
}

/** Checks the signature of a token; looks for newer keys once when none of the known ones fits. */
async function verifySignature(
  token: string,
  check: SignatureCheck,
): Promise<SignedToken | RefusedToken> {
  try {
    const result = await tryKeys(token, await check.keys.current(), check);
    if (result.kind === "signed" || !result.isKeyMissing) return result;
    const newer = await check.keys.newer();
    return newer === undefined ? result : await tryKeys(token, newer, check);
  } catch (error) {
    if (error instanceof AppError) return refuse(error.message);
    throw error;
  }
}

async function tryKeys(
  token: string,
  findKey: FindKey,
  check: SignatureCheck,
): Promise<SignedToken | Refusal> {
  const options = { algorithms: [...check.algorithms] };
  const attempt = async (key: FindKey | CryptoKey): Promise<SignedToken> => {
    const { payload } = typeof key === "function"
      ? await compactVerify(token, key, options)
      : await compactVerify(token, key, options);
    return { kind: "signed", payload };
  };
  let failure: unknown;
  try {
    return await attempt(findKey);
  } catch (error) {
    failure = error;
  }
  if (failure instanceof errors.JWKSMultipleMatchingKeys) {
    // A token that does not say which of several keys it was signed with.
    for await (const key of failure) {
      try {
        return await attempt(key);
      } catch (error) {
        failure = error;
      }
    }
  }
  return explain(failure, check.namesKey);
}

/** The messages of the library are not passed on: what they quote of the token is up to it. */
function explain(error: unknown, namesKey: boolean): Refusal {
  const refusal = (reason: string, isKeyMissing = false) => ({ ...refuse(reason), isKeyMissing });
  if (error instanceof errors.JOSEAlgNotAllowed) return refusal("signature algorithm not allowed");
  if (error instanceof errors.JWKSNoMatchingKey) return refusal("no key of the issuer fits the token", true);
  // A token that names its key was signed with that one or not at all.
  if (error instanceof errors.JWSSignatureVerificationFailed) {
    return refusal("signature does not verify", !namesKey);
  }
  if (error instanceof errors.JOSEError) return refusal("token malformed");
  // What is left is a key that the platform does not take: RSA that is too short, a point beside its curve.
  return refusal("the issuer's key cannot be used", true);
}

/** Who the end user is, by a token that can be trusted. */
export interface VerifiedEndUser {
  readonly kind: "verified";
  /** The value of the `user_claim`; it has no blanks and control characters. */
  readonly endUser: string;
  /** `null`: the config takes no groups from tokens. `[]`: the end user has none. */
  readonly groups: readonly string[] | null;
}

/** Why a token says nothing about an end user. */
interface RefusedToken {
  readonly kind: "refused";
  /** For the audit log; nothing of the token stands in it. */
  readonly reason: string;
  /** RFC 6750 section 3.1. */
  readonly code: "invalid_token" | "insufficient_scope";
}

/** What came of a token. */
export type EndUserResult = VerifiedEndUser | RefusedToken;

/** The claims of a token (RFC 7519 section 4). */
type Claims = Readonly<Record<string, unknown>>;

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
function checkAddress(
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
