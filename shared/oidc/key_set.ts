/**
 * The signing keys of an OpenID provider (RFC 7517).
 *
 * @module
 */
import { createLocalJWKSet, errors, type JSONWebKeySet } from "@panva/jose";
import { AppError } from "../errors.ts";
import { fetchDocument, type Provider, type ProviderPorts } from "./provider.ts";

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
