/**
 * The sign-in of people in browsers: the authorization code flow of OpenID Connect with PKCE.
 *
 * @module
 */
import * as client from "openid-client";
import { AppError } from "../errors.ts";
import type { JsonObject } from "../json.ts";
import { type ProviderPorts, requestProvider } from "./provider.ts";

/** A client of one provider. */
interface LoginConfig extends Readonly<Record<"issuer" | "clientId" | "clientSecret", string>> {
  /** The scopes in addition to `openid`. */
  readonly scopes: readonly string[];
  /** Additional CAs of the provider's certificate, as PEM text; empty: none. */
  readonly ca: string;
  /** The address to which the provider sends browsers back. */
  readonly redirectUri: string;
}

/** The secrets of one sign-in. They bind the response of the provider to the browser that started. */
export type LoginSecrets = Readonly<Record<"state" | "nonce" | "verifier", string>>;

/** Signs people in. The provider is discovered at the first sign-in, and again after a failure. */
export class LoginClient implements Disposable {
  readonly #config: LoginConfig;
  readonly #ports: ProviderPorts;
  readonly #http: Deno.HttpClient | undefined;
  #provider: Promise<client.Configuration> | undefined;

  /** Creates a client without a request to the provider. */
  constructor(config: LoginConfig, { fetch, clock }: ProviderPorts) {
    this.#config = config;
    const http = config.ca === "" ? undefined : Deno.createHttpClient({ caCerts: [config.ca] });
    this.#http = http;
    this.#ports = {
      clock,
      fetch: http === undefined ? fetch : (input, init) => fetch(input, { ...init, client: http }),
    };
  }

  [Symbol.dispose](): void {
    this.#http?.close();
  }

  /**
   * Starts a sign-in.
   *
   * @returns the address at the provider, and secrets to keep until {@linkcode finish}
   * @throws {AppError} `upstream_failure` if the provider cannot be used
   */
  async start(): Promise<{ readonly url: string; readonly secrets: LoginSecrets }> {
    const provider = await this.discover();
    const secrets = {
      state: client.randomState(),
      nonce: client.randomNonce(),
      verifier: client.randomPKCECodeVerifier(),
    };
    const query = {
      redirect_uri: this.#config.redirectUri,
      scope: ["openid", ...this.#config.scopes].join(" "),
      state: secrets.state,
      nonce: secrets.nonce,
      code_challenge: await client.calculatePKCECodeChallenge(secrets.verifier),
      code_challenge_method: "S256",
    };
    try {
      return { url: client.buildAuthorizationUrl(provider, query).href, secrets };
    } catch (error) {
      throw describe(error, "upstream_failure");
    }
  }

  /**
   * Exchanges the code of the provider's response for an ID token, and verifies both. All tokens are dropped.
   *
   * @param query the query of the address to which the provider sent the browser
   * @returns the claims of the ID token
   * @throws {AppError} `unauthenticated` for a response that does not belong to this sign-in, or is rejected by the
   * provider; `upstream_failure` if the provider cannot be used. No error holds a part of the response
   */
  async finish(query: URLSearchParams, { state, nonce, verifier }: LoginSecrets): Promise<JsonObject> {
    const provider = await this.discover();
    // Not the address of the request, because the client chooses its Host header.
    const response = new URL(`${this.#config.redirectUri}?${query}`);
    try {
      const tokens = await client.authorizationCodeGrant(provider, response, {
        ...{ expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true },
      });
      return { ...tokens.claims() };
    } catch (error) {
      throw describe(error);
    }
  }

  /** Fetches the description of the provider. @throws {AppError} `upstream_failure` if the provider cannot be used */
  discover(): Promise<client.Configuration> {
    this.#provider ??= this.#discover().catch((error) => {
      this.#provider = undefined;
      throw describe(error, "upstream_failure");
    });
    return this.#provider;
  }

  #discover(): Promise<client.Configuration> {
    const { issuer, clientId, clientSecret } = this.#config;
    const send = requestProvider("response", this.#ports);
    // RFC 6749, section 2.3.1: every provider supports Basic.
    return client.discovery(new URL(issuer), clientId, undefined, client.ClientSecretBasic(clientSecret), {
      // The config permits http only on this machine.
      execute: [
        client.enableNonRepudiationChecks,
        ...(issuer.startsWith("http:") ? [client.allowInsecureRequests] : []),
      ],
      async [client.customFetch](url, { headers, method, body }) {
        const form = body instanceof URLSearchParams ? body : null;
        const { bytes, ...response } = await send(url, { headers, method, body: form });
        return new Response(bytes, response);
      },
    });
  }
}

const CODE = /^[a-z_]{1,64}$/;

/** The error for people and logs. Errors of the library are dropped, because their causes hold responses and claims. */
function describe(
  error: unknown,
  code: "unauthenticated" | "upstream_failure" = "unauthenticated",
): AppError {
  const fail = (reason: string) => new AppError(code, `Cannot sign in: ${reason}`);
  if (error instanceof client.AuthorizationResponseError || error instanceof client.ResponseBodyError) {
    return fail(
      `the OpenID provider answered ${CODE.test(error.error) ? error.error : "with an unknown error"}`,
    );
  }
  if (!(error instanceof client.ClientError)) return fail("the response of the OpenID provider is invalid");
  if (error.cause instanceof AppError) return error.cause;
  // The library's own texts name parameters and claims, never their values.
  return fail(error.code !== undefined && error.cause instanceof Error ? error.cause.message : error.message);
}
