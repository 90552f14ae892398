/**
 * Writing a private key in OpenSSH's own format, `openssh-key-v1` (PROTOCOL.key), without encryption. Not by `sshpk`,
 * which reads it: the numbers that stand in it twice would be random, and `init` would make other files from the same
 * seeds.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { encodeOpensshPrivateKey } from "@gateway/shared/ssh";
 *
 * const pem = encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca");
 * assert.ok(pem.startsWith("-----BEGIN OPENSSH PRIVATE KEY-----\n"));
 * ```
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { concatBytes } from "../text.ts";
import { encodeKeyBlob } from "./public_key.ts";
import { SshWriter } from "./wire_format.ts";

/** The word for the format in PEM. */
export const OPENSSH_LABEL = "OPENSSH PRIVATE KEY";

const MAGIC = new TextEncoder().encode("openssh-key-v1\0");
/** The block size of the cipher `none`. */
const BLOCK_BYTES = 8;
const SEED_BYTES = 32;
/** The constant beginning of an Ed25519 key in PKCS #8 (RFC 8410), which the seed follows. */
const ED25519_PKCS8 = Uint8Array.fromHex("302e020100300506032b657004220420");
const PEM_LINE = /.{1,70}/g;

/**
 * Writes an Ed25519 private key as OpenSSH does, without passphrase.
 *
 * @param seed the 32 bytes of the private key (RFC 8032)
 * @param comment shown by OpenSSH tools; UTF-8
 * @returns PEM text with a line end
 */
export function encodeOpensshPrivateKey(seed: Uint8Array, comment: string): string {
  const publicKey = ed25519PublicKey(seed);
  const point = publicKey.subarray(-SEED_BYTES);
  // The two check numbers show whether a passphrase was right. Without one any equal pair will do.
  const section = new SshWriter().u32(0).u32(0).raw(publicKey)
    .u32(2 * SEED_BYTES).raw(seed).raw(point).text(comment).bytes();
  const padding = Array.from({ length: -section.length & (BLOCK_BYTES - 1) }, (_, index) => index + 1);
  const bytes = new SshWriter().raw(opensshHead(publicKey))
    .string(Uint8Array.of(...section, ...padding)).bytes();
  const lines = bytes.toBase64().match(PEM_LINE) ?? [];
  return [`-----BEGIN ${OPENSSH_LABEL}-----`, ...lines, `-----END ${OPENSSH_LABEL}-----`, ""].join("\n");
}

/** What a file of one key without passphrase begins with, up to and including its public key. */
export function opensshHead(publicKey: Uint8Array): Uint8Array {
  return new SshWriter().raw(MAGIC).text("none").text("none").text("").u32(1).string(publicKey).bytes();
}

/**
 * The public key blob of an Ed25519 key.
 *
 * @param seed the 32 bytes of the private key (RFC 8032)
 */
export function ed25519PublicKey(seed: Uint8Array): Uint8Array {
  const { x } = createPublicKey(importEd25519Seed(seed)).export({ format: "jwk" });
  return encodeKeyBlob({
    kind: "ed25519",
    point: Uint8Array.fromBase64(x ?? "", { alphabet: "base64url" }),
  });
}

/** The Ed25519 key of a seed of 32 bytes. */
export function importEd25519Seed(seed: Uint8Array): KeyObject {
  if (seed.length !== SEED_BYTES) throw new RangeError(`An Ed25519 seed has 32 bytes, not ${seed.length}`);
  const key = Buffer.from(concatBytes([ED25519_PKCS8, seed]).buffer);
  return createPrivateKey({ key, format: "der", type: "pkcs8" });
}
