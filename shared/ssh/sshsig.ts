/**
 * Signatures of messages as `ssh-keygen -Y sign` makes them and `ssh-keygen -Y verify` checks them (PROTOCOL.sshsig).
 * A signature holds for one namespace only: what is signed for one purpose says nothing for another.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { encodeOpensshPrivateKey } from "@gateway/shared/ssh/openssh_key";
 * import { parsePrivateKey } from "@gateway/shared/ssh/private_key";
 * import { armorSshsig, signSshsig } from "./sshsig.ts";
 *
 * const key = parsePrivateKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "example"));
 * const text = armorSshsig(signSshsig(key, "file", new TextEncoder().encode("hello")));
 * assert.ok(text.startsWith("-----BEGIN SSH SIGNATURE-----\n"));
 * ```
 *
 * @module
 */
import { createHash } from "node:crypto";
import { SshWriter } from "./wire_format.ts";

/** What signs: a private key, or something that asks one. */
export interface SshSigner {
  /** The public key blob (RFC 4253 section 6.6). */
  readonly publicKey: Uint8Array;
  /** Signs; gives the signature blob, which must not be of SHA-1. */
  sign(data: Uint8Array): Uint8Array;
}

const MAGIC = new TextEncoder().encode("SSHSIG");
const VERSION = 1;
const HASH = "sha512";
/** Room for a signature of Ed25519. */
const SIGNATURE_BYTES = 320;
const LABEL = "SSH SIGNATURE";
/** Where ssh-keygen breaks the lines of an armoured signature. */
const ARMOR_LINE = /.{1,70}/g;

/**
 * Signs a message for a namespace.
 *
 * @param namespace not empty; the verifier must name the same one
 * @returns the binary signature, which {@linkcode armorSshsig} makes a file of
 */
export function signSshsig(key: SshSigner, namespace: string, message: Uint8Array): Uint8Array<ArrayBuffer> {
  if (namespace === "") throw new RangeError("The namespace of a signature is empty");
  const hash = createHash(HASH).update(message).digest();
  const signed = new SshWriter().raw(MAGIC).text(namespace).text("").text(HASH).string(hash).bytes();
  return new SshWriter(SIGNATURE_BYTES).raw(MAGIC).u32(VERSION).string(key.publicKey)
    .text(namespace).text("").text(HASH).string(key.sign(signed)).bytes();
}

/** A binary signature as the text that `ssh-keygen -Y verify -s` reads, with a line end. */
export function armorSshsig(signature: Uint8Array): string {
  const lines = signature.toBase64().match(ARMOR_LINE) ?? [];
  return [`-----BEGIN ${LABEL}-----`, ...lines, `-----END ${LABEL}-----`, ""].join("\n");
}
