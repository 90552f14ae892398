// OpenSSH certificates over Ed25519 keys, `ssh-ed25519-cert-v01@openssh.com` (PROTOCOL.certkeys), and their
// KeyIds.
import { Buffer } from "node:buffer";
import { AppError } from "../errors.ts";
import { hasInvisible, isUnsafe } from "../text.ts";
import { decodeBase64, decodeKeyBlob, verifySignature } from "./keys.ts";
import { SshReader, SshWriter } from "./wire_format.ts";

/** The type of the certificates. */
export const CERTIFICATE_ALGORITHM = "ssh-ed25519-cert-v01@openssh.com";

/** The fields of a user certificate. */
export interface CertificateFields {
  /** The certified Ed25519 key, 32 bytes. */
  readonly publicKey: Uint8Array;
  /** 32 random bytes, so that an attacker cannot predict the signed bytes. */
  readonly nonce: Uint8Array;
  /** Unsigned, 64 bits. */
  readonly serial: bigint;
  /** sshd logs it when the certificate is used. */
  readonly keyId: string;
  readonly principals: readonly string[];
  /** The first valid second since the epoch. */
  readonly validAfter: number;
  /** The first second since the epoch when the certificate is no longer valid; `Infinity` means never. */
  readonly validBefore: number;
  /** Restrictions that a server must understand; `""` is an option without a value. */
  readonly criticalOptions: Readonly<Record<string, string>>;
  /** Permissions that a server may ignore. */
  readonly extensions: readonly string[];
}

/** The key of a certificate authority. */
export interface CertificateSigner {
  /** The public key blob of RFC 4253 section 6.6. */
  readonly publicKey: Uint8Array;
  /**
   * Signs a certificate up to its signature field.
   *
   * @returns the signature blob; never SHA-1
   * @throws {AppError} `upstream_failure` if a remote key is unavailable
   */
  sign(data: Uint8Array<ArrayBuffer>, signal?: AbortSignal): Promise<Uint8Array>;
}

/** A decoded certificate. Its signature is not verified. */
export interface Certificate extends CertificateFields {
  readonly kind: "user" | "host";
  /** The data of each critical option, as in the certificate. */
  readonly criticalOptionData: ReadonlyMap<string, Uint8Array>;
  /** The data of each extension, as in the certificate; OpenSSH's extensions have none. */
  readonly extensionData: ReadonlyMap<string, Uint8Array>;
  /** The key blob of the CA that the certificate names as its signer. */
  readonly caPublicKey: Uint8Array;
  readonly signature: Uint8Array;
  readonly signatureAlgorithm: string;
  /** The bytes under the signature: everything before it. */
  readonly signedBytes: Uint8Array;
}

/** The initial capacity, which fits the certificates of this project. */
const CAPACITY = 1024;
const USER = 1;
const HOST = 2;
const KEY_BYTES = 32;
const FOREVER = 0xffff_ffff_ffff_ffffn;
const MAX_PRINCIPALS = 256;
/** The longest packet of OpenSSH. */
const MAX_CERTIFICATE_BYTES = 256 * 1024;

/**
 * The certificate up to its signature. Options and extensions are sorted.
 *
 * @param caPublicKey the key blob of the CA
 * @throws {AppError} `invalid_request` for a text with a NUL, which OpenSSH would reject or truncate
 * @throws {TypeError} if a field has the wrong length, a `force-command` or `source-address` is empty, or an extension
 *   is named twice
 * @throws {RangeError} if a number is out of range
 */
export function encodeToBeSigned(
  fields: CertificateFields,
  caPublicKey: Uint8Array,
): Uint8Array<ArrayBuffer> {
  if (fields.publicKey.length !== KEY_BYTES) throw new TypeError("An Ed25519 public key has 32 bytes");
  if (fields.nonce.length !== KEY_BYTES) throw new TypeError("The nonce of a certificate has 32 bytes");
  return new SshWriter(CAPACITY)
    .text(CERTIFICATE_ALGORITHM)
    .string(fields.nonce)
    .string(fields.publicKey)
    .u64(fields.serial)
    .u32(USER)
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

/** The whole certificate. */
export function encodeCertificate(toBeSigned: Uint8Array, signature: Uint8Array): Uint8Array<ArrayBuffer> {
  return new SshWriter(toBeSigned.length + 4 + signature.length).raw(toBeSigned).string(signature).bytes();
}

/**
 * Creates a user certificate.
 *
 * @returns the certificate blob
 * @throws {AppError} `upstream_failure` if the CA key is unavailable; see {@linkcode encodeToBeSigned}
 * @throws {TypeError} without principals: such a certificate could be valid for everybody
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
 * Decodes a certificate, which may have unknown options. {@linkcode verifyCertificateSignature} checks the
 * signature.
 *
 * @throws {AppError} `invalid_request` for another type, truncated or trailing data, texts that are not UTF-8
 * or have a NUL, options that are unsorted or duplicated, a CA key of an unsupported type
 */
export function decodeCertificate(blob: Uint8Array): Certificate {
  if (blob.length > MAX_CERTIFICATE_BYTES) throw malformed("longer than 256 KiB");
  // A copy, so that the checked bytes cannot change under the returned views.
  const bytes = blob.slice();
  const reader = new SshReader(bytes);
  const algorithm = reader.text();
  if (algorithm !== CERTIFICATE_ALGORITHM) throw malformed(`unsupported type ${JSON.stringify(algorithm)}`);
  const nonce = reader.string();
  const publicKey = reader.string();
  if (publicKey.length !== KEY_BYTES) throw malformed("public key does not have 32 bytes");
  const serial = reader.u64();
  const type = reader.u32();
  if (type !== USER && type !== HOST) throw malformed("neither a user nor a host certificate");
  const keyId = decodeText(reader);
  const principals = decodePrincipals(reader.nested());
  const validAfter = decodeTime(reader.u64());
  const validBefore = decodeTime(reader.u64());
  const criticalOptionData = decodeOptions(reader.nested());
  const extensionData = decodeOptions(reader.nested());
  reader.string(); // reserved: ignored, as PROTOCOL.certkeys requires
  const caPublicKey = reader.string();
  decodeKeyBlob(caPublicKey);
  const signedBytes = bytes.subarray(0, reader.offset);
  const signature = reader.string();
  reader.end();
  return {
    kind: type === USER ? "user" : "host",
    publicKey,
    nonce,
    serial,
    keyId,
    principals,
    validAfter,
    validBefore,
    criticalOptions: Object.fromEntries(
      [...criticalOptionData].map(([name, data]) => [name, decodeValue(name, data)]),
    ),
    extensions: [...extensionData.keys()],
    criticalOptionData,
    extensionData,
    caPublicKey,
    signature,
    signatureAlgorithm: decodeSignatureAlgorithm(signature),
    signedBytes,
  };
}

/**
 * Reads `<type> <base64>`, optionally with a comment and a line end.
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

/** Whether the CA key that the certificate names has signed it. The caller decides whether to trust that CA. */
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
  if (!text.includes("\0")) return text;
  throw new AppError("invalid_request", `Cannot create certificate: ${what} has a NUL`);
}

function malformed(reason: string): AppError {
  return new AppError("invalid_request", `Cannot read certificate: ${reason}`);
}

/** sshd rejects a certificate if one of these has no value. */
const NEEDS_VALUE: readonly string[] = ["force-command", "source-address"];

function writeTextOptions(writer: SshWriter, options: Readonly<Record<string, string>>): void {
  for (const name of sorted(Object.keys(options))) {
    const value = options[name] ?? "";
    if (value === "" && NEEDS_VALUE.includes(name)) throw new TypeError(`Option ${name} needs a value`);
    withoutNul(value, name);
    writer.text(name).nested((data) => value === "" ? data : data.text(value));
  }
}

/** Writes sorted options without values. */
export function writeFlagOptions(writer: SshWriter, names: readonly string[]): void {
  if (new Set(names).size !== names.length) throw new TypeError("An extension is named twice");
  for (const name of sorted(names)) writer.text(name).text("");
}

function sorted(names: readonly string[]): readonly string[] {
  return names.length < 2 ? names : names.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

function decodeOptions(reader: SshReader): ReadonlyMap<string, Uint8Array> {
  const data = new Map<string, Uint8Array>();
  let previous: Uint8Array | undefined;
  while (!reader.done) {
    const name = reader.text();
    const bytes = Buffer.from(name);
    if (previous !== undefined && Buffer.compare(previous, bytes) >= 0) {
      throw malformed("options doubled or out of order");
    }
    previous = bytes;
    data.set(name, reader.string());
  }
  return data;
}

function decodeValue(name: string, data: Uint8Array): string {
  const reader = new SshReader(data);
  const value = data.length === 0 ? "" : reader.text();
  reader.end();
  if (value.includes("\0") || (value === "" && NEEDS_VALUE.includes(name))) {
    throw malformed(`malformed value of ${JSON.stringify(name)}`);
  }
  return value;
}

/** The parts of a KeyId. */
export interface KeyIdParts {
  /** The effective caller, not its forwarder. */
  readonly caller: string;
  readonly host: string;
  readonly role: string;
  /** Whole seconds since the epoch. */
  readonly issuedAt: number;
  /** The end user; `""` if it is unknown. */
  readonly endUser?: string;
  /** `sudo -n` or `sudo -n -u <user>`; `""` without elevation. The only value with spaces. */
  readonly elevationPrefix?: string;
  readonly pty?: boolean;
}

/**
 * `agent=<caller> host=<host> role=<role> t=<seconds>`, then optionally ` user=<end user>`, ` elev=<prefix>`, ` pty=1`.
 *
 * @throws {TypeError} if a required value is empty, or a value has a space or a control character
 * @throws {RangeError} if the time is not a whole number of seconds
 */
export function formatKeyId(parts: KeyIdParts): string {
  const { caller, host, role, issuedAt, endUser = "", elevationPrefix = "", pty = false } = parts;
  if (!Number.isSafeInteger(issuedAt) || issuedAt < 0) throw new RangeError(`Not whole seconds: ${issuedAt}`);
  for (const [name, value] of Object.entries({ caller, host, role, endUser })) {
    if (value === "" && name !== "endUser") throw new TypeError(`KeyId needs a value for ${name}`);
    if (isUnsafe(value)) throw new TypeError(`KeyId value for ${name} has a space or control character`);
  }
  if (hasInvisible(elevationPrefix)) {
    throw new TypeError("KeyId value for elevationPrefix has a control character");
  }
  const user = endUser === "" ? "" : ` user=${endUser}`;
  const elevation = elevationPrefix === "" ? "" : ` elev=${elevationPrefix}`;
  return `agent=${caller} host=${host} role=${role} t=${issuedAt}${user}${elevation}${pty ? " pty=1" : ""}`;
}
