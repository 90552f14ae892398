/**
 * The end user of a bearer token of an OpenID provider (RFC 6750, RFC 7519).
 *
 * @module
 */
import { compactVerify, type CryptoKey, errors } from "@panva/jose";
import type { Clock } from "../clock.ts";
import { AppError, configError } from "../errors.ts";
import { hasEscapedKey, isObject, type JsonObject as Claims, parseStandardJson } from "../json.ts";
import { isUnsafe } from "../text.ts";
import { clockSkewSeconds, type EndUserOidcConfig } from "./model.ts";
import { discoverProvider, type FindKey, KeySet, type ProviderPorts } from "./provider.ts";

/** Finds the end user of a bearer token. */
export interface EndUserVerifier {
  /**
   * Never throws for an invalid token or an unavailable provider: both are rejections. No part of the token
   * is stored.
   */
  verify(token: string): Promise<EndUserResult>;
  /** Fetches the provider's keys again before the next token is verified. */
  expireKeys(): void;
}

/** The end user of a verified token. */
export interface VerifiedEndUser {
  readonly kind: "verified";
  /** The value of the `user_claim`, without spaces and control characters. */
  readonly endUser: string;
  /** `null`: the config reads no groups from tokens. `[]`: the end user has none. */
  readonly groups: readonly string[] | null;
}

/** A rejected token. */
interface RefusedToken {
  readonly kind: "refused";
  /** For the audit log, without any part of the token. */
  readonly reason: string;
  /** RFC 6750 section 3.1. */
  readonly code: "invalid_token" | "insufficient_scope";
}

/** The result for a token. */
export type EndUserResult = VerifiedEndUser | RefusedToken;

/** Creates a rejection. */
export function refuse(reason: string, code: RefusedToken["code"] = "invalid_token"): RefusedToken {
  return { kind: "refused", reason, code };
}

const MAX_TOKEN_LENGTH = 16 * 1024;
const COMPACT = /^(?<header>[\w-]+)\.(?<payload>[\w-]+)\.[\w-]+$/;

/**
 * Creates a verifier for one provider, which must be available at this time.
 *
 * @param block the config key of the provider, for messages
 * @throws {AppError} `invalid_config` if the provider or its keys are unavailable or unusable
 */
export async function loadEndUserVerifier(
  config: EndUserOidcConfig,
  ports: ProviderPorts,
  block: "end_user_oidc" | "oauth" = "end_user_oidc",
): Promise<EndUserVerifier> {
  try {
    const { jwksUri, algorithms } = await discoverProvider(config.issuer, ports);
    const keys = new KeySet(jwksUri, ports);
    await keys.current();
    return {
      verify: (token) => verify(token, config, { keys, algorithms, clock: ports.clock }),
      expireKeys: () => keys.expire(),
    };
  } catch (cause) {
    if (!(cause instanceof AppError)) throw cause;
    throw configError(`Cannot load ${block}: ${cause.message}`, cause);
  }
}

interface Issuer {
  readonly keys: KeySet;
  readonly algorithms: readonly string[];
  readonly clock: Clock;
}

async function verify(token: string, config: EndUserOidcConfig, issuer: Issuer): Promise<EndUserResult> {
  const { clock } = issuer;
  const parts = token.length > MAX_TOKEN_LENGTH ? undefined : COMPACT.exec(token)?.groups;
  const headerBytes = decodeSegment(parts?.["header"]);
  // The library parses the header again, with the engine's JSON parser.
  const isPlain = !hasEscapedKey(new TextDecoder().decode(headerBytes));
  const header = isPlain ? parseClaims(headerBytes) : undefined;
  const claimed = parseClaims(decodeSegment(parts?.["payload"]));
  if (header === undefined || claimed === undefined) return refuse("token malformed");
  const problem = checkAddress(claimed, config, clock.now());
  if (problem !== undefined) return problem;
  // A critical header parameter changes the meaning of the signature.
  if (Object.hasOwn(header, "crit")) return refuse("token has critical header parameters");
  if (!isAccessToken(header, claimed)) return refuse("token is an ID or logout token, not an access token");
  const signed = await verifySignature(token, issuer, Object.hasOwn(header, "kid"));
  if (!(signed instanceof Uint8Array)) return refuse(signed.reason);
  const claims = parseClaims(signed);
  return claims === undefined ? refuse("token malformed") : decideEndUser(claims, config, clock.now());
}

/** The bytes of a part; empty if it is not base64url. */
function decodeSegment(segment = ""): Uint8Array {
  try {
    return Uint8Array.fromBase64(segment, { alphabet: "base64url" });
  } catch {
    return new Uint8Array();
  }
}

/** The reason why no key verifies a token. */
interface KeyFailure {
  readonly reason: string;
  /** Whether newer keys could change the result. */
  readonly isKeyMissing: boolean;
}

/**
 * Verifies the signature of a token; if none of the known keys fits, fetches newer keys once.
 *
 * @param namesKey whether the token names its key
 * @returns the signed bytes, or the failure
 */
async function verifySignature(
  token: string,
  { keys, algorithms }: Issuer,
  namesKey: boolean,
): Promise<Uint8Array | KeyFailure> {
  const attempt = (findKey: FindKey) => tryKeys(token, findKey, algorithms, namesKey);
  try {
    const result = await attempt(await keys.current());
    if (result instanceof Uint8Array || !result.isKeyMissing) return result;
    const newer = await keys.newer();
    return newer === undefined ? result : await attempt(newer);
  } catch (error) {
    if (error instanceof AppError) return { reason: error.message, isKeyMissing: false };
    throw error;
  }
}

async function tryKeys(
  token: string,
  findKey: FindKey,
  allowed: readonly string[],
  namesKey: boolean,
): Promise<Uint8Array | KeyFailure> {
  const options = { algorithms: [...allowed] };
  const attempt = async (key: FindKey | CryptoKey): Promise<Uint8Array> => {
    const { payload } = typeof key === "function"
      ? await compactVerify(token, key, options)
      : await compactVerify(token, key, options);
    return payload;
  };
  let failure: unknown;
  try {
    return await attempt(findKey);
  } catch (error) {
    failure = error;
  }
  if (failure instanceof errors.JWKSMultipleMatchingKeys) {
    // The token does not name its key.
    for await (const key of failure) {
      try {
        return await attempt(key);
      } catch (error) {
        failure = error;
      }
    }
  }
  return explain(failure, namesKey);
}

/** The library's messages are not passed on, because they may quote the token. */
function explain(error: unknown, namesKey: boolean): KeyFailure {
  const failure = (reason: string, isKeyMissing = false) => ({ reason, isKeyMissing });
  if (error instanceof errors.JOSEAlgNotAllowed) return failure("signature algorithm not allowed");
  if (error instanceof errors.JWKSNoMatchingKey) return failure("no key of the issuer fits the token", true);
  // A token that names its key is signed with that key, or not at all.
  if (error instanceof errors.JWSSignatureVerificationFailed) {
    return failure("signature does not verify", !namesKey);
  }
  if (error instanceof errors.JOSEError) return failure("token malformed");
  // The platform rejects the key: RSA that is too short, a point outside its curve.
  return failure("the issuer's key cannot be used", true);
}

/** Parses a token's payload; `undefined` if it is not a JSON object. */
export function parseClaims(payload: Uint8Array): Claims | undefined {
  try {
    const value: unknown = parseStandardJson(new TextDecoder("utf-8", { fatal: true }).decode(payload));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Checks that the token is for us: right issuer and audience, not expired. The check comes before the signature, so
 * that other tokens cost no key lookup, and again after it.
 */
function checkAddress(
  claims: Claims,
  config: EndUserOidcConfig,
  nowMs: number,
): RefusedToken | undefined {
  if (claim(claims, "iss") !== config.issuer) return refuse("token is from another issuer");
  if (![claim(claims, "aud")].flat().includes(config.audience)) {
    return refuse("token is for another audience");
  }
  const expiry = claim(claims, "exp");
  if (!isTime(expiry)) return refuse("exp claim absent or not numeric");
  return nowMs / 1000 >= expiry ? refuse("token expired") : undefined;
}

/**
 * Whether a token can be an access token. An ID token proves a login, and a logout token a logout: neither grants access
 * (OpenID Connect Core section 2, Back-Channel Logout section 2.4, RFC 9068 section 4). An ID token without `nonce` and
 * hashes looks like an access token, but its audience is the client.
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

/** Finds the end user in the claims of a token with a valid signature. */
export function decideEndUser(claims: Claims, config: EndUserOidcConfig, nowMs: number): EndUserResult {
  const address = checkAddress(claims, config, nowMs);
  if (address !== undefined) return address;
  const endUser = claim(claims, config.user_claim);
  if (typeof endUser !== "string" || endUser === "") return refuse("user claim absent or not a string");
  if (isUnsafe(endUser)) return refuse("user claim has control characters or spaces");
  // Reject an unverified email address, because it may belong to another person.
  const isVerified = claim(claims, "email_verified");
  if (config.user_claim === "email" && ![undefined, true, "true"].some((value) => value === isVerified)) {
    return refuse("email address not verified");
  }
  const time = checkTimes(claims, config, nowMs / 1000);
  if (time !== undefined) return time;
  const groups = readGroups(claims, config);
  if (groups === undefined) return refuse("groups claim absent or neither a list nor a string");
  if (groups?.some(isUnsafe)) return refuse("groups claim has control characters or spaces");
  const scope = claim(claims, "scope");
  const list = claim(claims, "scp");
  const scopes: readonly unknown[] = typeof scope === "string"
    ? scope.split(" ")
    : Array.isArray(list)
    ? list
    : [];
  if (!config.required_scopes.every((scope) => scopes.includes(scope))) {
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
  // A time in the future would be a negative age, which is below any limit.
  if (issuedAt > now + skew) return refuse("token issued in the future");
  return now - issuedAt > config.max_token_age_seconds + skew ? refuse("token too old") : undefined;
}

/**
 * The groups in the token. `null` if the config names no groups claim, `undefined` if the token lacks the
 * claim.
 */
function readGroups(claims: Claims, config: EndUserOidcConfig): readonly string[] | null | undefined {
  if (config.groups_claim === "") return null;
  const groups = claim(claims, config.groups_claim);
  if (Array.isArray(groups)) return groups.filter((group) => typeof group === "string" && group !== "");
  return typeof groups === "string" && groups !== "" ? [groups] : undefined;
}

/** A claim of the token. Names of the prototype's members are not claims. */
function claim(claims: Claims, name: string): unknown {
  return Object.hasOwn(claims, name) ? claims[name] : undefined;
}

function isTime(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}
