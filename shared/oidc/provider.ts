/**
 * An OpenID provider's description of itself (OpenID Connect Discovery 1.0).
 *
 * @module
 */
import { collectBytes } from "../text.ts";
import { type Clock, within } from "../clock.ts";
import { AppError } from "../errors.ts";
import { parseStandardJson } from "../json.ts";
import { isProviderUrl } from "./model.ts";
import { createLocalJWKSet, errors, type JSONWebKeySet } from "@panva/jose";

/** How a provider's documents are fetched. */
export interface ProviderPorts {
  readonly fetch: typeof fetch;
  /** Bounds how long each may take. */
  readonly clock: Clock;
}

/** What the signer takes from a provider's discovery document (OpenID Connect Discovery 1.0 section 3). */
interface Provider {
  readonly jwksUri: string;
  /** The signature algorithms that its tokens may have; asymmetric ones only. */
  readonly algorithms: readonly string[];
}

const TIMEOUT_MS = 10_000;
const MAX_DOCUMENT_BYTES = 1024 * 1024;

/**
 * Signatures that only the provider can make. `none` is missing, and so are HS256 and its like: their key would
 * be whatever text the other side takes for it, the provider's public key for instance.
 */
const ASYMMETRIC = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
] as const;

/**
 * Asks a provider for its description.
 *
 * @throws {AppError} `upstream_failure` when it can't be had, is not that of this issuer, or offers nothing that
 * can be verified
 */
export async function discoverProvider(issuer: string, ports: ProviderPorts): Promise<Provider> {
  const what = "discovery document";
  const document = await fetchDocument(
    `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`,
    what,
    ports,
  );
  if (document["issuer"] !== issuer) throw failure(`its ${what} is that of another issuer`);
  const jwksUri = document["jwks_uri"];
  if (typeof jwksUri !== "string" || !isProviderUrl(jwksUri)) {
    throw failure(`jwks_uri in its ${what} is not an https URL`);
  }
  return { jwksUri, algorithms: chooseAlgorithms(document["id_token_signing_alg_values_supported"]) };
}

/**
 * Fetches a JSON object: bounded in time and size, without following redirects.
 *
 * @param what how messages call it
 * @throws {AppError} `upstream_failure`
 */
async function fetchDocument(
  url: string,
  what: string,
  { fetch, clock }: ProviderPorts,
): Promise<Readonly<Record<string, unknown>>> {
  const late = () => failure(`its ${what} did not come in time`);
  try {
    const bytes = await within({ clock, ms: TIMEOUT_MS, late }, async (signal) => {
      const headers = { accept: "application/json" };
      const response = await fetch(url, { headers, signal, redirect: "manual" });
      if (response.status === 200) return await readBounded(response, what);
      await response.body?.cancel();
      throw failure(`its ${what} was answered with status ${response.status}`);
    });
    const value: unknown = parseStandardJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    if (cause instanceof Deno.errors.NotCapable) {
      throw failure(`its ${what} is at ${new URL(url).host}, outside this process's permissions`, cause);
    }
    if (!(cause instanceof SyntaxError)) throw failure(`its ${what} cannot be fetched`, cause);
  }
  throw failure(`its ${what} is not a JSON object`);
}

async function readBounded({ body }: Response, what: string): Promise<Uint8Array> {
  const bytes = body === null ? new Uint8Array() : await collectBytes(body, MAX_DOCUMENT_BYTES);
  if (bytes !== undefined) return bytes;
  throw failure(`its ${what} is larger than ${MAX_DOCUMENT_BYTES} bytes`);
}

function chooseAlgorithms(advertised: unknown): readonly string[] {
  // RS256 is what every provider must have; one that does not say more is not believed to have more.
  if (!Array.isArray(advertised)) return ["RS256"];
  const algorithms = ASYMMETRIC.filter((algorithm) => advertised.includes(algorithm));
  if (algorithms.length === 0) throw failure("it offers no asymmetric signature algorithm");
  return algorithms;
}

function failure(problem: string, cause?: unknown): AppError {
  return new AppError("upstream_failure", `Cannot use the OpenID provider: ${problem}`, { cause });
}

/** Finds the key for a token's header. */
export type FindKey = ReturnType<typeof createLocalJWKSet>;

/** How long a key is accepted after the provider withdrew it. */
const MAX_AGE_MS = 60_000;
/** Tokens with invented key ids must not become a stream of fetches. */
const COOLDOWN_MS = 10_000;
const MAX_KEYS = 100;

/** The signing keys of a provider: fetched once for all, again when they are old, and when a key is missing. */
export class KeySet {
  readonly #provider: Provider;
  readonly #ports: ProviderPorts;
  #findKey: FindKey | undefined;
  #fetchedMs = 0;
  #triedMs = Number.NEGATIVE_INFINITY;
  #pending: Promise<FindKey> | undefined;

  constructor(provider: Provider, ports: ProviderPorts) {
    this.#provider = provider;
    this.#ports = ports;
  }

  /**
   * The keys, at most a minute old.
   *
   * @throws {AppError} `upstream_failure` when they can't be had
   */
  async current(): Promise<FindKey> {
    const age = this.#ports.clock.now() - this.#fetchedMs;
    // A clock that was set back makes no key younger.
    if (this.#findKey !== undefined && age >= 0 && age < MAX_AGE_MS) return this.#findKey;
    const fetched = await this.#refetch();
    if (fetched !== undefined) return fetched;
    throw new AppError(
      "upstream_failure",
      "Cannot use the OpenID provider: its keys could not be fetched just now",
    );
  }

  /**
   * The keys as they are now, for a token whose key is not among the current ones.
   *
   * @returns `undefined` when the last fetch was less than ten seconds ago
   * @throws {AppError} `upstream_failure` when they can't be had
   */
  newer(): Promise<FindKey | undefined> {
    return this.#refetch();
  }

  /** Makes the next token wait for keys that are fetched again. */
  expire(): void {
    this.#findKey = undefined;
    this.#triedMs = Number.NEGATIVE_INFINITY;
  }

  async #refetch(): Promise<FindKey | undefined> {
    if (this.#pending !== undefined) return await this.#pending;
    const now = this.#ports.clock.now();
    if (now >= this.#triedMs && now < this.#triedMs + COOLDOWN_MS) return undefined;
    this.#triedMs = now;
    this.#pending = this.#fetch().finally(() => this.#pending = undefined);
    return await this.#pending;
  }

  async #fetch(): Promise<FindKey> {
    const startMs = this.#ports.clock.now();
    const document = await fetchDocument(this.#provider.jwksUri, "key set", this.#ports);
    const findKey = compileKeySet(document["keys"]);
    this.#findKey = findKey;
    this.#fetchedMs = startMs;
    return findKey;
  }
}

function compileKeySet(keys: unknown): FindKey {
  if (!Array.isArray(keys) || keys.length > MAX_KEYS) {
    throw new AppError(
      "upstream_failure",
      `Cannot use the OpenID provider: its key set is not a list of keys`,
    );
  }
  // RFC 7517 section 5: keys that are not understood are passed over.
  const usable: JSONWebKeySet = { keys: keys.filter(isPublicKey) };
  try {
    return createLocalJWKSet(usable);
  } catch (cause) {
    if (!(cause instanceof errors.JOSEError)) throw cause;
    throw new AppError("upstream_failure", "Cannot use the OpenID provider: its key set is malformed", {
      cause,
    });
  }
}

function isPublicKey(key: unknown): key is JSONWebKeySet["keys"][number] {
  if (typeof key !== "object" || key === null || !("kty" in key)) return false;
  return key.kty === "RSA" || key.kty === "EC" || key.kty === "OKP";
}
