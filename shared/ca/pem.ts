/**
 * A certificate authority whose key is a PEM file. For labs and tests: whoever reads the file, or the memory of
 * the process, has the key. Production keeps it in an agent or a key vault.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { parsePemCaKey } from "@gateway/shared/ca/pem";
 * import { encodeOpensshPrivateKey } from "@gateway/shared/ssh/openssh_key";
 *
 * const key = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
 * assert.equal(key.backend, "pem");
 * ```
 *
 * @module
 */

import { parsePrivateKey } from "../ssh/private_key.ts";
import type { CaKey } from "./custody.ts";

/**
 * A CA key from the text of a private key file: Ed25519, ECDSA or RSA, in OpenSSH's format, PKCS #8, PKCS #1 or
 * SEC 1, without passphrase. RSA keys sign as `rsa-sha2-256`.
 *
 * @throws {AppError} `invalid_config` with what is wrong and no byte of the key
 */
export function parsePemCaKey(pemText: string): CaKey {
  const key = parsePrivateKey(pemText);
  return {
    backend: "pem",
    algorithm: key.algorithm,
    publicKey: key.publicKey,
    async sign(data, signal) {
      signal?.throwIfAborted();
      // Ed25519 takes less time than to hand it to another thread; RSA would hold up every request for milliseconds.
      return key.algorithm === "ssh-ed25519" ? key.sign(data) : await key.signAside(data);
    },
  };
}
