/**
 * What is used of sshpk 1.18.0, which has no types of its own; `broker/ssh/ssh2.d.ts` says why those published for
 * it are left out.
 *
 * @module
 */
import type { Buffer } from "node:buffer";

/** A private key taken apart. */
export interface PrivateKey {
  readonly type: "dsa" | "rsa" | "ecdsa" | "ed25519" | "curve25519";
  readonly size: number;
  /** Its numbers by name: `d` of ECDSA, `k` of Ed25519 (the seed of 32 bytes). */
  readonly part: Readonly<Record<string, { readonly data: Buffer } | undefined>>;
  toBuffer(format: "pkcs8"): Buffer;
  toPublic(): { toBuffer(format: "rfc4253"): Buffer };
}

declare const sshpk: {
  /** @throws {Error} when it is encrypted, a `KeyEncryptedError`; when it is malformed */
  parsePrivateKey(data: string, format: "pem"): PrivateKey;
  readonly KeyEncryptedError: ErrorConstructor;
};
export default sshpk;
