/**
 * A CA key in a PEM file. For labs and tests: anyone who can read the file, or the memory of the process, has the key.
 * In production, use an agent or a key vault.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createPrivateKey, type KeyObject } from "node:crypto";
// @ts-types="../ssh/sshpk.d.ts"
import sshpk, { type PrivateKey } from "sshpk";
import { type AppError, configError } from "../errors.ts";
import {
  decodeKeyBlob,
  encodeKeyBlob,
  importEd25519Seed,
  type KeyParts,
  OPENSSH_LABEL,
  opensshHead,
  RSA_BITS,
  signData,
  type SshPrivateKey,
  verifySignature,
  webKey,
  wrapPrivateKey,
} from "../ssh/keys.ts";
import type { CaKey } from "./model.ts";

/**
 * Reads a CA key from the text of a private key file, see {@linkcode parsePrivateKey}.
 *
 * @throws {AppError} `invalid_config` without any byte of the key
 */
export function parsePemCaKey(pemText: string): CaKey {
  const { algorithm, publicKey, signAsync } = parsePrivateKey(pemText);
  return { backend: "pem", algorithm, publicKey, sign: signAsync };
}

const PEM_BLOCK = /-----BEGIN (?<label>[A-Z0-9 ]+)-----\r?\n(?<body>[^-]*)-----END \k<label>-----/g;
/** Matches encrypted keys: by the label of PKCS #8, or by a separate line in older formats. */
const ENCRYPTED = /^(?:-----BEGIN ENCRYPTED PRIVATE KEY-----|Proc-Type: 4,ENCRYPTED)/m;
const LABELS: readonly string[] = [OPENSSH_LABEL, "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];

/**
 * Reads a private key without passphrase, in OpenSSH's format, PKCS #8, PKCS #1 or SEC 1: Ed25519, ECDSA on a
 * NIST curve, or RSA of 2048 to 4096 bits. The private key must belong to the public key that is stored with
 * it.
 *
 * @param pem the whole text of the file: one key, and optionally `EC PARAMETERS`
 * @throws {AppError} `invalid_config` without any byte of the key
 */
export function parsePrivateKey(pem: string): SshPrivateKey {
  const block = findKeyBlock(pem);
  const parsed = takeApart(block);
  const parts = publicParts(parsed, block);
  const publicKey = encodeKeyBlob(parts);
  const key = importKey(parsed, parts, block);
  // Reject a private key that does not match its public key. Its signatures would be invalid, and could
  // reveal the key.
  const trial = new Uint8Array(32);
  if (!standsBefore(publicKey, block) || !verifySignature(publicKey, signData(key, parts, trial), trial)) {
    throw unreadable("it does not belong to its public key");
  }
  return wrapPrivateKey(key, parts);
}

interface KeyBlock {
  readonly label: string;
  /** The lines between the first and the last. */
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
    throw unreadable("not the PEM text of exactly one key");
  }
  if (!LABELS.includes(block.label)) throw unreadable(`file holds a ${block.label}`);
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
    const range = `${RSA_BITS.min} to ${RSA_BITS.max}`;
    throw configError(`Cannot use private key: RSA of ${parsed.size} bits, not of ${range}`);
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

/** Whether an OpenSSH file begins with the key's public half. Other formats have none there. */
function standsBefore(publicKey: Uint8Array, { label, body }: KeyBlock): boolean {
  if (label !== OPENSSH_LABEL) return true;
  const head = opensshHead(publicKey);
  return Buffer.from(body, "base64").subarray(0, head.length).equals(head);
}

function unreadable(fault: string): AppError {
  return configError(`Cannot read private key: ${fault}`);
}

function encryptedKeyError(): AppError {
  return unreadable(
    'it is encrypted. Remove the passphrase (ssh-keygen -p -N "" -f FILE) or use ' +
      "a CA key of type agent or akv",
  );
}

/** The error of a malformed key, without a cause, because the cause could quote the key. */
function malformed(label: string): AppError {
  const type = "or of a type that is neither Ed25519, ECDSA on a NIST curve nor RSA";
  return unreadable(`malformed ${label}, ${type}`);
}
