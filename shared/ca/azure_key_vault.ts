// A CA key in an Azure Key Vault. The private key never leaves the vault. The version of the key stays in use
// until the next load, so that certificates name the key that signs them. A signature is accepted only if it
// verifies with that version. The vendor's packages are loaded with the first key of this kind.
import type { Agent } from "node:http";
import { createHash, createPublicKey } from "node:crypto";
import type { TokenCredential } from "@azure/identity";
import type { JsonWebKey, KeyClientOptions, KeyVaultKey } from "@azure/keyvault-keys";
import { type Clock, within } from "../clock.ts";
import { AppError, configError } from "../errors.ts";
import { isObject, withPlainKeys } from "../json.ts";
import {
  ECDSA_CURVES,
  encodeKeyBlob,
  encodeSignature,
  keyAlgorithm,
  type KeyParts,
  RSA_BITS,
  verifySignature,
  webKey,
} from "../ssh/keys.ts";
import { collectBytes } from "../text.ts";
import type { AkvCaKeyConfig, CaKey } from "./model.ts";

interface AkvPorts {
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  /** Reads the environment variable with the client secret. */
  readonly readEnv: (name: string) => string | undefined;
  /** Replaces the credential of the config. */
  readonly credential?: TokenCredential;
  /** Opens the connections to the vault and the sign-in service, with its own trusted CAs. */
  readonly agent?: Agent;
}

type ClientOptions = Omit<KeyClientOptions, "serviceVersion">;

const LOAD_MS = 30_000;
const SIGN_MS = 10_000;
const MAX_ANSWER_BYTES = 256 * 1024;

/**
 * Loads a CA key of a vault, which must be reachable at this time. The packages send the system's name to the
 * vault: the process needs `--allow-sys=osRelease`.
 *
 * @throws {AppError} `invalid_config` if the vault is unavailable or denies access, or the key is missing,
 * disabled, expired, not for signing or of a type that SSH does not have
 */
export async function loadAkvCaKey(config: AkvCaKeyConfig, ports: AkvPorts): Promise<CaKey> {
  const { clock, signal } = ports;
  try {
    const vault = await openVault(config, ports);
    const key = await callTwice({ clock, signal, ms: LOAD_MS }, vault.getKey);
    checkKey(config, key);
    checkTime(key, clock.now());
    return createCaKey(key, vault.signer(key), clock);
  } catch (failure) {
    signal?.throwIfAborted();
    const { text, cause } = describeVaultFailure(failure);
    throw configError(`Cannot load CA key "${config.key_name}" from the key vault: ${text}`, cause);
  }
}

function createCaKey(
  vaultKey: KeyVaultKey,
  signDigest: (
    algorithm: ReturnType<typeof vaultAlgorithm>["name"],
    digest: Uint8Array,
    signal: AbortSignal,
  ) => Promise<Uint8Array>,
  clock: Clock,
): CaKey {
  const parts = sshKeyOf(vaultKey.key ?? {});
  const publicKey = encodeKeyBlob(parts);
  const algorithm = vaultAlgorithm(parts);
  return {
    backend: "akv",
    algorithm: keyAlgorithm(parts),
    publicKey,
    async sign(data, signal) {
      try {
        checkTime(vaultKey, clock.now());
        const digest = createHash(algorithm.hash).update(data).digest();
        const bound = { clock, signal, ms: SIGN_MS };
        const value = await callTwice(bound, (ended) => signDigest(algorithm.name, digest, ended));
        const signature = sshSignatureOf(parts, value);
        if (verifySignature(publicKey, signature, data)) return signature;
        throw new AppError("upstream_failure", "the vault returned a signature that is not the CA's");
      } catch (failure) {
        signal?.throwIfAborted();
        const { text, ...options } = describeVaultFailure(failure);
        throw new AppError("upstream_failure", `Cannot sign with the key vault: ${text}`, options);
      }
    },
  };
}

/** The second attempt succeeds after the loss of an idle connection, or during the replacement of a server. */
function callTwice<T>(
  bound: { readonly clock: Clock; readonly signal: AbortSignal | undefined; readonly ms: number },
  attempt: (ended: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = () => new AppError("upstream_failure", "the vault did not answer in time");
  return within({ ...bound, late }, async (ended) => {
    try {
      return await attempt(ended);
    } catch (failure) {
      if (ended.aborted || !isTransient(failure)) throw failure;
      return await attempt(ended);
    }
  });
}

function checkKey(config: AkvCaKeyConfig, { properties, keyOperations }: KeyVaultKey): void {
  const { version = "", enabled } = properties;
  if (!/^[A-Za-z0-9]{1,64}$/.test(version) || (config.key_version !== "" && version !== config.key_version)) {
    throw unusable("the vault answered with another version");
  }
  if (enabled === false) throw unusable("the key is disabled");
  if (keyOperations?.includes("sign") === false) throw unusable("the key is not for signing");
}

function checkTime({ properties: { notBefore, expiresOn } }: KeyVaultKey, now: number): void {
  if (notBefore !== undefined && now < notBefore.getTime()) throw unusable("the key is not valid yet");
  if (expiresOn !== undefined && now >= expiresOn.getTime()) throw unusable("the key has expired");
}

async function openVault(config: AkvCaKeyConfig, { credential: given, agent, readEnv }: AkvPorts) {
  const { state } = await Deno.permissions.query({ name: "sys", kind: "osRelease" });
  // Without the permission, the packages leave a rejected promise without a handler, which ends the process.
  if (state !== "granted") throw unusable("the process needs --allow-sys=osRelease");
  const connection = { ...(agent !== undefined && { agent }), additionalPolicies: ANSWER_POLICIES };
  const options: ClientOptions = {
    ...connection,
    // The packages must not retry: the code that knows the deadline of the request decides about a second
    // attempt.
    retryOptions: { maxRetries: 0 },
    redirectOptions: { maxRetries: 0 },
  };
  const { vault_url, key_name, key_version } = config;
  const credential = given ?? await createCredential(config, readEnv, connection);
  const { CryptographyClient, KeyClient } = await import("@azure/keyvault-keys");
  const client = new KeyClient(vault_url, credential, options);
  return {
    /** The key in the configured version, or the latest. */
    getKey: (abortSignal: AbortSignal) =>
      client.getKey(key_name, { ...(key_version !== "" && { version: key_version }), abortSignal }),
    /** A function that signs digests with this version of the key. */
    signer(key: KeyVaultKey): Parameters<typeof createCaKey>[1] {
      // The ID determines the URL of the call, so take it from the config and not from an answer.
      const id = `${vault_url}/keys/${key_name}/${key.properties.version ?? ""}`;
      const cryptography = new CryptographyClient({ ...key, id }, credential, options);
      return async (algorithm, digest, abortSignal) =>
        (await cryptography.sign(algorithm, digest, { abortSignal })).result;
    },
  };
}

async function createCredential(
  { credential }: AkvCaKeyConfig,
  readEnv: AkvPorts["readEnv"],
  options: Pick<ClientOptions, "additionalPolicies">,
): Promise<TokenCredential> {
  const name = credential?.client_secret_env ?? "";
  const secret = credential === undefined ? "" : readEnv(name) ?? "";
  if (credential !== undefined && secret === "") {
    throw unusable(`environment variable ${name} of client_secret_env is not set or empty`);
  }
  const { ClientSecretCredential, DefaultAzureCredential } = await import("@azure/identity");
  return credential === undefined
    ? new DefaultAzureCredential(options)
    : new ClientSecretCredential(credential.tenant_id, credential.client_id, secret, options);
}

/**
 * Parses answers for the packages, which do not limit the length of an answer and use the engine's JSON
 * parser.
 */
const ANSWER_POLICIES: NonNullable<ClientOptions["additionalPolicies"]> = [{
  position: "perRetry",
  policy: {
    name: "safeAnswers",
    async sendRequest(request, next) {
      request.streamResponseStatusCodes = new Set([Number.POSITIVE_INFINITY]);
      const response = await next(request);
      const { readableStreamBody, ...rest } = response;
      if (readableStreamBody === undefined) return response;
      const bytes = await collectBytes(readableStreamBody, MAX_ANSWER_BYTES);
      if (bytes === undefined) {
        throw new AppError("upstream_failure", `The key vault sent more than ${MAX_ANSWER_BYTES} bytes`);
      }
      return { ...rest, bodyAsText: plainOrBroken(new TextDecoder().decode(bytes)) };
    },
  },
}];

/** Returns the text if it is safe to parse. Unsafe JSON is reported like malformed JSON. */
function plainOrBroken(text: string): string {
  try {
    return withPlainKeys(text);
  } catch {
    return "{";
  }
}

// Converts the answers of an Azure Key Vault for SSH: keys and signatures (RFC 7517 and 7518), and failures
// as text without address, key ID or secret.

/** A public key that a vault can sign for. */
type VaultKeyParts = Extract<KeyParts, { readonly kind: "rsa" | "ecdsa" }>;

const ALGORITHM_OF_HASH = { sha256: "ES256", sha384: "ES384", sha512: "ES512" } as const;

/**
 * The key as SSH has it. Keys in a hardware module (`RSA-HSM`, `EC-HSM`) are treated like other keys.
 *
 * @throws {AppError} `invalid_config` for other types and curves, RSA under 2048 bits, numbers that form no
 * key
 */
export function sshKeyOf(
  { kty = "", crv = "", n = EMPTY, e = EMPTY, x = EMPTY, y = EMPTY }: JsonWebKey,
): VaultKeyParts {
  switch (kty) {
    case "RSA":
    case "RSA-HSM": {
      const parts = { kind: "rsa", exponent: withoutZeros(e), modulus: withoutZeros(n) } as const;
      const bits = checkNumbers(parts).modulusLength ?? 0;
      if (bits < RSA_BITS.min) throw unusable(`RSA of ${bits} bits, ${RSA_BITS.min} are the minimum`);
      return parts;
    }
    case "EC":
    case "EC-HSM": {
      const curve = ECDSA_CURVES.find(({ jwk }) => jwk === crv);
      if (curve === undefined) throw unusable(`curve ${JSON.stringify(crv)} is not P-256, P-384 or P-521`);
      const point = new Uint8Array(1 + 2 * curve.coordinateBytes);
      point[0] = 4;
      for (const [index, number] of [x, y].map(withoutZeros).entries()) {
        if (number.length > curve.coordinateBytes) throw unusable("its numbers do not form a key");
        point.set(number, 1 + (index + 1) * curve.coordinateBytes - number.length);
      }
      const parts = { kind: "ecdsa", curve, point } as const;
      checkNumbers(parts);
      return parts;
    }
    default:
      throw unusable(`key type ${JSON.stringify(kty)} is neither RSA nor EC`);
  }
}

const EMPTY = new Uint8Array();

function checkNumbers(parts: VaultKeyParts): { readonly modulusLength?: number | undefined } {
  try {
    return createPublicKey({ format: "jwk", key: { ...webKey(parts) } }).asymmetricKeyDetails ?? {};
  } catch (cause) {
    throw unusable("its numbers do not form a key", cause);
  }
}

function withoutZeros(number: Uint8Array): Uint8Array {
  const start = number.findIndex((byte) => byte !== 0);
  return start === -1 ? EMPTY : number.subarray(start);
}

function unusable(problem: string, cause?: unknown): AppError {
  return configError(problem, cause);
}

/** The hash of the signed data, never SHA-1, and the vault's name of the signature algorithm. */
export function vaultAlgorithm(parts: VaultKeyParts) {
  if (parts.kind === "rsa") return { hash: "sha256", name: "RS256" } as const;
  return { hash: parts.curve.hash, name: ALGORITHM_OF_HASH[parts.curve.hash] };
}

/**
 * The SSH signature blob for a vault's unverified signature.
 *
 * @param value for EC both numbers in full length (RFC 7518 section 3.4)
 * @throws {AppError} `upstream_failure` if the length is not that of the curve
 */
export function sshSignatureOf(parts: VaultKeyParts, value: Uint8Array): Uint8Array {
  if (parts.kind === "ecdsa" && value.length !== 2 * parts.curve.coordinateBytes) {
    throw new AppError("upstream_failure", `The key vault returned an EC signature of ${value.length} bytes`);
  }
  return encodeSignature(parts, value);
}

const MAX_RETRY_AFTER_SECONDS = 3600;

/** Describes an error of the vendor's packages or of this program. */
function describeVaultFailure(failure: unknown): {
  readonly text: string;
  /**
   * The error for the log: name and message of the original, without its request, which contains the access
   * token.
   */
  readonly cause: Error | undefined;
  readonly retryAfterSeconds?: number;
} {
  if (failure instanceof AppError) return { text: failure.message, cause: toError(failure.cause) };
  const retryAfterSeconds = retryAfterOf(failure);
  return {
    text: textOf(failure, statusOf(failure)),
    cause: toError(failure),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  };
}

/** Whether an immediate second attempt may succeed: no answer at all, or a server error without `Retry-After`. */
function isTransient(failure: unknown): boolean {
  if (!(failure instanceof Error) || failure instanceof AppError) return false;
  const status = statusOf(failure);
  if (status !== undefined) return status >= 500 && retryAfterOf(failure) === undefined;
  return isConnectionFailure(failure) && !isNotCapable(failure);
}

function textOf(failure: unknown, status: number | undefined): string {
  if (status === 401 || status === 403) return `the vault refuses these credentials (status ${status})`;
  if (status === 404) return "the vault has no such key or version";
  if (status === 429) return "the vault is busy (status 429)";
  // With a status below 300, the packages failed to parse the answer.
  if (status !== undefined && status >= 300) return `the vault answered with status ${status}`;
  if (isNotCapable(failure)) return "an address is outside this process's permissions";
  if (!(failure instanceof Error)) return "it failed";
  if (isConnectionFailure(failure)) return "the vault cannot be reached";
  return /^(?:CredentialUnavailable|(?:Aggregate)?Authentication)/.test(failure.name)
    ? "signing in to the cloud failed"
    : "the vault's answer cannot be used";
}

/** The packages pass on the system's code (`ECONNRESET`), or replace it by a general one. */
function isConnectionFailure(failure: Error): boolean {
  return failure.name === "RestError" && statusOf(failure) === undefined && "code" in failure &&
    failure.code !== "PARSE_ERROR";
}

function isNotCapable(failure: unknown): boolean {
  for (let error = failure, depth = 0; error instanceof Error && depth < 5; error = error.cause, depth++) {
    if (error.name === "NotCapable" || /^Requires (?:net|env|sys|run|read) access/.test(error.message)) {
      return true;
    }
  }
  return false;
}

function statusOf(failure: unknown): number | undefined {
  const status = member(failure, "statusCode");
  return typeof status === "number" ? status : undefined;
}

function retryAfterOf(failure: unknown): number | undefined {
  const headers = member(member(failure, "response"), "headers");
  const get = member(headers, "get");
  if (typeof get !== "function") return undefined;
  const text: unknown = get.call(headers, "retry-after");
  return typeof text === "string" && /^\d{1,9}$/.test(text)
    ? Math.min(Number(text), MAX_RETRY_AFTER_SECONDS)
    : undefined;
}

function member(value: unknown, name: string): unknown {
  return isObject(value) ? value[name] : undefined;
}

function toError(failure: unknown): Error | undefined {
  return failure instanceof Error ? new Error(`${failure.name}: ${failure.message}`) : undefined;
}
