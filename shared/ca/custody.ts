/**
 * The certificate authority's key, wherever it is kept.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import type { CaKey } from "@gateway/shared/ca/custody";
 *
 * const describe = (key: CaKey) => `${key.backend} ${key.algorithm}`;
 * assert.equal(typeof describe, "function");
 * ```
 *
 * @module
 */

/** A CA key that signs certificates. The private half never leaves the object. */
export interface CaKey {
  /** Where the key is kept: `pem` is a file and for labs. */
  readonly backend: "pem" | "agent" | "akv";
  /** The key type on the SSH wire, e.g. `ssh-ed25519`. */
  readonly algorithm: string;
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
