// The answers of an Azure Key Vault: keys and signatures (RFC 7517 and 7518) as SSH has them, and failures in
// words without address, key ID or secret.
import { createPublicKey } from "node:crypto";
import type { JsonWebKey } from "@azure/keyvault-keys";
import { AppError } from "../errors.ts";
import { isObject } from "../json.ts";
import { ECDSA_CURVES, encodeSignature, type KeyParts, RSA_BITS, webKey } from "../ssh/keys.ts";

/** A public key that a vault can sign for. */
type VaultKeyParts = Extract<KeyParts, { readonly kind: "rsa" | "ecdsa" }>;

const ALGORITHM_OF_HASH = { sha256: "ES256", sha384: "ES384", sha512: "ES512" } as const;

/**
 * The key as SSH has it. Keys in a hardware module (`RSA-HSM`, `EC-HSM`) are equal to others.
 *
 * @throws {AppError} `invalid_config` for other types and curves, RSA under 2048 bits, numbers that form no key
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
  return new AppError("invalid_config", problem, { cause });
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

/** Describes an error of the vendor's packages, or one of ours. */
export function describeVaultFailure(failure: unknown): {
  readonly text: string;
  /** For the log: name and message of the original, without its request, which holds the access token. */
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
export function isTransient(failure: unknown): boolean {
  if (!(failure instanceof Error) || failure instanceof AppError) return false;
  const status = statusOf(failure);
  if (status !== undefined) return status >= 500 && retryAfterOf(failure) === undefined;
  return isConnectionFailure(failure) && !isNotCapable(failure);
}

function textOf(failure: unknown, status: number | undefined): string {
  if (status === 401 || status === 403) return `the vault refuses these credentials (status ${status})`;
  if (status === 404) return "the vault has no such key or version";
  if (status === 429) return "the vault is busy (status 429)";
  // With a status under 300 the packages did not understand the answer.
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
