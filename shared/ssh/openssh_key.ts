// Private keys in OpenSSH's own format, `openssh-key-v1` (PROTOCOL.key), without encryption. `sshpk` is not
// used: its check numbers are random, so that `init` would create different files from the same seeds.
import { Buffer } from "node:buffer";
import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { concatBytes } from "../text.ts";
import { encodeKeyBlob, formatPem } from "./keys.ts";
import { SshWriter } from "./wire_format.ts";

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
  // The two check numbers verify a passphrase. Without one any equal numbers are valid.
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
  const { x } = createPublicKey(importEd25519Seed(seed)).export({ format: "jwk" });
  return encodeKeyBlob({
    kind: "ed25519",
    point: Uint8Array.fromBase64(x ?? "", { alphabet: "base64url" }),
  });
}

/** The Ed25519 key of a seed of 32 bytes. */
export function importEd25519Seed(seed: Uint8Array): KeyObject {
  if (seed.length !== ED25519_BYTES) throw new RangeError(`An Ed25519 seed has 32 bytes, not ${seed.length}`);
  const key = Buffer.from(concatBytes([ED25519_PKCS8, seed]).buffer);
  return createPrivateKey({ key, format: "der", type: "pkcs8" });
}
