/**
 * A verifier of end users' tokens with its issuer and clock, for tests of the verifier.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { CLAIMS, openVerifierScene, RSA_KEY, verified } from "./verifier_scene.ts";
 *
 * const { issuer, verifier } = await openVerifierScene();
 * assert.deepEqual(await verifier.verify(await issuer.sign(CLAIMS, RSA_KEY)), verified("alice"));
 * ```
 *
 * @module
 */
import { type EndUserOidcConfig, endUserOidcConfig } from "../oidc/model.ts";
import { type EndUserResult, type EndUserVerifier, loadEndUserVerifier } from "../oidc/mod.ts";
import { FakeClock } from "./fake_clock.ts";
import { createIssuerKey, createTokenIssuer, type IssuerKey, type TokenIssuer } from "./token_issuer.ts";

/** The issuer of the tokens. */
export const ISSUER = "https://login.example/realm";

/** The audience of the tokens. */
export const AUDIENCE = "https://mcp.example";

/** The time of the scene, in seconds since the epoch. */
export const NOW = 1_700_000_000;

/** A part of every token. No result may contain it. */
export const SECRET_MARK = "c2VjcmV0bWFyaw";

/** The claims of a valid token with a lifetime of five minutes. */
export const CLAIMS = {
  iss: ISSUER,
  aud: AUDIENCE,
  sub: "alice",
  exp: NOW + 300,
  iat: NOW - 10,
  jti: SECRET_MARK,
};

/** The issuer's key, `k1`. */
export const RSA_KEY: IssuerKey = await createIssuerKey("k1");

/** Another RSA key, `k2`, which the issuer publishes only if a test adds it. */
export const OTHER_KEY: IssuerKey = await createIssuerKey("k2");

/** An issuer, a verifier that has loaded its keys, and their clock. */
export interface VerifierScene {
  readonly issuer: TokenIssuer;
  readonly clock: FakeClock;
  readonly verifier: EndUserVerifier;
}

/** Loads a verifier with the given config keys changed. The issuer publishes the given keys. */
export async function openVerifierScene(
  change: Partial<EndUserOidcConfig> = {},
  keys: readonly IssuerKey[] = [RSA_KEY],
  /** Runs before the verifier is loaded. */
  prepare: (issuer: TokenIssuer) => void = () => {},
): Promise<VerifierScene> {
  const issuer = createTokenIssuer(change.issuer ?? ISSUER, keys);
  prepare(issuer);
  const clock = new FakeClock(NOW * 1000);
  const config = endUserOidcConfig.parse({ issuer: ISSUER, audience: AUDIENCE, ...change });
  return { issuer, clock, verifier: await loadEndUserVerifier(config, { fetch: issuer.fetch, clock }) };
}

/** The result for an accepted token. */
export function verified(endUser: string, groups: readonly string[] | null = null): EndUserResult {
  return { kind: "verified", endUser, groups };
}

/** The result for a rejected token. */
export function refused(reason: string): EndUserResult {
  const code = reason === "insufficient scope" ? "insufficient_scope" : "invalid_token";
  return { kind: "refused", reason, code };
}
