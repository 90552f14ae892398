// SSH public keys (`<type> <base64> [comment]`, sshd(8)) and signatures (RFC 4253 section 6.6): Ed25519 (RFC
// 8709), ECDSA with the hash of its curve (RFC 5656), RSA with SHA-2 (RFC 8332). SHA-1 is neither created nor
// accepted. `sshpk` does not read the public keys, because it is too lenient for a pinned host key: it pads
// an Ed25519 key of 31 bytes, takes the first of two keys, and drops backslashes and trailing data.
import { createPrivateKey, createPublicKey, hash, type KeyObject, sign, verify } from "node:crypto";
import { concatBytes, trimSpaces } from "../text.ts";
import { AppError } from "../errors.ts";
import { SshReader, SshWriter } from "./wire_format.ts";
import { Buffer } from "node:buffer";

/** A public key. */
export interface SshPublicKey {
  /** The key type, e.g. `ssh-ed25519`. */
  readonly algorithm: string;
  /** The binary form (RFC 4253 section 6.6). */
  readonly blob: Uint8Array;
  readonly comment: string;
}

const KEY_TYPE = /^(?:ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521))$/;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const BLANKS = /[ \t]+/;

function unreadable(what: string, fault: string, cause?: unknown): AppError {
  return new AppError("invalid_request", `Cannot read ${what}: ${fault}`, { cause });
}

/**
 * Reads one public key: an authorized_keys line without options, or a line of known_hosts or ssh-keyscan, with host
 * names before the key. Comment lines and empty lines are skipped.
 *
 * @throws {AppError} `invalid_request` for everything else: no key, a second key, a marker such as `@revoked`, a
 * certificate, base64 that is not canonical
 */
export function parsePublicKey(text: string): SshPublicKey {
  const invalid = (fault: string) => unreadable("SSH public key", fault);
  const [line, ...others] = text.split(/\r?\n/).map(trimSpaces)
    .filter((line) => line !== "" && !line.startsWith("#"));
  if (line === undefined) throw invalid("there is none");
  // A host key is pinned, so several keys must not lead to a guess.
  if (others.length > 0) throw invalid("more than one line");
  if (line.startsWith("@")) throw invalid("line has a known_hosts marker");
  const fields = line.split(BLANKS);
  const typeIndex = KEY_TYPE.test(fields[0] ?? "") ? 0 : 1;
  const algorithm = fields[typeIndex] ?? "";
  if (!KEY_TYPE.test(algorithm)) {
    throw invalid("neither the first nor the second field is a supported key type");
  }
  const blob = decodeBase64(fields[typeIndex + 1] ?? "");
  const inside = keyAlgorithm(decodeKeyBlob(blob));
  if (inside !== algorithm) throw invalid(`${algorithm} line holds ${inside} key`);
  return { algorithm, blob, comment: fields.slice(typeIndex + 2).join(" ") };
}

/** Every Ed25519 key begins with the same 19 bytes, its type and two lengths; 32 bytes follow. */
const ED25519_LINE =
  /^ssh-ed25519 (?<key>AAAAC3NzaC1lZDI1NTE5AAAAI[A-P][A-Za-z0-9+/]{42})(?: [^\p{Cc}]*)?\r?\n?$/u;
const ED25519_PREFIX_BYTES = 19;

/**
 * Reads a key to certify: exactly `ssh-ed25519 <base64>`, optionally with a comment and a line end.
 *
 * @returns the 32 bytes of the key
 * @throws {AppError} `invalid_request` with the specified text `invalid pubkey`
 */
export function parseEd25519PublicKey(line: string): Uint8Array {
  const encoded = ED25519_LINE.exec(line)?.groups?.["key"];
  if (encoded !== undefined) return Uint8Array.fromBase64(encoded).subarray(ED25519_PREFIX_BYTES);
  const cause = unreadable("SSH public key", "not one line of an Ed25519 key");
  throw new AppError("invalid_request", "invalid pubkey", { cause });
}

/** A line of authorized_keys, without line end. The comment must have no control characters. */
export function formatPublicKey(algorithm: string, blob: Uint8Array, comment = ""): string {
  if (/\p{Cc}/u.test(comment)) throw new TypeError("Comment of a public key has a control character");
  const line = `${algorithm} ${blob.toBase64()}`;
  return comment === "" ? line : `${line} ${comment}`;
}

/** The fingerprint of a key as OpenSSH shows it: `SHA256:` and 43 characters of base64. */
export function fingerprint(blob: Uint8Array): string {
  return `SHA256:${hash("sha256", blob, "buffer").toBase64({ omitPadding: true })}`;
}

/**
 * Decodes canonical base64: with padding, without stray bits, without spaces.
 *
 * @throws {AppError} `invalid_request` for everything else
 */
export function decodeBase64(text: string): Uint8Array {
  if (!BASE64.test(text)) throw unreadable("SSH key", "not base64");
  try {
    return Uint8Array.fromBase64(text, { lastChunkHandling: "strict" });
  } catch (cause) {
    throw unreadable("SSH key", "base64 is not canonical", cause);
  }
}

/** The elliptic curves of RFC 5656, with their names on the wire and in a JSON Web Key. */
export const ECDSA_CURVES = [
  { wire: "nistp256", jwk: "P-256", coordinateBytes: 32, hash: "sha256" },
  { wire: "nistp384", jwk: "P-384", coordinateBytes: 48, hash: "sha384" },
  { wire: "nistp521", jwk: "P-521", coordinateBytes: 66, hash: "sha512" },
] as const;

/** A decoded public key. Numbers are big-endian magnitudes without leading zeros. */
export type KeyParts =
  | { readonly kind: "ed25519"; readonly point: Uint8Array }
  /** The point is uncompressed: the byte 4, then both coordinates in full length. */
  | { readonly kind: "ecdsa"; readonly curve: (typeof ECDSA_CURVES)[number]; readonly point: Uint8Array }
  | { readonly kind: "rsa"; readonly exponent: Uint8Array; readonly modulus: Uint8Array };

/** The lengths of RSA for a CA. `node:crypto` of Deno cannot verify signatures of longer keys. */
export const RSA_BITS = { min: 2048, max: 4096 } as const;

const ED25519_BYTES = 32;
const UNCOMPRESSED = 4;
// OpenSSH's limit: SSHBUF_MAX_BIGNUM.
const MAX_RSA_BYTES = 16_384 / 8;

/** The key type on the wire: `ssh-ed25519`, `ecdsa-sha2-<curve>` or `ssh-rsa`. */
export function keyAlgorithm(parts: KeyParts): string {
  return parts.kind === "ecdsa" ? `ecdsa-sha2-${parts.curve.wire}` : `ssh-${parts.kind}`;
}

/** The length of an RSA key in bits, as `ssh-keygen -l` shows it. */
export function rsaBits({ modulus }: Extract<KeyParts, { readonly kind: "rsa" }>): number {
  return 8 * modulus.length - (Math.clz32(modulus[0] ?? 0) - 24);
}

/** Encodes a public key in its binary form. */
export function encodeKeyBlob(parts: KeyParts): Uint8Array<ArrayBuffer> {
  const writer = new SshWriter().text(keyAlgorithm(parts));
  if (parts.kind === "rsa") return writer.mpint(parts.exponent).mpint(parts.modulus).bytes();
  if (parts.kind === "ecdsa") writer.text(parts.curve.wire);
  return writer.string(parts.point).bytes();
}

/**
 * Decodes a public key: Ed25519, ECDSA on the three NIST curves, or RSA. Using the key checks that a point lies on its
 * curve.
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
    if (point.length === ED25519_BYTES) return { kind: "ed25519", point };
    throw unreadable("Ed25519 key", `${point.length} bytes instead of 32`);
  }
  if (algorithm === "ssh-rsa") {
    const [exponent, modulus] = [reader.mpint(), reader.mpint()];
    if (exponent.length === 0 || modulus.length === 0 || modulus.length > MAX_RSA_BYTES) {
      throw unreadable("RSA key", "number out of range");
    }
    return { kind: "rsa", exponent, modulus };
  }
  const curve = ECDSA_CURVES.find(({ wire }) => algorithm === `ecdsa-sha2-${wire}`);
  if (curve === undefined) throw unreadable("SSH key", `unsupported type ${JSON.stringify(algorithm)}`);
  const [inner, point] = [reader.text(), reader.string()];
  if (inner !== curve.wire || point.length !== 1 + 2 * curve.coordinateBytes || point[0] !== UNCOMPRESSED) {
    throw unreadable("ECDSA key", "curve or point does not fit the key type");
  }
  return { kind: "ecdsa", curve, point };
}

/** The hash of a key's own signatures; Ed25519 has none. */
function hashOf(parts: KeyParts): "sha256" | "sha384" | "sha512" | null {
  if (parts.kind === "ed25519") return null;
  return parts.kind === "rsa" ? "sha256" : parts.curve.hash;
}

/** A private key that can sign but cannot be exported. */
export interface SshSigner {
  /** The public key blob (RFC 4253 section 6.6). */
  readonly publicKey: Uint8Array;
  /** Returns the signature blob. */
  sign(data: Uint8Array): Uint8Array;
}

/**
 * Signs with the algorithm of the key; RSA keys sign as `rsa-sha2-256`.
 *
 * @param key the private half of `parts`
 * @returns the signature blob
 */
export function signData(key: KeyObject, parts: KeyParts, data: Uint8Array): Uint8Array<ArrayBuffer> {
  return encodeSignature(parts, sign(hashOf(parts), data, { key, dsaEncoding: "ieee-p1363" }));
}

/** A private key in memory. */
export interface SshPrivateKey extends SshSigner {
  /** The key type on the wire. */
  readonly algorithm: string;
  /** Signs without delaying other requests. */
  signAsync(data: Uint8Array<ArrayBuffer>, signal?: AbortSignal): Promise<Uint8Array>;
}

/** Wraps a private key, which is the private half of `parts`. */
export function wrapPrivateKey(key: KeyObject, parts: KeyParts): SshPrivateKey {
  const hash = (hashOf(parts) ?? "").replace("sha", "SHA-");
  const name = { ed25519: "Ed25519", rsa: "RSASSA-PKCS1-v1_5", ecdsa: "ECDSA" }[parts.kind];
  const importing = { name, hash, ...(parts.kind === "ecdsa" && { namedCurve: parts.curve.jwk }) };
  // Node's types know more usages than the web's types.
  const webKey = key.toCryptoKey(importing, false, ["sign"]) as CryptoKey;
  return {
    algorithm: keyAlgorithm(parts),
    publicKey: encodeKeyBlob(parts),
    sign: (data) => signData(key, parts, data),
    async signAsync(data, signal) {
      signal?.throwIfAborted();
      // RSA takes milliseconds, so another thread signs. Ed25519 is faster than the change of threads.
      if (parts.kind === "ed25519") return signData(key, parts, data);
      return encodeSignature(parts, new Uint8Array(await crypto.subtle.sign({ name, hash }, webKey, data)));
    },
  };
}

/**
 * The signature blob.
 *
 * @param raw the bytes of the scheme; for ECDSA both numbers in full length (IEEE P1363)
 */
export function encodeSignature(parts: KeyParts, raw: Uint8Array): Uint8Array<ArrayBuffer> {
  const writer = new SshWriter(ED25519_BLOB_BYTES);
  if (parts.kind === "rsa") return writer.text("rsa-sha2-256").string(raw).bytes();
  writer.text(keyAlgorithm(parts));
  if (parts.kind === "ed25519") return writer.string(raw).bytes();
  const middle = raw.length / 2;
  return writer.nested((inside) => inside.mpint(raw.subarray(0, middle)).mpint(raw.subarray(middle))).bytes();
}

/** `ssh-ed25519` and 64 bytes, each after its length. */
const ED25519_BLOB_BYTES = 83;

/** Whether a signature is valid. A malformed key or signature is not. */
export function verifySignature(publicKey: Uint8Array, signature: Uint8Array, data: Uint8Array): boolean {
  try {
    const reader = new SshReader(signature);
    const [algorithm, value] = [reader.text(), reader.string()];
    reader.end();
    return verifyValue(decodeKeyBlob(publicKey), algorithm, value, data);
  } catch (error) {
    if (error instanceof AppError) return false;
    throw error;
  }
}

/** Whether the bytes of a scheme are a signature with an algorithm of the key. */
export function verifyValue(
  parts: KeyParts,
  algorithm: string,
  value: Uint8Array,
  data: Uint8Array,
): boolean {
  if (parts.kind === "rsa") {
    // `ssh-rsa`, which uses SHA-1, is omitted on purpose.
    const hash = { "rsa-sha2-256": "sha256", "rsa-sha2-512": "sha512" }[algorithm];
    return hash !== undefined && value.length === parts.modulus.length &&
      verify(hash, data, publicKeyOf(parts), value);
  }
  if (algorithm !== keyAlgorithm(parts)) return false;
  if (parts.kind === "ed25519") return value.length === 64 && verify(null, data, publicKeyOf(parts), value);
  const raw = readEcdsaNumbers(value, parts.curve.coordinateBytes);
  return verify(parts.curve.hash, data, { key: publicKeyOf(parts), dsaEncoding: "ieee-p1363" }, raw);
}

/** Both numbers of an ECDSA signature in the full length of the curve (IEEE P1363). */
function readEcdsaNumbers(value: Uint8Array, coordinateBytes: number): Uint8Array {
  const reader = new SshReader(value);
  const numbers = [reader.mpint(), reader.mpint()];
  reader.end();
  const raw = new Uint8Array(2 * coordinateBytes);
  for (const [index, number] of numbers.entries()) {
    if (number.length > coordinateBytes) throw unreadable("ECDSA signature", "number out of range");
    raw.set(number, (index + 1) * coordinateBytes - number.length);
  }
  return raw;
}

/** @throws {AppError} `invalid_request` if the numbers form no key, such as a point outside its curve */
function publicKeyOf(parts: KeyParts): KeyObject {
  try {
    return createPublicKey({ format: "jwk", key: { ...webKey(parts) } });
  } catch (cause) {
    const message = `Cannot use ${keyAlgorithm(parts)} key: not a valid key`;
    throw new AppError("invalid_request", message, { cause });
  }
}

/** A public key as a JSON Web Key (RFC 7518, RFC 8037). */
export function webKey(parts: KeyParts): JsonWebKey {
  const text = (bytes: Uint8Array) => bytes.toBase64({ alphabet: "base64url", omitPadding: true });
  if (parts.kind === "ed25519") return { kty: "OKP", crv: "Ed25519", x: text(parts.point) };
  if (parts.kind === "rsa") return { kty: "RSA", e: text(parts.exponent), n: text(parts.modulus) };
  const middle = 1 + parts.curve.coordinateBytes;
  const [x, y] = [parts.point.subarray(1, middle), parts.point.subarray(middle)];
  return { kty: "EC", crv: parts.curve.jwk, x: text(x), y: text(y) };
}

const MAGIC = new TextEncoder().encode("SSHSIG");
const HASH = "sha512";
const HASH_BYTES = 64;

/**
 * Signs a message for a namespace, which the verifier must name.
 *
 * @returns the binary signature, for {@linkcode armorSshsig}
 */
export function signSshsig(key: SshSigner, namespace: string, message: Uint8Array): Uint8Array<ArrayBuffer> {
  const signed = sshsigSignedBytes(namespace);
  fillSshsigHash(signed, message);
  return new SshWriter(320).raw(MAGIC).u32(1).string(key.publicKey)
    .text(namespace).text("").text(HASH).string(key.sign(signed)).bytes();
}

/** The bytes under a signature, with room for {@linkcode fillSshsigHash}: reusable for many messages. */
export function sshsigSignedBytes(namespace: string): Uint8Array<ArrayBuffer> {
  if (namespace === "") throw new RangeError("The namespace of a signature is empty");
  return new SshWriter().raw(MAGIC).text(namespace).text("").text(HASH).string(new Uint8Array(HASH_BYTES))
    .bytes();
}

/** Puts the hash of a message into the bytes of {@linkcode sshsigSignedBytes}. */
export function fillSshsigHash(signed: Uint8Array, message: Uint8Array): void {
  signed.set(hash(HASH, message, "buffer"), signed.length - HASH_BYTES);
}

/** A binary signature as the text that `ssh-keygen -Y verify -s` reads, with a line end. */
export function armorSshsig(signature: Uint8Array): string {
  return formatPem("SSH SIGNATURE", signature);
}

/** Armored text as OpenSSH writes it, with a line end. */
function formatPem(label: string, bytes: Uint8Array): string {
  const lines = bytes.toBase64().match(/.{1,70}/g) ?? [];
  return [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`, ""].join("\n");
}

// Private keys in OpenSSH's own format, `openssh-key-v1` (PROTOCOL.key), without encryption. `sshpk` is not
// used: its check numbers are random, so that `init` would create different files from the same seeds.

/** The PEM label of the format. */
export const OPENSSH_LABEL = "OPENSSH PRIVATE KEY";

const OPENSSH_MAGIC = new TextEncoder().encode("openssh-key-v1\0");
/** The block size of the cipher `none`. */
const BLOCK_BYTES = 8;
/** The constant beginning of an Ed25519 key in PKCS #8 (RFC 8410), before the seed. */
const ED25519_PKCS8 = Uint8Array.fromHex("302e020100300506032b657004220420");

/**
 * Writes an Ed25519 private key as OpenSSH does, without passphrase.
 *
 * @param seed the 32 bytes of the private key (RFC 8032)
 * @param comment shown by OpenSSH tools
 * @returns PEM text with a line end
 */
export function encodeOpensshPrivateKey(seed: Uint8Array, comment: string): string {
  const publicKey = ed25519PublicKey(seed);
  const point = publicKey.subarray(-ED25519_BYTES);
  // Equal check numbers show that the passphrase was correct.
  const section = new SshWriter().u32(0).u32(0).raw(publicKey)
    .u32(2 * ED25519_BYTES).raw(seed).raw(point).text(comment).bytes();
  const padding = Array.from({ length: -section.length & (BLOCK_BYTES - 1) }, (_, index) => index + 1);
  const bytes = new SshWriter().raw(opensshHead(publicKey))
    .string(Uint8Array.of(...section, ...padding)).bytes();
  return formatPem(OPENSSH_LABEL, bytes);
}

/** The beginning of a file of one key without passphrase, including its public key. */
export function opensshHead(publicKey: Uint8Array): Uint8Array {
  return new SshWriter().raw(OPENSSH_MAGIC).text("none").text("none").text("").u32(1).string(publicKey)
    .bytes();
}

/** The public key blob of an Ed25519 seed of 32 bytes. */
export function ed25519PublicKey(seed: Uint8Array): Uint8Array {
  const der = createPublicKey(importEd25519Seed(seed)).export({ format: "der", type: "spki" });
  return encodeKeyBlob({ kind: "ed25519", point: der.subarray(-ED25519_BYTES) });
}

/** The Ed25519 key of a seed of 32 bytes. */
export function importEd25519Seed(seed: Uint8Array): KeyObject {
  if (seed.length !== ED25519_BYTES) throw new RangeError(`An Ed25519 seed has 32 bytes, not ${seed.length}`);
  const key = Buffer.from(concatBytes([ED25519_PKCS8, seed]).buffer);
  return createPrivateKey({ key, format: "der", type: "pkcs8" });
}
