/**
 * The certificate authority's key, wherever it is kept.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import type { CaKey } from "@gateway/shared/ca";
 *
 * const describe = (key: CaKey) => `${key.backend} ${key.algorithm}`;
 * assert.equal(typeof describe, "function");
 * ```
 *
 * @module
 */
import type { CertificateSigner } from "../ssh/certificate.ts";

/** A CA key that signs certificates. The private half never leaves the object. */
export interface CaKey extends CertificateSigner {
  /** Where the key is kept: `pem` is a file and for labs. */
  readonly backend: "pem" | "agent" | "akv";
  /** The key type on the SSH wire, e.g. `ssh-ed25519`. */
  readonly algorithm: string;
}
