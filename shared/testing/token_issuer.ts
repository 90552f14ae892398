import {
  exportJWK,
  generateKeyPair,
  type GenerateKeyPairResult,
  type JWK,
  type JWTHeaderParameters,
  SignJWT,
} from "@panva/jose";

/** A signing key of a {@linkcode TokenIssuer}. */
export interface IssuerKey {
  /** The key ID of the tokens. `undefined` creates tokens without a key ID. */
  readonly kid: string | undefined;
  /** The `alg` of tokens (RFC 7518). */
  readonly algorithm: string;
  readonly privateKey: GenerateKeyPairResult["privateKey"];
  /** The public key as a JWK. */
  readonly jwk: JWK;
}

/** An OpenID provider in memory that issues tokens and serves its documents. */
export interface TokenIssuer {
  /** Its URL, the `iss` of its tokens. */
  readonly issuer: string;
  /** The published keys. A test can change them. */
  published: readonly object[];
  /** Members that the discovery document adds or replaces. */
  metadata: Readonly<Record<string, unknown>>;
  /** Responses that replace a document, by the last path segment. */
  readonly answers: Map<string, () => Response | Promise<Response>>;
  /** The last path segments of all requests. */
  readonly requests: string[];
  /** Serves its documents in place of the network. */
  readonly fetch: typeof fetch;
  /** Signs a token with these claims. `header` adds to `alg` and `kid`. */
  sign(claims: object, key: IssuerKey, header?: Partial<JWTHeaderParameters>): Promise<string>;
}

/** Creates a key pair. */
export async function createIssuerKey(kid: string, algorithm = "RS256"): Promise<IssuerKey> {
  const { privateKey, publicKey } = await generateKeyPair(algorithm, { extractable: true });
  return {
    kid,
    algorithm,
    privateKey,
    jwk: { ...await exportJWK(publicKey), kid, alg: algorithm, use: "sig" },
  };
}

/** A provider that publishes the public halves of these keys. */
export function createTokenIssuer(issuer: string, keys: readonly IssuerKey[]): TokenIssuer {
  const provider: TokenIssuer = {
    issuer,
    published: keys.map(({ jwk }) => jwk),
    metadata: { id_token_signing_alg_values_supported: [...new Set(keys.map(({ algorithm }) => algorithm))] },
    answers: new Map(),
    requests: [],
    async fetch(input) {
      const name = new URL(String(input instanceof Request ? input.url : input)).pathname.split("/").at(-1) ??
        "";
      provider.requests.push(name);
      const answer = provider.answers.get(name);
      if (answer !== undefined) return await answer();
      if (name === "jwks") return Response.json({ keys: provider.published });
      const base = issuer.replace(/\/$/, "");
      if (name === "openid-configuration") {
        return Response.json({ issuer, jwks_uri: `${base}/jwks`, ...provider.metadata });
      }
      return new Response(null, { status: 404 });
    },
    sign(claims, { kid, algorithm, privateKey }, header = {}) {
      return new SignJWT({ ...claims }).setProtectedHeader({
        alg: algorithm,
        ...(kid !== undefined && { kid }),
        ...header,
      }).sign(
        privateKey,
      );
    },
  };
  return provider;
}
