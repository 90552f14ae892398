/**
 * SSH public keys as lines of text: `<type> <base64> [comment]`, as in authorized_keys (sshd(8)).
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { fingerprint, parsePublicKey } from "@gateway/shared/ssh";
 *
 * const key = parsePublicKey(
 *   "web01.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c",
 * );
 * assert.equal(key.algorithm, "ssh-ed25519");
 * assert.match(fingerprint(key.blob), /^SHA256:[A-Za-z0-9+\/]{43}$/);
 * ```
 *
 * Read by hand and not by `sshpk`, which is lenient where a host key is pinned: it fills up an Ed25519 key of 31 bytes
 * with a zero, takes the first of two keys, and drops backslashes and what is too much. To find that out by having it
 * write the key again took 30 to 49 us, this 11 to 21. The binary form has to be read for certificates and agents
 * anyway.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { trimBlanks } from "../text.ts";
import { AppError } from "../errors.ts";
import { SshReader, SshWriter } from "./wire_format.ts";

/** A public key. */
export interface SshPublicKey {
  /** The key type, e.g. `ssh-ed25519`. */
  readonly algorithm: string;
  /** The binary form (RFC 4253 section 6.6), which begins with the type again. */
  readonly blob: Uint8Array;
  /** What stood after the key, `""` when nothing did. */
  readonly comment: string;
}

const KEY_TYPE = /^(?:ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521))$/;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const BLANKS = /[ \t]+/;

/**
 * Reads one public key: an authorized_keys line without options, or one of known_hosts and ssh-keyscan, with
 * host names before the key. Comment lines and blank lines around it are skipped. The type must be Ed25519,
 * ECDSA or RSA and equal to the type inside the encoded key.
 *
 * @throws {AppError} `invalid_request` for anything else: no key, a second one, a marker such as `@revoked`, a
 * certificate, base64 that is not canonical
 */
export function parsePublicKey(text: string): SshPublicKey {
  const lines = text.split(/\r?\n/).map(trimBlanks)
    .filter((line) => line !== "" && !line.startsWith("#"));
  const [line, ...others] = lines;
  if (line === undefined) throw new AppError("invalid_request", "Cannot read SSH public key: there is none");
  // Which of two keys was meant is not ours to guess, because a host key is pinned.
  if (others.length > 0) {
    throw new AppError("invalid_request", "Cannot read SSH public key: more than one line");
  }
  if (line.startsWith("@")) {
    throw new AppError("invalid_request", "Cannot read SSH public key: line has a known_hosts marker");
  }
  const fields = line.split(BLANKS);
  const typeIndex = KEY_TYPE.test(fields[0] ?? "") ? 0 : 1;
  const algorithm = fields[typeIndex] ?? "";
  if (!KEY_TYPE.test(algorithm)) {
    throw new AppError(
      "invalid_request",
      "Cannot read SSH public key: neither the first nor the second field is a supported key type",
    );
  }
  const blob = decodeBase64(fields[typeIndex + 1] ?? "");
  const inside = keyAlgorithm(decodeKeyBlob(blob));
  if (inside !== algorithm) {
    throw new AppError(
      "invalid_request",
      `Cannot read SSH public key: ${algorithm} line holds ${inside} key`,
    );
  }
  return { algorithm, blob, comment: fields.slice(typeIndex + 2).join(" ") };
}

/** The text that the specification's clients know for a public key that is refused. */
const INVALID_PUBKEY = "invalid pubkey";
/** Every Ed25519 key begins with the same 19 bytes, its type and two lengths; 32 bytes follow. */
const ED25519_LINE =
  /^ssh-ed25519 (?<key>AAAAC3NzaC1lZDI1NTE5AAAAI[A-P][A-Za-z0-9+/]{42})(?: [^\p{Cc}]*)?\r?\n?$/u;
const ED25519_PREFIX_BYTES = 19;

/**
 * Reads a key to be certified: exactly `ssh-ed25519 <base64>`, perhaps a comment, perhaps a line end. No
 * options, no host name, no certificate, no other type.
 *
 * @returns the 32 bytes of the key
 * @throws {AppError} `invalid_request`, `invalid pubkey`; what is wrong with it is in `cause`
 */
export function parseEd25519PublicKey(line: string): Uint8Array {
  const encoded = ED25519_LINE.exec(line)?.groups?.["key"];
  if (encoded === undefined) {
    const cause = new AppError(
      "invalid_request",
      "Cannot read SSH public key: not one line of an Ed25519 key",
    );
    throw new AppError("invalid_request", INVALID_PUBKEY, { cause });
  }
  return Uint8Array.fromBase64(encoded).subarray(ED25519_PREFIX_BYTES);
}

/** A line of authorized_keys, without line end. The comment must have no control characters. */
export function formatPublicKey(algorithm: string, blob: Uint8Array, comment = ""): string {
  if (/\p{Cc}/u.test(comment)) throw new TypeError("Comment of a public key has a control character");
  const line = `${algorithm} ${blob.toBase64()}`;
  return comment === "" ? line : `${line} ${comment}`;
}

/** The fingerprint of a key: `SHA256:` and 43 letters of base64, as OpenSSH shows it. */
export function fingerprint(blob: Uint8Array): string {
  return `SHA256:${createHash("sha256").update(blob).digest().toBase64({ omitPadding: true })}`;
}

/**
 * Decodes base64 in its canonical form only: with padding, without stray bits, without blanks.
 *
 * @throws {AppError} `invalid_request` for anything else
 */
export function decodeBase64(text: string): Uint8Array {
  if (!BASE64.test(text)) throw new AppError("invalid_request", "Cannot read SSH key: not base64");
  try {
    return Uint8Array.fromBase64(text, { lastChunkHandling: "strict" });
  } catch (cause) {
    throw new AppError("invalid_request", "Cannot read SSH key: base64 is not canonical", { cause });
  }
}

/** The elliptic curves of RFC 5656: name on the wire, name in a JSON Web Key, bytes of a coordinate, hash. */
export const ECDSA_CURVES = [
  { wire: "nistp256", jwk: "P-256", coordinateBytes: 32, hash: "sha256" },
  { wire: "nistp384", jwk: "P-384", coordinateBytes: 48, hash: "sha384" },
  { wire: "nistp521", jwk: "P-521", coordinateBytes: 66, hash: "sha512" },
] as const;

/** One entry of {@linkcode ECDSA_CURVES}. */
export type EcdsaCurve = (typeof ECDSA_CURVES)[number];

/** A public key taken apart. Numbers are big-endian magnitudes without leading zeros. */
export type KeyParts =
  | {
    readonly kind: "ed25519";
    /** 32 bytes. */
    readonly point: Uint8Array;
  }
  | {
    readonly kind: "ecdsa";
    readonly curve: EcdsaCurve;
    /** Uncompressed: the byte 4, then both coordinates in full length. */
    readonly point: Uint8Array;
  }
  | { readonly kind: "rsa"; readonly exponent: Uint8Array; readonly modulus: Uint8Array };

/**
 * The lengths of RSA that a CA may have. Shorter keys can't be trusted; longer ones `node:crypto` of Deno can't take,
 * so that no signature of theirs could be checked.
 */
export const RSA_BITS = { min: 2048, max: 4096 } as const;

const ED25519_BYTES = 32;
const UNCOMPRESSED = 4;
// What OpenSSH can read: SSHBUF_MAX_BIGNUM.
const MAX_RSA_BYTES = 16_384 / 8;

/** The key type on the wire: `ssh-ed25519`, `ecdsa-sha2-<curve>` or `ssh-rsa`. */
export function keyAlgorithm(parts: KeyParts): string {
  switch (parts.kind) {
    case "ed25519":
      return "ssh-ed25519";
    case "ecdsa":
      return `ecdsa-sha2-${parts.curve.wire}`;
    case "rsa":
      return "ssh-rsa";
    default:
      return parts satisfies never;
  }
}

/** The length of an RSA key in bits, as `ssh-keygen -l` shows it. */
export function rsaBits({ modulus }: Extract<KeyParts, { readonly kind: "rsa" }>): number {
  return 8 * modulus.length - (Math.clz32(modulus[0] ?? 0) - 24);
}

/** Puts a public key into its binary form. */
export function encodeKeyBlob(parts: KeyParts): Uint8Array<ArrayBuffer> {
  const writer = new SshWriter().text(keyAlgorithm(parts));
  switch (parts.kind) {
    case "ed25519":
      return writer.string(parts.point).bytes();
    case "ecdsa":
      return writer.text(parts.curve.wire).string(parts.point).bytes();
    case "rsa":
      return writer.mpint(parts.exponent).mpint(parts.modulus).bytes();
    default:
      return parts satisfies never;
  }
}

/**
 * Takes a public key apart. The key types are those that a host or a certificate authority has here: Ed25519,
 * ECDSA on the three NIST curves, RSA. Whether a point lies on its curve is not checked; using the key does.
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
    if (point.length !== ED25519_BYTES) {
      throw new AppError("invalid_request", `Cannot read Ed25519 key: ${point.length} bytes instead of 32`);
    }
    return { kind: "ed25519", point };
  }
  if (algorithm === "ssh-rsa") {
    const exponent = reader.mpint();
    const modulus = reader.mpint();
    if (exponent.length === 0 || modulus.length === 0 || modulus.length > MAX_RSA_BYTES) {
      throw new AppError("invalid_request", "Cannot read RSA key: number out of range");
    }
    return { kind: "rsa", exponent, modulus };
  }
  const curve = ECDSA_CURVES.find(({ wire }) => algorithm === `ecdsa-sha2-${wire}`);
  if (curve === undefined) {
    throw new AppError(
      "invalid_request",
      `Cannot read SSH key: unsupported type ${JSON.stringify(algorithm)}`,
    );
  }
  const inner = reader.text();
  const point = reader.string();
  if (inner !== curve.wire || point.length !== 1 + 2 * curve.coordinateBytes || point[0] !== UNCOMPRESSED) {
    throw new AppError("invalid_request", "Cannot read ECDSA key: curve or point does not fit the key type");
  }
  return { kind: "ecdsa", curve, point };
}
