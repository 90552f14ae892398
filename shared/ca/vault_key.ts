/**
 * Keys and signatures as Azure Key Vault has them (JSON Web Key and JSON Web Algorithms, RFC 7517 and 7518),
 * turned into those of SSH.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { sshKeyOf, vaultAlgorithm } from "./vault_key.ts";
 *
 * assert.throws(() => sshKeyOf({ kty: "oct" }), { message: 'key type "oct" is neither RSA nor EC' });
 * assert.equal(vaultAlgorithm({ kind: "rsa", exponent: Uint8Array.of(3), modulus: Uint8Array.of(9) }), "RS256");
 * ```
 *
 * @module
 */
import { createPublicKey } from "node:crypto";
import { AppError } from "../errors.ts";
import { ECDSA_CURVES, keyAlgorithm, type KeyParts, RSA_BITS } from "../ssh/public_key.ts";
import { SshWriter } from "../ssh/wire_format.ts";

/** The public key of a vault's answer; numbers are big-endian. */
export interface VaultPublicKey {
  readonly kty?: string;
  readonly crv?: string;
  readonly n?: Uint8Array;
  readonly e?: Uint8Array;
  readonly x?: Uint8Array;
  readonly y?: Uint8Array;
}

/** A public key that a vault can sign for. */
type VaultKeyParts = Extract<KeyParts, { readonly kind: "rsa" | "ecdsa" }>;

/** How a vault calls the algorithms that we ask it for; SHA-1 is not among them. */
export type VaultAlgorithm = "RS256" | "ES256" | "ES384" | "ES512";

const ALGORITHM_OF_HASH = { sha256: "ES256", sha384: "ES384", sha512: "ES512" } as const;

/**
 * The key as SSH has it. Keys in a hardware module (`RSA-HSM`, `EC-HSM`) are keys like others.
 *
 * @throws {AppError} `invalid_config` for other types and curves, RSA under 2048 bits, numbers that make no key
 */
export function sshKeyOf(key: VaultPublicKey): VaultKeyParts {
  switch (key.kty) {
    case "RSA":
    case "RSA-HSM":
      return rsaKeyOf(key);
    case "EC":
    case "EC-HSM":
      return ecdsaKeyOf(key);
    default:
      throw unusable(`key type ${JSON.stringify(key.kty ?? "")} is neither RSA nor EC`);
  }
}

/** What to ask the vault for. */
export function vaultAlgorithm(parts: VaultKeyParts): VaultAlgorithm {
  return parts.kind === "rsa" ? "RS256" : ALGORITHM_OF_HASH[parts.curve.hash];
}

/** The hash of the data that the vault signs. */
export function vaultHash(parts: VaultKeyParts): "sha256" | "sha384" | "sha512" {
  return parts.kind === "rsa" ? "sha256" : parts.curve.hash;
}

/**
 * The SSH signature blob for a vault's signature; whether that is right is not checked here.
 *
 * @param value for EC both numbers in full length, one after the other (RFC 7518 section 3.4)
 * @throws {AppError} `upstream_failure` when the length is not that of the curve
 */
export function sshSignatureOf(parts: VaultKeyParts, value: Uint8Array): Uint8Array {
  if (parts.kind === "rsa") return new SshWriter().text("rsa-sha2-256").string(value).bytes();
  const { coordinateBytes } = parts.curve;
  if (value.length !== 2 * coordinateBytes) {
    throw new AppError("upstream_failure", `The key vault returned an EC signature of ${value.length} bytes`);
  }
  const numbers = new SshWriter().mpint(value.subarray(0, coordinateBytes))
    .mpint(value.subarray(coordinateBytes)).bytes();
  return new SshWriter().text(keyAlgorithm(parts)).string(numbers).bytes();
}

function rsaKeyOf({ n = new Uint8Array(), e = new Uint8Array() }: VaultPublicKey): VaultKeyParts {
  const bits = checkKey({ kty: "RSA", n: base64Url(n), e: base64Url(e) }).modulusLength ?? 0;
  if (bits < RSA_BITS.min) throw unusable(`RSA of ${bits} bits, ${RSA_BITS.min} are the minimum`);
  return { kind: "rsa", exponent: withoutZeros(e), modulus: withoutZeros(n) };
}

function ecdsaKeyOf({ crv, x = new Uint8Array(), y = new Uint8Array() }: VaultPublicKey): VaultKeyParts {
  const curve = ECDSA_CURVES.find(({ jwk }) => jwk === crv);
  if (curve === undefined) throw unusable(`curve ${JSON.stringify(crv ?? "")} is not P-256, P-384 or P-521`);
  const point = new Uint8Array(1 + 2 * curve.coordinateBytes);
  point[0] = 4;
  for (const [index, number] of [x, y].map(withoutZeros).entries()) {
    if (number.length > curve.coordinateBytes) throw unusable("its numbers do not form a key");
    point.set(number, 1 + (index + 1) * curve.coordinateBytes - number.length);
  }
  const middle = 1 + curve.coordinateBytes;
  checkKey({
    kty: "EC",
    crv: curve.jwk,
    x: base64Url(point.subarray(1, middle)),
    y: base64Url(point.subarray(middle)),
  });
  return { kind: "ecdsa", curve, point };
}

function checkKey(key: JsonWebKey): { readonly modulusLength?: number | undefined } {
  try {
    return createPublicKey({ format: "jwk", key: { ...key } }).asymmetricKeyDetails ?? {};
  } catch (cause) {
    throw unusable("its numbers do not form a key", cause);
  }
}

function withoutZeros(number: Uint8Array): Uint8Array {
  const start = number.findIndex((byte) => byte !== 0);
  return start === -1 ? new Uint8Array() : number.subarray(start);
}

function base64Url(bytes: Uint8Array): string {
  return bytes.toBase64({ alphabet: "base64url", omitPadding: true });
}

function unusable(problem: string, cause?: unknown): AppError {
  return new AppError("invalid_config", problem, { cause });
}
