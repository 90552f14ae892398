/**
 * The private key format of OpenSSH, `openssh-key-v1` (PROTOCOL.key), without encryption.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { encodeOpensshPrivateKey, parsePrivateKey } from "@gateway/shared/ssh/private_key";
 *
 * const pem = encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca");
 * assert.equal(parsePrivateKey(pem).algorithm, "ssh-ed25519");
 * ```
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { createPrivateKey, createPublicKey, type JsonWebKey, type KeyObject } from "node:crypto";
import { AppError } from "../errors.ts";
import { decodeKeyBlob, ECDSA_CURVES, encodeKeyBlob, keyAlgorithm } from "./key_blob.ts";
import { SshReader, SshWriter } from "./wire_format.ts";

const MAGIC = new TextEncoder().encode("openssh-key-v1\0");
/** The block size of the cipher `none`. */
const BLOCK_BYTES = 8;
const SEED_BYTES = 32;
/** The constant beginning of an Ed25519 key in PKCS #8 (RFC 8410), which the seed follows. */
const ED25519_PKCS8 = Uint8Array.fromHex("302e020100300506032b657004220420");

/** A private key and the public blob that stood beside it, which may belong to another key. */
export interface DecodedPrivateKey {
  readonly key: KeyObject;
  readonly publicKey: Uint8Array;
}

/**
 * Writes an Ed25519 key.
 *
 * @param seed the 32 bytes of the private key (RFC 8032)
 * @param comment shown by OpenSSH tools; UTF-8
 * @returns the inside of the PEM block
 */
export function encodeOpensshKey(seed: Uint8Array, comment: string): Uint8Array<ArrayBuffer> {
  if (seed.length !== SEED_BYTES) throw new RangeError(`An Ed25519 seed has 32 bytes, not ${seed.length}`);
  const { x } = createPublicKey(ed25519Key(seed)).export({ format: "jwk" });
  const point = Uint8Array.fromBase64(x ?? "", { alphabet: "base64url" });
  const publicKey = encodeKeyBlob({ kind: "ed25519", point });
  // The two check numbers show whether a passphrase was right. Without one any equal pair will do.
  const section = new SshWriter().u32(0).u32(0).raw(publicKey)
    .u32(2 * SEED_BYTES).raw(seed).raw(point).text(comment).bytes();
  return new SshWriter().raw(MAGIC).text("none").text("none").text("").u32(1).string(publicKey)
    .u32(section.length + paddingBytes(section.length)).raw(section).raw(padding(section.length)).bytes();
}

/**
 * Reads a key: Ed25519, ECDSA or RSA.
 *
 * @param bytes the inside of the PEM block
 * @throws {AppError} `invalid_config` when it is encrypted; `invalid_request` when it is malformed
 */
export function decodeOpensshKey(bytes: Uint8Array): DecodedPrivateKey {
  const reader = new SshReader(bytes);
  if (!MAGIC.every((byte, index) => bytes[index] === byte)) throw malformed("unknown format");
  reader.raw(MAGIC.length);
  const cipher = reader.text();
  const derivation = reader.text();
  const options = reader.string();
  if (cipher !== "none" || derivation !== "none") throw encryptedKeyError();
  if (options.length > 0) throw malformed("options without key derivation");
  if (reader.u32() !== 1) throw malformed("not exactly one key");
  const publicKey = reader.string();
  const section = reader.string();
  reader.end();
  if (section.length % BLOCK_BYTES !== 0) throw malformed("length is not a multiple of the block size");
  return { key: readSection(new SshReader(section), publicKey), publicKey };
}

/** The refusal of a key with a passphrase, in whatever format. */
export function encryptedKeyError(): AppError {
  return new AppError(
    "invalid_config",
    'Cannot read private key: it is encrypted. Remove the passphrase (ssh-keygen -p -N "" -f FILE) or use ' +
      "a CA key of type agent or akv",
  );
}

function readSection(reader: SshReader, publicKey: Uint8Array): KeyObject {
  if (reader.u32() !== reader.u32()) throw malformed("check numbers differ");
  const algorithm = reader.text();
  if (algorithm !== keyAlgorithm(decodeKeyBlob(publicKey))) {
    throw malformed("key type differs from public key");
  }
  const key = readKey(algorithm, reader);
  reader.string(); // the comment
  if (!reader.rest.every((byte, index) => byte === index + 1) || reader.rest.length >= BLOCK_BYTES) {
    throw malformed("wrong padding");
  }
  return key;
}

function readKey(algorithm: string, reader: SshReader): KeyObject {
  if (algorithm === "ssh-ed25519") {
    const point = reader.string();
    const pair = reader.string();
    if (pair.length !== 2 * SEED_BYTES || pair.subarray(SEED_BYTES).toHex() !== point.toHex()) {
      throw malformed("wrong length of the Ed25519 key, or its copies differ");
    }
    return ed25519Key(pair.subarray(0, SEED_BYTES));
  }
  return algorithm === "ssh-rsa" ? readRsaKey(reader) : readEcdsaKey(reader);
}

function readEcdsaKey(reader: SshReader): KeyObject {
  const name = reader.text();
  const point = reader.string();
  const scalar = reader.mpint();
  const curve = ECDSA_CURVES.find(({ wire }) => wire === name);
  if (curve === undefined) throw malformed("unknown curve");
  const size = curve.coordinateBytes;
  if (point.length !== 1 + 2 * size || scalar.length > size) throw malformed("wrong length of the ECDSA key");
  const d = new Uint8Array(size);
  d.set(scalar, size - scalar.length);
  return importWebKey({
    kty: "EC",
    crv: curve.jwk,
    x: base64Url(point.subarray(1, 1 + size)),
    y: base64Url(point.subarray(1 + size)),
    d: base64Url(d),
  });
}

function readRsaKey(reader: SshReader): KeyObject {
  const n = reader.mpint();
  const e = reader.mpint();
  const d = reader.mpint();
  const qi = reader.mpint();
  const p = reader.mpint();
  const q = reader.mpint();
  if ([n, e, d, qi, p, q].some((number) => number.length === 0)) {
    throw malformed("a number of the RSA key is 0");
  }
  return importWebKey({
    kty: "RSA",
    n: base64Url(n),
    e: base64Url(e),
    d: base64Url(d),
    p: base64Url(p),
    q: base64Url(q),
    dp: base64Url(modPredecessor(d, p)),
    dq: base64Url(modPredecessor(d, q)),
    qi: base64Url(qi),
  });
}

/** The exponent of a prime, which this format leaves out: `d mod (prime - 1)`. */
function modPredecessor(d: Uint8Array, prime: Uint8Array): Uint8Array {
  const modulus = toBigInt(prime) - 1n;
  if (modulus <= 0n) throw malformed("a prime of the RSA key is 1");
  const hex = (toBigInt(d) % modulus).toString(16);
  return Uint8Array.fromHex(hex.length % 2 === 0 ? hex : `0${hex}`);
}

function toBigInt(magnitude: Uint8Array): bigint {
  return BigInt(`0x${magnitude.toHex()}`);
}

function importWebKey(key: JsonWebKey): KeyObject {
  try {
    return createPrivateKey({ format: "jwk", key });
  } catch {
    // The cause is left out, for it could quote the key.
    throw malformed("the numbers make no key");
  }
}

function ed25519Key(seed: Uint8Array): KeyObject {
  const der = Buffer.concat([ED25519_PKCS8, seed]);
  return createPrivateKey({ key: der, format: "der", type: "pkcs8" });
}

function paddingBytes(length: number): number {
  return (BLOCK_BYTES - length % BLOCK_BYTES) % BLOCK_BYTES;
}

function padding(length: number): Uint8Array {
  return Uint8Array.from({ length: paddingBytes(length) }, (_, index) => index + 1);
}

function base64Url(bytes: Uint8Array): string {
  return bytes.toBase64({ alphabet: "base64url", omitPadding: true });
}

function malformed(reason: string): AppError {
  return new AppError("invalid_request", `Cannot read OpenSSH private key: ${reason}`);
}
