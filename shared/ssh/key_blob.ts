/**
 * The binary form of an SSH public key ("blob"): RFC 4253 section 6.6 (RSA), RFC 5656 section 3.1 (ECDSA),
 * RFC 8709 section 4 (Ed25519).
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { decodeKeyBlob, encodeKeyBlob } from "./key_blob.ts";
 *
 * const blob = encodeKeyBlob({ kind: "ed25519", point: new Uint8Array(32).fill(9) });
 * assert.equal(blob.length, 51);
 * assert.equal(decodeKeyBlob(blob).kind, "ed25519");
 * ```
 *
 * @module
 */

import { AppError } from "../errors.ts";
import { SshReader, SshWriter } from "./wire_format.ts";

/** The elliptic curves of RFC 5656: name on the wire, name in a JSON Web Key, bytes of a coordinate, hash. */
export const ECDSA_CURVES = [
  { wire: "nistp256", jwk: "P-256", coordinateBytes: 32, hash: "sha256" },
  { wire: "nistp384", jwk: "P-384", coordinateBytes: 48, hash: "sha384" },
  { wire: "nistp521", jwk: "P-521", coordinateBytes: 66, hash: "sha512" },
] as const;

/** One entry of {@linkcode ECDSA_CURVES}. */
export type EcdsaCurve = (typeof ECDSA_CURVES)[number];

/** A public key taken apart. Numbers are big-endian magnitudes without leading zeros. */
export type KeyParts =
  | {
    readonly kind: "ed25519";
    /** 32 bytes. */
    readonly point: Uint8Array;
  }
  | {
    readonly kind: "ecdsa";
    readonly curve: EcdsaCurve;
    /** Uncompressed: the byte 4, then both coordinates in full length. */
    readonly point: Uint8Array;
  }
  | { readonly kind: "rsa"; readonly exponent: Uint8Array; readonly modulus: Uint8Array };

/**
 * The lengths of RSA that a CA may have. Shorter keys can't be trusted; longer ones `node:crypto` of Deno can't take,
 * so that no signature of theirs could be checked.
 */
export const RSA_BITS = { min: 2048, max: 4096 } as const;

const ED25519_BYTES = 32;
const UNCOMPRESSED = 4;
// What OpenSSH can read: SSHBUF_MAX_BIGNUM.
const MAX_RSA_BYTES = 16_384 / 8;

/** The key type on the wire: `ssh-ed25519`, `ecdsa-sha2-<curve>` or `ssh-rsa`. */
export function keyAlgorithm(parts: KeyParts): string {
  switch (parts.kind) {
    case "ed25519":
      return "ssh-ed25519";
    case "ecdsa":
      return `ecdsa-sha2-${parts.curve.wire}`;
    case "rsa":
      return "ssh-rsa";
    default:
      return parts satisfies never;
  }
}

/** The length of an RSA key in bits, as `ssh-keygen -l` shows it. */
export function rsaBits({ modulus }: Extract<KeyParts, { readonly kind: "rsa" }>): number {
  return 8 * modulus.length - (Math.clz32(modulus[0] ?? 0) - 24);
}

/** Puts a public key into its binary form. */
export function encodeKeyBlob(parts: KeyParts): Uint8Array<ArrayBuffer> {
  const writer = new SshWriter().text(keyAlgorithm(parts));
  switch (parts.kind) {
    case "ed25519":
      return writer.string(parts.point).bytes();
    case "ecdsa":
      return writer.text(parts.curve.wire).string(parts.point).bytes();
    case "rsa":
      return writer.mpint(parts.exponent).mpint(parts.modulus).bytes();
    default:
      return parts satisfies never;
  }
}

/**
 * Takes a public key apart. The key types are those that a host or a certificate authority has here: Ed25519,
 * ECDSA on the three NIST curves, RSA. Whether a point lies on its curve is not checked; using the key does.
 *
 * @throws {AppError} `invalid_request` for another key type, a certificate, a wrong length, trailing bytes
 */
export function decodeKeyBlob(blob: Uint8Array): KeyParts {
  const reader = new SshReader(blob);
  const parts = readKeyParts(reader.text(), reader);
  reader.end();
  return parts;
}

function readKeyParts(algorithm: string, reader: SshReader): KeyParts {
  if (algorithm === "ssh-ed25519") {
    const point = reader.string();
    if (point.length !== ED25519_BYTES) {
      throw new AppError("invalid_request", `Cannot read Ed25519 key: ${point.length} bytes instead of 32`);
    }
    return { kind: "ed25519", point };
  }
  if (algorithm === "ssh-rsa") {
    const exponent = reader.mpint();
    const modulus = reader.mpint();
    if (exponent.length === 0 || modulus.length === 0 || modulus.length > MAX_RSA_BYTES) {
      throw new AppError("invalid_request", "Cannot read RSA key: number out of range");
    }
    return { kind: "rsa", exponent, modulus };
  }
  const curve = ECDSA_CURVES.find(({ wire }) => algorithm === `ecdsa-sha2-${wire}`);
  if (curve === undefined) {
    throw new AppError(
      "invalid_request",
      `Cannot read SSH key: unsupported type ${JSON.stringify(algorithm)}`,
    );
  }
  const inner = reader.text();
  const point = reader.string();
  if (inner !== curve.wire || point.length !== 1 + 2 * curve.coordinateBytes || point[0] !== UNCOMPRESSED) {
    throw new AppError("invalid_request", "Cannot read ECDSA key: curve or point does not fit the key type");
  }
  return { kind: "ecdsa", curve, point };
}
