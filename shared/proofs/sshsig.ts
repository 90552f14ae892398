// Verification of SSHSIG signatures (PROTOCOL.sshsig), also by security keys (PROTOCOL.u2f).
import { createHash, hash } from "node:crypto";
import { AppError } from "../errors.ts";
import {
  decodeBase64,
  decodeKeyBlob,
  ECDSA_CURVES,
  type KeyParts,
  RSA_BITS,
  rsaBits,
  verifySignature,
  verifyValue,
} from "../ssh/keys.ts";
import { SshReader, SshWriter } from "../ssh/wire_format.ts";
import { concatBytes } from "../text.ts";

/** The namespace of signed decisions. */
export const APPROVAL_NAMESPACE = "approval@gateway";

/** A public key that may sign decisions. */
interface ApprovalKey {
  /** The key type on the wire. */
  readonly algorithm: string;
  readonly blob: Uint8Array;
}

const SECURITY_KEYS = ["sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"];
const USER_PRESENT = 1;
const MAGIC = new TextEncoder().encode("SSHSIG");

/**
 * Reads an authorized_keys line without options: Ed25519, ECDSA, RSA, or a security key.
 *
 * @throws {AppError} `invalid_request` for everything else
 */
export function parseApprovalKey(line: string): ApprovalKey {
  const [algorithm = "", base64 = ""] = line.trim().split(/[ \t]+/, 2);
  const blob = decodeBase64(base64);
  const inside = new SshReader(blob).text();
  if (inside !== algorithm) throw unreadable(`a line of type "${algorithm}" has a key of type "${inside}"`);
  if (isSecurityKey({ algorithm })) readSecurityKey(blob);
  else checkStrength(decodeKeyBlob(blob));
  return { algorithm, blob };
}

function checkStrength(parts: KeyParts): void {
  if (parts.kind !== "rsa") return;
  const [bits, { min, max }] = [rsaBits(parts), RSA_BITS];
  if (bits < min || bits > max) {
    throw unreadable(`RSA keys must have ${min} to ${max} bits, and it has ${bits}`);
  }
}

/** Whether the private key never leaves a security key, which signs only after a touch. */
export function isSecurityKey({ algorithm }: Pick<ApprovalKey, "algorithm">): boolean {
  return SECURITY_KEYS.includes(algorithm);
}

/** Verifies a binary SSHSIG of {@linkcode APPROVAL_NAMESPACE}. Returns its key, or `undefined` if it is not valid. */
export function verifySshsig(signature: Uint8Array, message: string): Uint8Array | undefined {
  try {
    return verify(signature, message);
  } catch (error) {
    if (error instanceof AppError) return undefined;
    throw error;
  }
}

function verify(signature: Uint8Array, message: string): Uint8Array | undefined {
  const reader = new SshReader(signature);
  const magic = reader.raw(MAGIC.length);
  if (!magic.every((byte, index) => byte === MAGIC[index]) || reader.u32() !== 1) return undefined;
  const publicKey = reader.string();
  const [namespace, reserved, hashName] = [reader.text(), reader.text(), reader.text()];
  const value = reader.string();
  reader.end();
  if (namespace !== APPROVAL_NAMESPACE || reserved !== "") return undefined;
  if (hashName !== "sha512" && hashName !== "sha256") return undefined;
  const signed = new SshWriter().raw(MAGIC).text(namespace).text("").text(hashName)
    .string(hash(hashName, message, "buffer")).bytes();
  const algorithm = new SshReader(publicKey).text();
  if (!isSecurityKey({ algorithm })) {
    return verifySignature(publicKey, value, signed) ? publicKey : undefined;
  }
  return verifySecurityKey(publicKey, value, signed);
}

function verifySecurityKey(
  publicKey: Uint8Array,
  value: Uint8Array,
  signed: Uint8Array,
): Uint8Array | undefined {
  const { algorithm, application, parts } = readSecurityKey(publicKey);
  const reader = new SshReader(value);
  const [inside, raw, flags, counter] = [reader.text(), reader.string(), reader.raw(1), reader.u32()];
  reader.end();
  const flag = flags[0] ?? 0;
  if (inside !== algorithm || (flag & USER_PRESENT) === 0) return undefined;
  const data = concatBytes([
    sha256(application),
    flags,
    new SshWriter().u32(counter).bytes(),
    sha256(signed),
  ]);
  const inner = algorithm.replace(/^sk-/, "").replace("@openssh.com", "");
  return verifyValue(parts, inner, raw, data) ? publicKey : undefined;
}

function readSecurityKey(blob: Uint8Array) {
  const reader = new SshReader(blob);
  const algorithm = reader.text();
  const parts = readParts(algorithm, reader);
  const application = reader.string();
  reader.end();
  return { algorithm, parts, application };
}

function readParts(algorithm: string, reader: SshReader): KeyParts {
  if (algorithm === SECURITY_KEYS[0]) {
    const point = reader.string();
    if (point.length === 32) return { kind: "ed25519", point };
    throw unreadable(`an Ed25519 key has ${point.length} bytes`);
  }
  const curve = ECDSA_CURVES[0];
  const [name, point] = [reader.text(), reader.string()];
  if (name === curve.wire && point.length === 65 && point[0] === 4) return { kind: "ecdsa", curve, point };
  throw unreadable("the curve or the point does not fit the key type");
}

function sha256(bytes: Uint8Array): Uint8Array {
  return createHash("sha256").update(bytes).digest();
}

function unreadable(fault: string): AppError {
  return new AppError("invalid_request", `Cannot read SSH public key: ${fault}`);
}
