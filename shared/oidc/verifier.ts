/**
 * Who an end user is, from a bearer token of an OpenID provider (RFC 6750, RFC 7519, OpenID Connect Discovery
 * 1.0).
 *
 * ```ts ignore
 * import { loadEndUserVerifier } from "@gateway/shared/oidc/verifier";
 *
 * const verifier = await loadEndUserVerifier(config, { fetch, clock: systemClock });
 * const result = await verifier.verify(token);
 * ```
 *
 * @module
 */
import type { Clock } from "../clock.ts";
import { AppError } from "../errors.ts";
import type { EndUserOidcConfig } from "./model.ts";
import {
  checkAddress,
  decideEndUser,
  type EndUserResult,
  isAccessToken,
  parseClaims,
  refuse,
} from "./claims.ts";
import { KeySet } from "./key_set.ts";
import { hasEscapedKey } from "../strict_json.ts";
import { discoverProvider, type ProviderPorts } from "./provider.ts";
import { verifySignature } from "./signature.ts";

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
