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
import { hash } from "node:crypto";
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
const HASH_BYTES = 64;
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
  const signed = sshsigSignedBytes(namespace);
  fillSshsigHash(signed, message);
  return new SshWriter(SIGNATURE_BYTES).raw(MAGIC).u32(VERSION).string(key.publicKey)
    .text(namespace).text("").text(HASH).string(key.sign(signed)).bytes();
}

/**
 * What a signature for a namespace is over, without the hash of a message at its end: {@linkcode fillSshsigHash} puts it
 * there. For who signs many messages, and need not write the same bytes each time.
 */
export function sshsigSignedBytes(namespace: string): Uint8Array<ArrayBuffer> {
  if (namespace === "") throw new RangeError("The namespace of a signature is empty");
  return new SshWriter().raw(MAGIC).text(namespace).text("").text(HASH).string(new Uint8Array(HASH_BYTES))
    .bytes();
}

/** Puts the hash of a message where {@linkcode sshsigSignedBytes} has left room for it. */
export function fillSshsigHash(signed: Uint8Array, message: Uint8Array): void {
  signed.set(hash(HASH, message, "buffer"), signed.length - HASH_BYTES);
}

/** A binary signature as the text that `ssh-keygen -Y verify -s` reads, with a line end. */
export function armorSshsig(signature: Uint8Array): string {
  const lines = signature.toBase64().match(ARMOR_LINE) ?? [];
  return [`-----BEGIN ${LABEL}-----`, ...lines, `-----END ${LABEL}-----`, ""].join("\n");
}
