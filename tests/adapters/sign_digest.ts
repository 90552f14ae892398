import assert from "node:assert/strict";
import { constants, generateKeyPairSync, type KeyObject, privateEncrypt } from "node:crypto";

/** The prefix of a SHA-256 digest in an RSA signature (RFC 8017 section 9.2, note 1). */
const SHA256_INFO = Uint8Array.fromHex("3031300d060960864801650304020105000420");

/** The order of each curve's group (SEC 2 version 2), hexadecimal. */
const ORDERS: Readonly<Record<string, string>> = {
  "P-256": "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
  "P-384": "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973",
  "P-521":
    "01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709" +
    "a5d03bb5c9b8899c47aebb6fb71e91386409",
};

/**
 * Signs a digest like a vault; node can sign only data. For tests only: timing is not constant.
 *
 * @returns PKCS #1 v1.5 for RSA with SHA-256, for EC both numbers in full length (RFC 7518 section 3.4)
 */
export function signDigest(key: KeyObject, digest: Uint8Array): Uint8Array {
  if (key.asymmetricKeyType === "rsa") {
    return privateEncrypt(
      { key, padding: constants.RSA_PKCS1_PADDING },
      Uint8Array.of(...SHA256_INFO, ...digest),
    );
  }
  return signEc(key.export({ format: "jwk" }) as JsonWebKey, digest);
}

/** ECDSA signature generation (FIPS 186-5 section 6.4.1). */
function signEc({ crv = "", d }: JsonWebKey, digest: Uint8Array): Uint8Array {
  const order = ORDERS[crv];
  assert.ok(order !== undefined, `unknown curve ${crv}`);
  const [n, length] = [BigInt(`0x${order}`), order.length / 2];
  // No digest here is longer than the order of its curve, so no truncation is needed.
  assert.ok(digest.length <= length);
  // An ephemeral key pair provides the nonce and its product with the base point.
  const nonce = generateKeyPairSync("ec", { namedCurve: crv }).privateKey.export({
    format: "jwk",
  }) as JsonWebKey;
  const r = fromBase64(nonce.x) % n;
  const s = power(fromBase64(nonce.d), n - 2n, n) * (fromBytes(digest) + r * fromBase64(d)) % n;
  return Uint8Array.of(...toBytes(r, length), ...toBytes(s, length));
}

function power(base: bigint, exponent: bigint, modulus: bigint): bigint {
  let result = 1n;
  for (let [square, rest] = [base, exponent]; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = result * square % modulus;
    square = square * square % modulus;
  }
  return result;
}

function fromBase64(text = ""): bigint {
  return fromBytes(Uint8Array.fromBase64(text, { alphabet: "base64url" }));
}

function fromBytes(bytes: Uint8Array): bigint {
  return BigInt(`0x${bytes.toHex()}`);
}

function toBytes(number: bigint, length: number): Uint8Array {
  return Uint8Array.fromHex(number.toString(16).padStart(2 * length, "0"));
}
