// The used parts of sshpk 1.18.0, which has no types. For the reason why the published types are not used,
// see `broker/ssh/ssh2.d.ts`.
import type { Buffer } from "node:buffer";

/** A decoded private key. */
export interface PrivateKey {
  readonly type: "dsa" | "rsa" | "ecdsa" | "ed25519" | "curve25519";
  readonly size: number;
  /** Its numbers by name: `d` of ECDSA, `k` of Ed25519 (the seed of 32 bytes). */
  readonly part: Readonly<Record<string, { readonly data: Buffer } | undefined>>;
  toBuffer(format: "pkcs8"): Buffer;
  toPublic(): { toBuffer(format: "rfc4253"): Buffer };
}

declare const sshpk: {
  /** @throws {Error} if it is malformed; a `KeyEncryptedError` if it is encrypted */
  parsePrivateKey(data: string, format: "pem"): PrivateKey;
  readonly KeyEncryptedError: ErrorConstructor;
};
export default sshpk;
