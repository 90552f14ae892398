/**
 * From a decision to a certificate that the CA key of the host's group signs.
 *
 * @module
 */
import { type Clock, type Random, randomSerial } from "../clock.ts";
import { AppError } from "../errors.ts";
import type { AllowedSsh } from "../policy/ssh.ts";
import {
  type CertificateSigner,
  formatCertificate,
  formatKeyId,
  issueCertificate,
  type KeyIdParts,
  userCertificate,
} from "../ssh/certificate.ts";

/** A CA key that signs certificates. The private half never leaves the object. */
export interface CaKey extends CertificateSigner {
  /** `pem` is a file, for labs. */
  readonly backend: "pem" | "agent" | "akv";
  /** The key type on the SSH wire, e.g. `ssh-ed25519`. */
  readonly algorithm: string;
}

/** CA keys, or their configs, by host group. */
export interface CaKeyRing<K> {
  readonly byGroup: ReadonlyMap<string, K>;
  /** For hosts without such a group. */
  readonly fallback: K;
}

/** The key for a host: that of the first of its groups that has one. */
export function selectCaKey<K>(ring: CaKeyRing<K>, groups: readonly string[]): K {
  for (const group of groups) {
    const key = ring.byGroup.get(group);
    if (key !== undefined) return key;
  }
  return ring.fallback;
}

/** A certificate with its facts. */
export interface IssuedCertificate {
  /** One authorized_keys line without comment, with its newline. */
  readonly certificate: string;
  readonly serial: bigint;
  readonly keyId: Required<KeyIdParts>;
  /** The first second since the epoch that is no longer valid. */
  readonly validBefore: number;
}

/**
 * Creates and signs the certificate of a decision. Record it before it is released.
 *
 * @throws {AppError} `upstream_failure` if the CA key could not sign
 */
export async function issueUserCertificate(
  { decision, caller, endUser, publicKey }: {
    readonly decision: AllowedSsh;
    /** The effective caller. */
    readonly caller: string;
    /** Empty: none. */
    readonly endUser: string;
    /** The Ed25519 key to certify, 32 bytes. */
    readonly publicKey: Uint8Array;
  },
  { caKeys, clock, random }: {
    readonly caKeys: CaKeyRing<CaKey>;
    readonly clock: Clock;
    readonly random: Random;
  },
): Promise<IssuedCertificate> {
  const { host, role, pty, sudoPrefix: elevationPrefix } = decision;
  const serial = randomSerial(random);
  const nowMs = clock.now();
  const issuedAt = Math.floor(nowMs / 1000);
  const keyId = { caller, host: host.name, role, issuedAt, endUser, elevationPrefix, pty };
  const fields = userCertificate({
    publicKey,
    nonce: random.bytes(32),
    serial,
    keyId: formatKeyId(keyId),
    principal: host.principal,
    sourceAddress: host.sourceAddress,
    forceCommand: decision.forceCommand,
    bastion: role === "bastion",
    pty,
    nowMs,
    ttlSeconds: decision.ttlSeconds,
  });
  try {
    const signed = await issueCertificate(fields, selectCaKey(caKeys, host.groups));
    return { certificate: formatCertificate(signed), serial, keyId, validBefore: fields.validBefore };
  } catch (cause) {
    throw new AppError("upstream_failure", "the CA key could not sign", { cause });
  }
}
