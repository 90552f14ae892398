import { encodeOpensshPrivateKey, formatPublicKey } from "@gateway/shared/ssh";
import { parsePrivateKey } from "@gateway/shared/ca/pem";

/** A host key: the private key in the format of OpenSSH, the public key as a line. */
export interface HostKey {
  readonly pem: string;
  readonly line: string;
}

export function createHostKey(): HostKey {
  const pem = encodeOpensshPrivateKey(crypto.getRandomValues(new Uint8Array(32)), "ssh-target");
  const { algorithm, publicKey } = parsePrivateKey(pem);
  return { pem, line: formatPublicKey(algorithm, publicKey) };
}
