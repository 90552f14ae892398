/**
 * A certificate authority whose key is a PEM file. For labs and tests: whoever reads the file, or the memory of
 * the process, has the key. Production keeps it in an agent or a key vault.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { parsePemCaKey } from "@gateway/shared/ca/pem";
 * import { encodeOpensshPrivateKey } from "@gateway/shared/ssh";
 *
 * const key = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
 * assert.equal(key.backend, "pem");
 * ```
 *
 * @module
 */

import type { CaKey } from "./custody.ts";
import { Buffer } from "node:buffer";
import { createPrivateKey, type KeyObject } from "node:crypto";
// @ts-types="../ssh/sshpk.d.ts"
import sshpk, { type PrivateKey } from "sshpk";
import { AppError } from "../errors.ts";
import { decodeKeyBlob, encodeKeyBlob, keyAlgorithm, type KeyParts, RSA_BITS } from "../ssh/public_key.ts";
import { importEd25519Seed, OPENSSH_LABEL, opensshHead } from "../ssh/openssh_key.ts";
import { type AsideSigner, createAsideSigner, signData, verifySignature, webKey } from "../ssh/signature.ts";

/**
 * A CA key from the text of a private key file: Ed25519, ECDSA or RSA, in OpenSSH's format, PKCS #8, PKCS #1 or
 * SEC 1, without passphrase. RSA keys sign as `rsa-sha2-256`.
 *
 * @throws {AppError} `invalid_config` with what is wrong and no byte of the key
 */
export function parsePemCaKey(pemText: string): CaKey {
  const key = parsePrivateKey(pemText);
  return {
    backend: "pem",
    algorithm: key.algorithm,
    publicKey: key.publicKey,
    async sign(data, signal) {
      signal?.throwIfAborted();
      // Ed25519 takes less time than to hand it to another thread; RSA would hold up every request for milliseconds.
      return key.algorithm === "ssh-ed25519" ? key.sign(data) : await key.signAside(data);
    },
  };
}

export type { AsideSigner } from "../ssh/signature.ts";

/** A private key that can be used and not read. */
interface SshPrivateKey {
  /** The key type on the SSH wire, e.g. `ssh-ed25519`. */
  readonly algorithm: string;
  /** The public key blob (RFC 4253 section 6.6). */
  readonly publicKey: Uint8Array;
  /** Signs; gives the signature blob. RSA keys sign as `rsa-sha2-256`. */
  sign(data: Uint8Array): Uint8Array;
  readonly signAside: AsideSigner;
}

const PEM_BLOCK = /-----BEGIN (?<label>[A-Z0-9 ]+)-----\r?\n(?<body>[^-]*)-----END \k<label>-----/g;
/** Of PKCS #8, or of older formats in a line of its own. */
const ENCRYPTED = /^(?:-----BEGIN ENCRYPTED PRIVATE KEY-----|Proc-Type: 4,ENCRYPTED)/m;
const LABELS: readonly string[] = [OPENSSH_LABEL, "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];

/**
 * Reads a private key: Ed25519, ECDSA on a NIST curve, RSA of 2048 to 4096 bits. The key must belong to the public
 * key that is stored with it.
 *
 * @param pem the whole text of the file; nothing may stand beside the one key but `EC PARAMETERS`
 * @throws {AppError} `invalid_config` with what is wrong and no byte of the key
 */
export function parsePrivateKey(pem: string): SshPrivateKey {
  const block = findKeyBlock(pem);
  const parsed = takeApart(block);
  const parts = publicParts(parsed, block);
  const publicKey = encodeKeyBlob(parts);
  const key = importKey(parsed, parts, block);
  // A private half that does not belong to the public one makes signatures that are refused everywhere, or in the
  // worst case give the key away.
  const trial = new Uint8Array(32);
  if (!standsBefore(publicKey, block) || !verifySignature(publicKey, signData(key, parts, trial), trial)) {
    throw new AppError("invalid_config", "Cannot read private key: it does not belong to its public key");
  }
  return {
    algorithm: keyAlgorithm(parts),
    publicKey,
    sign: (data) => signData(key, parts, data),
    signAside: createAsideSigner(key, parts),
  };
}

interface KeyBlock {
  readonly label: string;
  /** What stands between the first line and the last. */
  readonly body: string;
  readonly text: string;
}

function findKeyBlock(pem: string): KeyBlock {
  if (ENCRYPTED.test(pem)) throw encryptedKeyError();
  const blocks = [...pem.matchAll(PEM_BLOCK)]
    .map(({ 0: text, groups }) => ({ text, label: groups?.["label"] ?? "", body: groups?.["body"] ?? "" }))
    .filter(({ label }) => label !== "EC PARAMETERS");
  const [block] = blocks;
  if (block === undefined || blocks.length > 1 || pem.replace(PEM_BLOCK, "").trim() !== "") {
    throw new AppError("invalid_config", "Cannot read private key: not the PEM text of exactly one key");
  }
  if (!LABELS.includes(block.label)) {
    throw new AppError("invalid_config", `Cannot read private key: file holds a ${block.label}`);
  }
  return block;
}

function takeApart({ label, text }: KeyBlock): PrivateKey {
  try {
    return sshpk.parsePrivateKey(text, "pem");
  } catch (error) {
    if (error instanceof sshpk.KeyEncryptedError) throw encryptedKeyError();
    throw malformed(label);
  }
}

function publicParts(parsed: PrivateKey, { label }: KeyBlock): KeyParts {
  if (parsed.type === "rsa" && (parsed.size < RSA_BITS.min || parsed.size > RSA_BITS.max)) {
    throw new AppError(
      "invalid_config",
      `Cannot use private key: RSA of ${parsed.size} bits, not of ${RSA_BITS.min} to ${RSA_BITS.max}`,
    );
  }
  try {
    return decodeKeyBlob(parsed.toPublic().toBuffer("rfc4253"));
  } catch {
    throw malformed(label);
  }
}

function importKey(parsed: PrivateKey, parts: KeyParts, { label }: KeyBlock): KeyObject {
  const number = (name: string) => parsed.part[name]?.data ?? new Uint8Array();
  try {
    switch (parts.kind) {
      case "ed25519":
        return importEd25519Seed(number("k"));
      case "rsa":
        return createPrivateKey(parsed.toBuffer("pkcs8").toString());
      case "ecdsa": {
        const digits = number("d").toHex().replace(/^0+/, "").padStart(2 * parts.curve.coordinateBytes, "0");
        const d = Uint8Array.fromHex(digits).toBase64({ alphabet: "base64url", omitPadding: true });
        return createPrivateKey({ format: "jwk", key: { ...webKey(parts), d } });
      }
      default:
        return parts satisfies never;
    }
  } catch {
    throw malformed(label);
  }
}

/** Whether an OpenSSH file begins with the key's public half; the other formats have none at this place. */
function standsBefore(publicKey: Uint8Array, { label, body }: KeyBlock): boolean {
  if (label !== OPENSSH_LABEL) return true;
  const head = opensshHead(publicKey);
  return Buffer.from(body, "base64").subarray(0, head.length).equals(head);
}

function encryptedKeyError(): AppError {
  return new AppError(
    "invalid_config",
    'Cannot read private key: it is encrypted. Remove the passphrase (ssh-keygen -p -N "" -f FILE) or use ' +
      "a CA key of type agent or akv",
  );
}

/** The cause is left out, because it could quote the key. */
function malformed(label: string): AppError {
  const type = "or of a type that is neither Ed25519, ECDSA on a NIST curve nor RSA";
  return new AppError("invalid_config", `Cannot read private key: malformed ${label}, ${type}`);
}
