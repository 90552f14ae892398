/**
 * OpenSSH certificates over Ed25519 keys, `ssh-ed25519-cert-v01@openssh.com` (PROTOCOL.certkeys).
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { parsePemCaKey } from "@gateway/shared/ca/pem";
 * import {
 *   decodeCertificate,
 *   issueCertificate,
 *   verifyCertificateSignature,
 * } from "@gateway/shared/ssh";
 * import { encodeOpensshPrivateKey } from "@gateway/shared/ssh";
 *
 * const ca = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
 * const blob = await issueCertificate({
 *   publicKey: new Uint8Array(32).fill(2),
 *   nonce: new Uint8Array(32).fill(3),
 *   serial: 18_446_744_073_709_551_615n,
 *   keyId: "agent=broker-1 host=web01 role=target t=1700000000",
 *   principals: ["host:web01"],
 *   validAfter: 1_699_999_970,
 *   validBefore: 1_700_000_120,
 *   criticalOptions: { "force-command": "uptime" },
 *   extensions: [],
 * }, ca);
 * const certificate = decodeCertificate(blob);
 * assert.ok(verifyCertificateSignature(certificate));
 * assert.equal(certificate.criticalOptions["force-command"], "uptime");
 * ```
 *
 * @module
 */

import { AppError } from "../errors.ts";
import { decodeBase64, decodeKeyBlob } from "./public_key.ts";
import { verifySignature } from "./signature.ts";
import { SshReader, SshWriter } from "./wire_format.ts";
import { Buffer } from "node:buffer";

/** The type of the certificates that are made and read here. */
export const CERTIFICATE_ALGORITHM = "ssh-ed25519-cert-v01@openssh.com";

/** What a user certificate says. */
export interface CertificateFields {
  /** The certified Ed25519 key, 32 bytes. */
  readonly publicKey: Uint8Array;
  /** Random bytes of the CA, 32 of them, so that nobody can foresee what it signs. */
  readonly nonce: Uint8Array;
  /** Unsigned, 64 bits. */
  readonly serial: bigint;
  /** What sshd writes to its log when the certificate is used. */
  readonly keyId: string;
  readonly principals: readonly string[];
  /** Valid from this second since the epoch on. */
  readonly validAfter: number;
  /** No longer valid at this second since the epoch; `Infinity` is never. */
  readonly validBefore: number;
  /** Restrictions that a server must understand; `""` is an option without a value. */
  readonly criticalOptions: Readonly<Record<string, string>>;
  /** Permissions that a server may ignore. */
  readonly extensions: readonly string[];
}

/** What signs certificates: the key of a certificate authority. */
export interface CertificateSigner {
  /** The public key blob of RFC 4253 section 6.6. */
  readonly publicKey: Uint8Array;
  /**
   * Signs.
   *
   * @param data the bytes to be signed, a certificate up to its signature field
   * @param signal ends the wait for a key kept elsewhere
   * @returns the signature blob: `string` algorithm, `string` signature; never SHA-1
   * @throws {AppError} `upstream_failure` when a key kept elsewhere can't be reached
   */
  sign(data: Uint8Array<ArrayBuffer>, signal?: AbortSignal): Promise<Uint8Array>;
}

/** A certificate that was read; whether its signature is right is another question. */
export interface Certificate extends CertificateFields {
  /** Whether it certifies a user or a host. */
  readonly kind: "user" | "host";
  /** The data of each critical option as it stands in the certificate. */
  readonly criticalOptionData: ReadonlyMap<string, Uint8Array>;
  /** The data of each extension as it stands in the certificate; those known to OpenSSH have none. */
  readonly extensionData: ReadonlyMap<string, Uint8Array>;
  /** The key blob of the CA that claims to have signed it. */
  readonly caPublicKey: Uint8Array;
  readonly signature: Uint8Array;
  /** The algorithm that the signature names, e.g. `ssh-ed25519`. */
  readonly signatureAlgorithm: string;
  /** The bytes under the signature: all that comes before it. */
  readonly signedBytes: Uint8Array;
}

/** Room for a certificate of ours. */
const CAPACITY = 1024;
const USER_CERTIFICATE = 1;
const HOST_CERTIFICATE = 2;
const KEY_BYTES = 32;
const NONCE_BYTES = 32;
const FOREVER = 0xffff_ffff_ffff_ffffn;
const MAX_PRINCIPALS = 256;
/** The longest packet of OpenSSH; a longer certificate can't be used. */
const MAX_CERTIFICATE_BYTES = 256 * 1024;

/**
 * The bytes that the CA signs: the certificate up to its signature. Options and extensions are put in order.
 *
 * @param caPublicKey the key blob of the CA
 * @throws {AppError} `invalid_request` when a text has a NUL, which OpenSSH would refuse or cut
 * @throws {TypeError} when a field has the wrong length, a `force-command` or `source-address` is empty, or an
 * extension is named twice
 * @throws {RangeError} when a number is out of range
 */
export function encodeToBeSigned(
  fields: CertificateFields,
  caPublicKey: Uint8Array,
): Uint8Array<ArrayBuffer> {
  if (fields.publicKey.length !== KEY_BYTES) throw new TypeError("An Ed25519 public key has 32 bytes");
  if (fields.nonce.length !== NONCE_BYTES) throw new TypeError("The nonce of a certificate has 32 bytes");
  return new SshWriter(CAPACITY)
    .text(CERTIFICATE_ALGORITHM)
    .string(fields.nonce)
    .string(fields.publicKey)
    .u64(fields.serial)
    .u32(USER_CERTIFICATE)
    .text(withoutNul(fields.keyId, "KeyId"))
    .nested((inside) => {
      for (const principal of fields.principals) inside.text(withoutNul(principal, "principal"));
    })
    .u64(encodeTime(fields.validAfter))
    .u64(encodeTime(fields.validBefore))
    .nested((inside) => writeTextOptions(inside, fields.criticalOptions))
    .nested((inside) => writeFlagOptions(inside, fields.extensions))
    .text("")
    .string(caPublicKey)
    .bytes();
}

/** The whole certificate from the bytes that were signed and the signature blob. */
export function encodeCertificate(toBeSigned: Uint8Array, signature: Uint8Array): Uint8Array<ArrayBuffer> {
  return new SshWriter(toBeSigned.length + 4 + signature.length).raw(toBeSigned).string(signature).bytes();
}

/**
 * Makes a user certificate.
 *
 * @param signal ends the wait for a CA key kept elsewhere
 * @returns the certificate blob
 * @throws {AppError} `upstream_failure` when the CA key can't be reached; see {@linkcode encodeToBeSigned}
 * @throws {TypeError} when no principal, or an empty one, is named: it could be taken as valid for everybody
 */
export async function issueCertificate(
  fields: CertificateFields,
  ca: CertificateSigner,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  if (fields.principals.length === 0 || fields.principals.includes("")) {
    throw new TypeError("A certificate needs principals");
  }
  const toBeSigned = encodeToBeSigned(fields, ca.publicKey);
  return encodeCertificate(toBeSigned, await ca.sign(toBeSigned, signal));
}

/** One authorized_keys line without comment, with a line end. */
export function formatCertificate(blob: Uint8Array): string {
  return `${CERTIFICATE_ALGORITHM} ${blob.toBase64()}\n`;
}

/**
 * Takes a certificate apart. Options that are not known are kept. The signature is **not** checked: see
 * {@linkcode verifyCertificateSignature}.
 *
 * @throws {AppError} `invalid_request` for another type, truncated or trailing data, texts that are not UTF-8 or
 * have a NUL, options that are out of order or doubled, a CA key of an unsupported type
 */
export function decodeCertificate(blob: Uint8Array): Certificate {
  if (blob.length > MAX_CERTIFICATE_BYTES) throw malformed("longer than 256 KiB");
  // A copy, so that what was checked can't change under the views that are given out.
  const bytes = blob.slice();
  const reader = new SshReader(bytes);
  const algorithm = reader.text();
  if (algorithm !== CERTIFICATE_ALGORITHM) throw malformed(`unsupported type ${JSON.stringify(algorithm)}`);
  const nonce = reader.string();
  const publicKey = reader.string();
  if (publicKey.length !== KEY_BYTES) throw malformed("public key does not have 32 bytes");
  const serial = reader.u64();
  const kind = decodeKind(reader.u32());
  const keyId = decodeText(reader);
  const principals = decodePrincipals(reader.nested());
  const validAfter = decodeTime(reader.u64());
  const validBefore = decodeTime(reader.u64());
  const critical = decodeOptions(reader.nested());
  const extensions = decodeOptions(reader.nested());
  reader.string(); // reserved: ignored, as PROTOCOL.certkeys says
  const caPublicKey = reader.string();
  decodeKeyBlob(caPublicKey);
  const signedBytes = bytes.subarray(0, reader.offset);
  const signature = reader.string();
  reader.end();
  return {
    kind,
    publicKey,
    nonce,
    serial,
    keyId,
    principals,
    validAfter,
    validBefore,
    criticalOptions: critical.texts(),
    extensions: [...extensions.data.keys()],
    criticalOptionData: critical.data,
    extensionData: extensions.data,
    caPublicKey,
    signature,
    signatureAlgorithm: decodeSignatureAlgorithm(signature),
    signedBytes,
  };
}

/**
 * Reads `<type> <base64>`, perhaps with a comment and a line end.
 *
 * @throws {AppError} `invalid_request`, see {@linkcode decodeCertificate}
 */
export function parseCertificate(line: string): Certificate {
  const [algorithm, encoded] = line.replace(/\r?\n$/, "").split(/[ \t]+/);
  if (algorithm !== CERTIFICATE_ALGORITHM || encoded === undefined || /[\r\n]/.test(line.trimEnd())) {
    throw malformed(`not one ${CERTIFICATE_ALGORITHM} line`);
  }
  return decodeCertificate(decodeBase64(encoded));
}

/**
 * Whether the certificate was signed by the CA key that it names. Whether that CA is trusted, and whether the
 * certificate is valid now, is for the caller to find out.
 */
export function verifyCertificateSignature(certificate: Certificate): boolean {
  return verifySignature(certificate.caPublicKey, certificate.signature, certificate.signedBytes);
}

function encodeTime(seconds: number): bigint {
  if (seconds === Infinity) return FOREVER;
  if (!Number.isSafeInteger(seconds) || seconds < 0) {
    throw new RangeError(`Not a whole number of seconds since the epoch: ${seconds}`);
  }
  return BigInt(seconds);
}

function decodeTime(seconds: bigint): number {
  if (seconds === FOREVER) return Infinity;
  if (seconds > BigInt(Number.MAX_SAFE_INTEGER)) throw malformed("time out of range");
  return Number(seconds);
}

function decodeKind(kind: number): "user" | "host" {
  if (kind === USER_CERTIFICATE) return "user";
  if (kind === HOST_CERTIFICATE) return "host";
  throw malformed("neither a user nor a host certificate");
}

function decodePrincipals(reader: SshReader): readonly string[] {
  const principals: string[] = [];
  while (!reader.done) {
    if (principals.length === MAX_PRINCIPALS) throw malformed(`more than ${MAX_PRINCIPALS} principals`);
    principals.push(decodeText(reader));
  }
  return principals;
}

function decodeSignatureAlgorithm(signature: Uint8Array): string {
  const reader = new SshReader(signature);
  const algorithm = reader.text();
  reader.string();
  reader.end();
  return algorithm;
}

function decodeText(reader: SshReader): string {
  const text = reader.text();
  if (text.includes("\0")) throw malformed("text with a NUL");
  return text;
}

function withoutNul(text: string, what: string): string {
  if (text.includes("\0")) {
    throw new AppError("invalid_request", `Cannot make certificate: ${what} has a NUL`);
  }
  return text;
}

function malformed(reason: string): AppError {
  return new AppError("invalid_request", `Cannot read certificate: ${reason}`);
}

/** Data by name. */
export type OptionData = ReadonlyMap<string, Uint8Array>;

/** Options that mean nothing without a value. sshd refuses a certificate where it is missing. */
const NEEDS_VALUE: readonly string[] = ["force-command", "source-address"];

const ASCII = /^[\x20-\x7e]*$/;
const encoder = new TextEncoder();

/**
 * Writes options with values, in the order of their names; `""` gives an option without one.
 *
 * @throws {AppError} `invalid_request` when a value has a NUL
 * @throws {TypeError} when an option that needs a value has none
 */
function writeTextOptions(writer: SshWriter, options: Readonly<Record<string, string>>): void {
  for (const name of inOrder(Object.keys(options))) {
    const value = options[name] ?? "";
    if (value === "" && NEEDS_VALUE.includes(name)) throw new TypeError(`Option ${name} needs a value`);
    if (value.includes("\0")) {
      throw new AppError("invalid_request", `Cannot make certificate: ${name} has a NUL`);
    }
    writer.text(name).nested((data) => value === "" ? data : data.text(value));
  }
}

/**
 * Writes options without values, in the order of their names.
 *
 * @throws {TypeError} when one is named twice
 */
export function writeFlagOptions(writer: SshWriter, names: readonly string[]): void {
  if (new Set(names).size !== names.length) throw new TypeError("An extension is named twice");
  for (const name of inOrder(names)) writer.text(name).text("");
}

/** Names in the order of their bytes. */
function inOrder(names: readonly string[]): readonly string[] {
  return names.every((name, index) => index === 0 || compareBytes(names[index - 1] ?? "", name) <= 0)
    ? names
    : names.toSorted(compareBytes);
}

function compareBytes(a: string, b: string): number {
  // Of ASCII alone, the order of the units is that of the bytes.
  if (!ASCII.test(a) || !ASCII.test(b)) return Buffer.compare(encoder.encode(a), encoder.encode(b));
  return a === b ? 0 : a < b ? -1 : 1;
}

/** Options that were read: the raw data, and a reading of it as values. */
interface DecodedOptions {
  readonly data: OptionData;
  /**
   * The values; `""` for an option without one.
   *
   * @throws {AppError} `invalid_request` when data is not exactly one text
   */
  texts(): Readonly<Record<string, string>>;
}

/**
 * Reads the inside of the field.
 *
 * @throws {AppError} `invalid_request` when it is malformed, an option is doubled or out of order
 */
function decodeOptions(reader: SshReader): DecodedOptions {
  const data = new Map<string, Uint8Array>();
  let previous: Uint8Array | undefined;
  while (!reader.done) {
    const name = reader.text();
    const bytes = encoder.encode(name);
    if (previous !== undefined && Buffer.compare(previous, bytes) >= 0) {
      throw new AppError("invalid_request", "Cannot read certificate: options doubled or out of order");
    }
    previous = bytes;
    data.set(name, reader.string());
  }
  return {
    data,
    texts: () => Object.fromEntries([...data].map(([name, bytes]) => [name, readValue(name, bytes)])),
  };
}

function readValue(name: string, data: Uint8Array): string {
  const reader = new SshReader(data);
  const value = data.length === 0 ? "" : reader.text();
  reader.end();
  if (value.includes("\0") || (value === "" && NEEDS_VALUE.includes(name))) {
    throw new AppError(
      "invalid_request",
      `Cannot read certificate: malformed value of ${JSON.stringify(name)}`,
    );
  }
  return value;
}
