/**
 * SSH signatures (RFC 4253 section 6.6): `string` algorithm, `string` signature. Ed25519 (RFC 8709), ECDSA with
 * the hash of its curve (RFC 5656), RSA with SHA-2 (RFC 8332); SHA-1 is neither made nor believed.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { encodeOpensshPrivateKey } from "@gateway/shared/ssh";
 * import { parsePrivateKey } from "@gateway/shared/ca/pem";
 * import { verifySignature } from "./signature.ts";
 *
 * const key = parsePrivateKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "example"));
 * const data = new Uint8Array([1, 2, 3]);
 * assert.ok(verifySignature(key.publicKey, key.sign(data), data));
 * ```
 *
 * @module
 */

import { createPublicKey, hash, type KeyObject, sign, verify } from "node:crypto";
import { AppError } from "../errors.ts";
import { decodeKeyBlob, type EcdsaCurve, keyAlgorithm, type KeyParts } from "./public_key.ts";
import { SshReader, SshWriter } from "./wire_format.ts";

/** Hash of an RSA signature algorithm; `ssh-rsa`, which is SHA-1, is left out on purpose. */
const RSA_HASH: Readonly<Record<string, "sha256" | "sha512">> = {
  "rsa-sha2-256": "sha256",
  "rsa-sha2-512": "sha512",
};

/** `ssh-ed25519` and 64 bytes, each with its length before it. */
const ED25519_BLOB_BYTES = 83;

/**
 * Signs with the algorithm that goes with the key; RSA keys sign as `rsa-sha2-256`.
 *
 * @param key the private half of `parts`
 * @returns the signature blob
 */
export function signData(key: KeyObject, parts: KeyParts, data: Uint8Array): Uint8Array<ArrayBuffer> {
  switch (parts.kind) {
    case "ed25519":
      return encodeSignature(parts, sign(null, data, key));
    case "rsa":
      return encodeSignature(parts, sign("sha256", data, key));
    case "ecdsa":
      return encodeSignature(parts, sign(parts.curve.hash, data, { key, dsaEncoding: "ieee-p1363" }));
    default:
      return parts satisfies never;
  }
}

/** Signs as {@linkcode signData} does, on another thread: with RSA it takes milliseconds. */
export type AsideSigner = (data: Uint8Array<ArrayBuffer>) => Promise<Uint8Array<ArrayBuffer>>;

/**
 * The signer aside for a key.
 *
 * @param key the private half of `parts`
 */
export function createAsideSigner(key: KeyObject, parts: KeyParts): AsideSigner {
  const { importing, signing } = webAlgorithms(parts);
  // Node's types know more usages than those of the web.
  const webKey = key.toCryptoKey(importing, false, ["sign"]) as CryptoKey;
  return async (data) =>
    encodeSignature(parts, new Uint8Array(await crypto.subtle.sign(signing, webKey, data)));
}

function webAlgorithms(parts: KeyParts) {
  switch (parts.kind) {
    case "ed25519":
      return { importing: "Ed25519", signing: "Ed25519" };
    case "rsa": {
      const algorithm = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
      return { importing: algorithm, signing: algorithm };
    }
    case "ecdsa": {
      const { jwk: namedCurve, hash } = parts.curve;
      return {
        importing: { name: "ECDSA", namedCurve },
        signing: { name: "ECDSA", hash: hash.replace("sha", "SHA-") },
      };
    }
    default:
      return parts satisfies never;
  }
}

/** The blob of a signature that is the scheme's own bytes, or for ECDSA both numbers (IEEE P1363). */
function encodeSignature(parts: KeyParts, raw: Uint8Array): Uint8Array<ArrayBuffer> {
  switch (parts.kind) {
    case "ed25519":
      return new SshWriter(ED25519_BLOB_BYTES).text(keyAlgorithm(parts)).string(raw).bytes();
    case "rsa":
      return new SshWriter().text("rsa-sha2-256").string(raw).bytes();
    case "ecdsa": {
      const numbers = new SshWriter().mpint(raw.subarray(0, raw.length / 2))
        .mpint(raw.subarray(raw.length / 2)).bytes();
      return new SshWriter().text(keyAlgorithm(parts)).string(numbers).bytes();
    }
    default:
      return parts satisfies never;
  }
}

/**
 * Whether a signature is right. Anything malformed, in the key or in the signature, is a wrong signature.
 *
 * @param publicKey the key blob of the signer
 * @param signature the signature blob
 */
export function verifySignature(publicKey: Uint8Array, signature: Uint8Array, data: Uint8Array): boolean {
  try {
    const reader = new SshReader(signature);
    const algorithm = reader.text();
    const value = reader.string();
    reader.end();
    return verifyValue(decodeKeyBlob(publicKey), algorithm, value, data);
  } catch (error) {
    if (error instanceof AppError) return false;
    throw error;
  }
}

function verifyValue(parts: KeyParts, algorithm: string, value: Uint8Array, data: Uint8Array): boolean {
  switch (parts.kind) {
    case "ed25519":
      return algorithm === "ssh-ed25519" && value.length === 64 &&
        verify(null, data, publicKeyOf(parts), value);
    case "rsa": {
      const hash = RSA_HASH[algorithm];
      if (hash === undefined || value.length !== parts.modulus.length) return false;
      return verify(hash, data, publicKeyOf(parts), value);
    }
    case "ecdsa": {
      if (algorithm !== keyAlgorithm(parts)) return false;
      const raw = readEcdsaNumbers(value, parts.curve);
      return verify(parts.curve.hash, data, { key: publicKeyOf(parts), dsaEncoding: "ieee-p1363" }, raw);
    }
    default:
      return parts satisfies never;
  }
}

/** From two `mpint` to both numbers in the full length of the curve, as IEEE P1363 has it. */
function readEcdsaNumbers(value: Uint8Array, { coordinateBytes }: EcdsaCurve): Uint8Array {
  const reader = new SshReader(value);
  const numbers = [reader.mpint(), reader.mpint()];
  reader.end();
  const raw = new Uint8Array(2 * coordinateBytes);
  for (const [index, number] of numbers.entries()) {
    if (number.length > coordinateBytes) {
      throw new AppError("invalid_request", "Cannot read ECDSA signature: number out of range");
    }
    raw.set(number, (index + 1) * coordinateBytes - number.length);
  }
  return raw;
}

/** @throws {AppError} `invalid_request` when the numbers make no key, such as a point beside its curve */
function publicKeyOf(parts: KeyParts): KeyObject {
  try {
    return createPublicKey({ format: "jwk", key: { ...webKey(parts) } });
  } catch (cause) {
    throw new AppError("invalid_request", `Cannot use ${keyAlgorithm(parts)} key: not a valid key`, {
      cause,
    });
  }
}

/** A public key as a JSON Web Key (RFC 7518, RFC 8037). */
export function webKey(parts: KeyParts): JsonWebKey {
  switch (parts.kind) {
    case "ed25519":
      return { kty: "OKP", crv: "Ed25519", x: base64Url(parts.point) };
    case "rsa":
      return { kty: "RSA", e: base64Url(parts.exponent), n: base64Url(parts.modulus) };
    case "ecdsa": {
      const { coordinateBytes, jwk } = parts.curve;
      const y = 1 + coordinateBytes;
      return {
        kty: "EC",
        crv: jwk,
        x: base64Url(parts.point.subarray(1, y)),
        y: base64Url(parts.point.subarray(y)),
      };
    }
    default:
      return parts satisfies never;
  }
}

function base64Url(bytes: Uint8Array): string {
  return bytes.toBase64({ alphabet: "base64url", omitPadding: true });
}

/** What signs: a private key, or something that asks one. */
export interface SshSigner {
  /** The public key blob (RFC 4253 section 6.6). */
  readonly publicKey: Uint8Array;
  /** Signs; gives the signature blob, which must not be of SHA-1. */
  sign(data: Uint8Array): Uint8Array;
}

const MAGIC = new TextEncoder().encode("SSHSIG");
const VERSION = 1;
const HASH = "sha512";
const HASH_BYTES = 64;
/** Room for a signature of Ed25519. */
const SIGNATURE_BYTES = 320;
const LABEL = "SSH SIGNATURE";
/** Where ssh-keygen breaks the lines of an armoured signature. */
const ARMOR_LINE = /.{1,70}/g;

/**
 * Signs a message for a namespace.
 *
 * @param namespace not empty; the verifier must name the same one
 * @returns the binary signature, which {@linkcode armorSshsig} makes a file of
 */
export function signSshsig(key: SshSigner, namespace: string, message: Uint8Array): Uint8Array<ArrayBuffer> {
  const signed = sshsigSignedBytes(namespace);
  fillSshsigHash(signed, message);
  return new SshWriter(SIGNATURE_BYTES).raw(MAGIC).u32(VERSION).string(key.publicKey)
    .text(namespace).text("").text(HASH).string(key.sign(signed)).bytes();
}

/**
 * What a signature for a namespace is over, without the hash of a message at its end: {@linkcode fillSshsigHash} puts it
 * there. For who signs many messages, and need not write the same bytes each time.
 */
export function sshsigSignedBytes(namespace: string): Uint8Array<ArrayBuffer> {
  if (namespace === "") throw new RangeError("The namespace of a signature is empty");
  return new SshWriter().raw(MAGIC).text(namespace).text("").text(HASH).string(new Uint8Array(HASH_BYTES))
    .bytes();
}

/** Puts the hash of a message where {@linkcode sshsigSignedBytes} has left room for it. */
export function fillSshsigHash(signed: Uint8Array, message: Uint8Array): void {
  signed.set(hash(HASH, message, "buffer"), signed.length - HASH_BYTES);
}

/** A binary signature as the text that `ssh-keygen -Y verify -s` reads, with a line end. */
export function armorSshsig(signature: Uint8Array): string {
  const lines = signature.toBase64().match(ARMOR_LINE) ?? [];
  return [`-----BEGIN ${LABEL}-----`, ...lines, `-----END ${LABEL}-----`, ""].join("\n");
}
