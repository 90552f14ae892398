/**
 * Private keys as PEM text, unencrypted: OpenSSH's own format, PKCS #8, PKCS #1 (RSA) and SEC 1 (EC).
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { encodeOpensshPrivateKey, parsePrivateKey } from "@gateway/shared/ssh/private_key";
 *
 * const key = parsePrivateKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "example"));
 * assert.equal(key.algorithm, "ssh-ed25519");
 * ```
 *
 * @module
 */

import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { AppError } from "../errors.ts";
import { ECDSA_CURVES, encodeKeyBlob, keyAlgorithm, type KeyParts } from "./key_blob.ts";
import { decodeOpensshKey, encodeOpensshKey, encryptedKeyError } from "./openssh_key.ts";
import { decodeBase64 } from "./public_key.ts";
import { type AsideSigner, createAsideSigner, signData, verifySignature } from "./signature.ts";

/** A private key that can be used and not read. */
export interface SshPrivateKey {
  /** The key type on the SSH wire, e.g. `ssh-ed25519`. */
  readonly algorithm: string;
  /** The public key blob (RFC 4253 section 6.6). */
  readonly publicKey: Uint8Array;
  /** Signs; gives the signature blob. RSA keys sign as `rsa-sha2-256`. */
  sign(data: Uint8Array): Uint8Array;
  /** The same on another thread. */
  readonly signAside: AsideSigner;
}

const PEM_BLOCK = /-----BEGIN (?<label>[A-Z0-9 ]+)-----\r?\n(?<body>[^-]*)-----END \k<label>-----/g;
const OPENSSH_LABEL = "OPENSSH PRIVATE KEY";
const LABELS: readonly string[] = [OPENSSH_LABEL, "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];
const PEM_LINE = /.{1,70}/g;
/** Below it RSA can't be trusted; OpenSSH's `RequiredRSASize` has the same default since 9.1 for hosts. */
const MIN_RSA_BITS = 2048;

/**
 * Reads a private key: Ed25519, ECDSA on a NIST curve, RSA of at least 2048 bits. The key must belong to the
 * public key that is stored with it.
 *
 * @param pem the whole text of the file; nothing may stand beside the one key but `EC PARAMETERS`
 * @throws {AppError} `invalid_config` with what is wrong and no byte of the key
 */
export function parsePrivateKey(pem: string): SshPrivateKey {
  const { label, body } = findKeyBlock(pem);
  if (label !== OPENSSH_LABEL) return createSshPrivateKey(importPem(label, body));
  const { key, publicKey } = decodeOpensshBody(body);
  return createSshPrivateKey(key, publicKey);
}

/**
 * Writes an Ed25519 private key as OpenSSH does, without passphrase.
 *
 * @param seed the 32 bytes of the private key (RFC 8032)
 * @param comment shown by OpenSSH tools
 * @returns PEM text with a line end
 */
export function encodeOpensshPrivateKey(seed: Uint8Array, comment: string): string {
  const lines = encodeOpensshKey(seed, comment).toBase64().match(PEM_LINE) ?? [];
  return [`-----BEGIN ${OPENSSH_LABEL}-----`, ...lines, `-----END ${OPENSSH_LABEL}-----`, ""].join("\n");
}

/**
 * Makes a key of `node:crypto` usable for SSH. A trial signature finds a private half that does not belong to
 * the public one: its signatures would be refused everywhere, or in the worst case give the key away.
 *
 * @param claimed the public key blob stored with the private key, when there is one
 * @throws {AppError} `invalid_config` when the type is not supported or the halves differ
 */
function createSshPrivateKey(key: KeyObject, claimed?: Uint8Array): SshPrivateKey {
  const parts = publicParts(key);
  const publicKey = encodeKeyBlob(parts);
  const trial = new Uint8Array(32);
  if (
    (claimed !== undefined && claimed.toHex() !== publicKey.toHex()) ||
    !verifySignature(publicKey, signData(key, parts, trial), trial)
  ) {
    throw new AppError("invalid_config", "Cannot read private key: it does not belong to its public key");
  }
  return {
    algorithm: keyAlgorithm(parts),
    publicKey,
    sign: (data) => signData(key, parts, data),
    signAside: createAsideSigner(key, parts),
  };
}

function findKeyBlock(pem: string): { label: string; body: string } {
  const outside = pem.replace(PEM_BLOCK, "").trim();
  const blocks = [...pem.matchAll(PEM_BLOCK)]
    .map(({ groups }) => ({ label: groups?.["label"] ?? "", body: groups?.["body"] ?? "" }))
    .filter(({ label }) => label !== "EC PARAMETERS");
  const [block] = blocks;
  if (block?.label === "ENCRYPTED PRIVATE KEY" || /^Proc-Type: 4,ENCRYPTED/m.test(pem)) {
    throw encryptedKeyError();
  }
  if (block === undefined || blocks.length > 1 || outside !== "") {
    throw new AppError("invalid_config", "Cannot read private key: not the PEM text of exactly one key");
  }
  if (!LABELS.includes(block.label)) {
    throw new AppError("invalid_config", `Cannot read private key: file holds a ${block.label}`);
  }
  return block;
}

function decodeOpensshBody(body: string): ReturnType<typeof decodeOpensshKey> {
  try {
    return decodeOpensshKey(decodeBase64(body.replaceAll(/[\r\n]/g, "")));
  } catch (error) {
    // Bytes of a request have another code than the same bytes in a file that the operator wrote.
    if (error instanceof AppError && error.code === "invalid_request") {
      throw new AppError("invalid_config", error.message);
    }
    throw error;
  }
}

function importPem(label: string, body: string): KeyObject {
  try {
    return createPrivateKey(`-----BEGIN ${label}-----\n${body}-----END ${label}-----\n`);
  } catch {
    // The cause is left out, for it could quote the key.
    throw new AppError("invalid_config", `Cannot read private key: malformed ${label}`);
  }
}

function publicParts(key: KeyObject): KeyParts {
  const { kty, crv, x, y, n, e } = exportPublic(key);
  if (kty === "OKP" && crv === "Ed25519") return { kind: "ed25519", point: base64Url(x) };
  const curve = ECDSA_CURVES.find(({ jwk }) => jwk === crv);
  if (kty === "EC" && curve !== undefined) {
    return { kind: "ecdsa", curve, point: Uint8Array.of(4, ...base64Url(x), ...base64Url(y)) };
  }
  if (kty === "RSA") {
    const bits = key.asymmetricKeyDetails?.modulusLength ?? 0;
    if (bits < MIN_RSA_BITS) {
      throw new AppError(
        "invalid_config",
        `Cannot use private key: RSA of ${bits} bits, 2048 are the minimum`,
      );
    }
    return { kind: "rsa", exponent: base64Url(e), modulus: base64Url(n) };
  }
  throw unsupported(key);
}

function exportPublic(key: KeyObject): ReturnType<typeof jwkOf> {
  try {
    return jwkOf(key);
  } catch {
    throw unsupported(key);
  }
}

function jwkOf(key: KeyObject) {
  return createPublicKey(key).export({ format: "jwk" });
}

function unsupported(key: KeyObject): AppError {
  const type = key.asymmetricKeyType ?? "unknown";
  return new AppError(
    "invalid_config",
    `Cannot use private key: type ${type} is neither Ed25519, ECDSA on a NIST curve nor RSA`,
  );
}

function base64Url(text: string | undefined): Uint8Array {
  return Uint8Array.fromBase64(text ?? "", { alphabet: "base64url" });
}
