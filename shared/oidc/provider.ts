// An OpenID provider: its description (OpenID Connect Discovery 1.0) and its signing keys.
import { createLocalJWKSet, errors, type JSONWebKeySet } from "@panva/jose";
import { type Clock, within } from "../clock.ts";
import { AppError } from "../errors.ts";
import { isObject, type JsonObject, parseStandardJson } from "../json.ts";
import { collectBytes } from "../text.ts";
import { isProviderUrl } from "./model.ts";

/** The dependencies of a provider's client. */
export interface ProviderPorts {
  readonly fetch: typeof fetch;
  readonly clock: Clock;
}

const TIMEOUT_MS = 10_000;
const MAX_DOCUMENT_BYTES = 1024 * 1024;

/**
 * The signatures that only the provider can create. `none` is missing. So are HS256 and similar algorithms: an attacker
 * could use the provider's public key as their secret.
 */
const ASYMMETRIC: readonly string[] = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519"
  .split(" ");

/**
 * Fetches a provider's description.
 *
 * @returns the URL of its keys, and the asymmetric algorithms of its tokens
 * @throws {AppError} `upstream_failure` if it is unavailable, belongs to another issuer, or offers no asymmetric
 * algorithm
 */
export async function discoverProvider(
  issuer: string,
  ports: ProviderPorts,
): Promise<{ readonly jwksUri: string; readonly algorithms: readonly string[] }> {
  const what = "discovery document";
  const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const document = await fetchDocument(url, what, ports);
  if (document["issuer"] !== issuer) throw failure(`its ${what} is that of another issuer`);
  const jwksUri = document["jwks_uri"];
  if (typeof jwksUri !== "string" || !isProviderUrl(jwksUri)) {
    throw failure(`jwks_uri in its ${what} is not an https URL`);
  }
  const advertised = document["id_token_signing_alg_values_supported"];
  // Every provider supports RS256.
  if (!Array.isArray(advertised)) return { jwksUri, algorithms: ["RS256"] };
  const algorithms = ASYMMETRIC.filter((algorithm) => advertised.includes(algorithm));
  if (algorithms.length === 0) throw failure("it offers no asymmetric signature algorithm");
  return { jwksUri, algorithms };
}

/**
 * Fetches a JSON object: bounded in time and size, without redirects.
 *
 * @param what the name of the document in messages
 * @throws {AppError} `upstream_failure`
 */
async function fetchDocument(url: string, what: string, ports: ProviderPorts): Promise<JsonObject> {
  const { status, bytes } = await requestProvider(what, ports)(url, {
    headers: { accept: "application/json" },
  });
  if (status !== 200) throw failure(`its ${what} was answered with status ${status}`);
  try {
    const value: unknown = parseStandardJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    if (isObject(value)) return value;
  } catch {
    // Neither UTF-8 nor JSON.
  }
  throw failure(`its ${what} is not a JSON object`);
}

/** A response of a provider, read to its end. */
interface ProviderResponse extends Pick<Response, "status" | "headers"> {
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/**
 * Sends requests to a provider: bounded in time and size, without redirects.
 *
 * @param what the name of the response in messages
 * @returns a function that throws an {@linkcode AppError} `upstream_failure`
 */
export function requestProvider(
  what: string,
  { fetch, clock }: ProviderPorts,
): (url: string, init: RequestInit) => Promise<ProviderResponse> {
  const late = () => failure(`its ${what} did not come in time`);
  return async (url, init) => {
    try {
      return await within({ clock, ms: TIMEOUT_MS, late }, async (signal) => {
        const { status, headers, body } = await fetch(url, { ...init, signal, redirect: "manual" });
        const bytes = body === null ? new Uint8Array() : await collectBytes(body, MAX_DOCUMENT_BYTES);
        if (bytes !== undefined) return { status, headers, bytes };
        throw failure(`its ${what} is larger than ${MAX_DOCUMENT_BYTES} bytes`);
      });
    } catch (cause) {
      if (cause instanceof AppError) throw cause;
      if (cause instanceof Deno.errors.NotCapable) {
        throw failure(`its ${what} is at ${new URL(url).host}, outside this process's permissions`, cause);
      }
      throw failure(`its ${what} cannot be fetched`, cause);
    }
  };
}

function failure(problem: string, cause?: unknown): AppError {
  return new AppError("upstream_failure", `Cannot use the OpenID provider: ${problem}`, { cause });
}

/** Finds the key for a token's header. */
export type FindKey = ReturnType<typeof createLocalJWKSet>;

/** The time for which a key is accepted after the provider withdrew it. */
const MAX_AGE_MS = 60_000;
/** Tokens with invented key IDs must not cause a stream of fetches. */
const COOLDOWN_MS = 10_000;
const MAX_KEYS = 100;

/** The signing keys of a provider. They are fetched again if they are old, or if a key is missing. */
export class KeySet {
  readonly #jwksUri: string;
  readonly #ports: ProviderPorts;
  #findKey: FindKey | undefined;
  #fetchedMs = 0;
  #triedMs = Number.NEGATIVE_INFINITY;
  #pending: Promise<FindKey> | undefined;

  constructor(jwksUri: string, ports: ProviderPorts) {
    this.#jwksUri = jwksUri;
    this.#ports = ports;
  }

  /**
   * The keys, fetched at most a minute ago.
   *
   * @throws {AppError} `upstream_failure` if they are unavailable
   */
  async current(): Promise<FindKey> {
    const age = this.#ports.clock.now() - this.#fetchedMs;
    // Setting the clock back does not make a key newer.
    if (this.#findKey !== undefined && age >= 0 && age < MAX_AGE_MS) return this.#findKey;
    const fetched = await this.newer();
    if (fetched !== undefined) return fetched;
    throw failure("its keys could not be fetched just now");
  }

  /**
   * Fetches the provider's current keys, for a token whose key is missing.
   *
   * @returns `undefined` if the last fetch was less than ten seconds ago
   * @throws {AppError} `upstream_failure` if they are unavailable
   */
  async newer(): Promise<FindKey | undefined> {
    if (this.#pending !== undefined) return await this.#pending;
    const now = this.#ports.clock.now();
    if (now >= this.#triedMs && now < this.#triedMs + COOLDOWN_MS) return undefined;
    this.#triedMs = now;
    this.#pending = this.#fetch(now).finally(() => this.#pending = undefined);
    return await this.#pending;
  }

  /** The next token waits for a new fetch. */
  expire(): void {
    this.#findKey = undefined;
    this.#triedMs = Number.NEGATIVE_INFINITY;
  }

  async #fetch(startMs: number): Promise<FindKey> {
    const { keys } = await fetchDocument(this.#jwksUri, "key set", this.#ports);
    const findKey = compileKeySet(keys);
    this.#findKey = findKey;
    this.#fetchedMs = startMs;
    return findKey;
  }
}

function compileKeySet(keys: unknown): FindKey {
  if (!Array.isArray(keys) || keys.length > MAX_KEYS) throw failure("its key set is not a list of keys");
  try {
    // RFC 7517 section 5: unknown keys are ignored.
    const isPublic = (key: unknown): key is JSONWebKeySet["keys"][number] =>
      isObject(key) && ["RSA", "EC", "OKP"].some((type) => key["kty"] === type);
    return createLocalJWKSet({ keys: keys.filter(isPublic) });
  } catch (cause) {
    if (!(cause instanceof errors.JOSEError)) throw cause;
    throw failure("its key set is malformed", cause);
  }
}
