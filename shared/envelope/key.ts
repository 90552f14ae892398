/**
 * The key that signs envelopes, and the texts by which hosts know it.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { createEnvelopeKey, envelopePublicKeyText } from "./key.ts";
 *
 * const key = createEnvelopeKey(new Uint8Array(32).fill(1));
 * assert.equal(envelopePublicKeyText(key), "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=");
 * ```
 *
 * @module
 */
import { sign } from "node:crypto";
import { AppError } from "../errors.ts";
import { decodeKeyBlob } from "../ssh/key_blob.ts";
import { ed25519PublicKey, importEd25519Seed } from "../ssh/openssh_key.ts";
import { formatPublicKey } from "../ssh/public_key.ts";
import { signData } from "../ssh/signature.ts";
import { fillSshsigHash, signSshsig, type SshSigner, sshsigSignedBytes } from "../ssh/sshsig.ts";

export type { SshSigner } from "../ssh/sshsig.ts";

/** Signs envelopes; the seed does not leave it. */
export interface EnvelopeKey {
  /** The Ed25519 public key, 32 bytes. */
  readonly publicKey: Uint8Array;
  /** The same key for signatures in OpenSSH's form. */
  readonly ssh: SshSigner;
  /** 64 bytes. */
  sign(data: Uint8Array): Uint8Array;
  /** The SSHSIG of a message of v2 or v3. */
  signMessage(message: Uint8Array, version: keyof typeof ENVELOPE_NAMESPACES): Uint8Array;
}

/** The namespaces of the signatures of v2 and v3. */
export const ENVELOPE_NAMESPACES = { v2: "gateway-sealed-exec-v2", v3: "gateway-sealed-exec-v3" } as const;

/** The length of a seed file. */
export const ENVELOPE_SEED_BYTES = 32;

const PUBLIC_KEY_BYTES = 32;
/** At the end of an SSHSIG of this key. */
const SIGNATURE_BYTES = 64;

/** The principal that the allowed signers file of v2 and v3 names. */
export const ENVELOPE_PRINCIPAL = "signer";

/**
 * The key of a seed.
 *
 * @param seed the content of the file: 32 bytes, no more and no less
 * @throws {AppError} `invalid_config` for any other length
 */
export function createEnvelopeKey(seed: Uint8Array): EnvelopeKey {
  if (seed.length !== ENVELOPE_SEED_BYTES) {
    throw new AppError(
      "invalid_config",
      `Envelope key has ${seed.length} bytes: an Ed25519 seed of exactly ${ENVELOPE_SEED_BYTES} is needed`,
    );
  }
  const key = importEd25519Seed(seed);
  const publicKey = ed25519PublicKey(seed);
  const parts = decodeKeyBlob(publicKey);
  const ssh: SshSigner = { publicKey, sign: (data) => signData(key, parts, data) };
  // Made once: a preflight has little else to do, and each buffer is work for the garbage collector.
  const prepare = (namespace: string) => ({
    signed: sshsigSignedBytes(namespace),
    sample: signSshsig(ssh, namespace, new Uint8Array()),
  });
  const prepared = { v2: prepare(ENVELOPE_NAMESPACES.v2), v3: prepare(ENVELOPE_NAMESPACES.v3) };
  return {
    publicKey: publicKey.subarray(-PUBLIC_KEY_BYTES),
    ssh,
    sign: (data) => sign(null, data, key),
    signMessage(message, version) {
      const { signed, sample } = prepared[version];
      fillSshsigHash(signed, message);
      const whole = sample.slice();
      whole.set(sign(null, signed, key), whole.length - SIGNATURE_BYTES);
      return whole;
    },
  };
}

/** The line of v1's key file `/etc/gateway/envelope.pub`: standard base64 of 32 bytes, without line end. */
export function envelopePublicKeyText({ publicKey }: EnvelopeKey): string {
  return publicKey.toBase64();
}

/** The line of the key file of v2 and v3, `/etc/gateway/envelope_signers`, without line end. */
export function envelopeSignersLine(key: EnvelopeKey): string {
  return allowedSignersLine(key, Object.values(ENVELOPE_NAMESPACES));
}

/**
 * A line of OpenSSH's allowed signers format (ssh-keygen(1)), without line end.
 *
 * @param namespaces what the key may sign there
 */
export function allowedSignersLine({ ssh }: EnvelopeKey, namespaces: readonly string[]): string {
  const options = `namespaces="${namespaces.join(",")}"`;
  return `${ENVELOPE_PRINCIPAL} ${options} ${formatPublicKey("ssh-ed25519", ssh.publicKey)}`;
}
