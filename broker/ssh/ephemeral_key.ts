import { generateKeyPairSync, sign } from "node:crypto";
import { formatPublicKey, SshWriter } from "@gateway/shared/ssh";

const ALGORITHM = "ssh-ed25519";
const ED25519_KEY_LENGTH = 32;

/** A key pair for one connection. */
export interface EphemeralKey {
  /** The public key as a line of authorized_keys, without comment. */
  readonly publicKeyLine: string;
  /** The Ed25519 signature of the data: 64 bytes. */
  sign(data: Uint8Array): Uint8Array;
}

/** Makes an Ed25519 key whose private half exists only inside the returned object's `sign`. */
export function createEphemeralKey(): EphemeralKey {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  // The SubjectPublicKeyInfo of an Ed25519 key (RFC 8410) ends with the key itself.
  const point = publicKey.export({ format: "der", type: "spki" }).subarray(-ED25519_KEY_LENGTH);
  return {
    publicKeyLine: formatPublicKey(ALGORITHM, new SshWriter().text(ALGORITHM).string(point).bytes()),
    sign: (data) => sign(null, data, privateKey),
  };
}
