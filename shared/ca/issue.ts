// From a decision to a certificate that the CA key of the host's group signs.
import { type Clock, type Random, randomSerial } from "../clock.ts";
import { AppError } from "../errors.ts";
import type { AllowedSsh } from "../policy/ssh.ts";
import {
  type CertificateSigner,
  formatCertificate,
  formatKeyId,
  issueCertificate,
  type KeyIdParts,
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

/** The limit of all configs. */
const MAX_TTL_SECONDS = 900;
/** The tolerance for a host whose clock is slow. */
const CLOCK_SKEW_SECONDS = 30;

/**
 * Creates and signs the certificate of a decision: short-lived, for one principal, locked to a command, with only the
 * requested permissions. None allows agent forwarding, X11 forwarding or the user's rc file. Record it before it is
 * released.
 *
 * @throws {AppError} `denied`, `principal is required`, if the host has none; `upstream_failure` if the CA key could not
 *   sign
 * @throws {RangeError} if the lifetime is not 1 to 900 whole seconds
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
  const { host, role, pty, forceCommand, ttlSeconds, sudoPrefix: elevationPrefix } = decision;
  const { principal, source_address = "", groups } = host;
  if (principal === "") throw new AppError("denied", "principal is required");
  if (!Number.isInteger(ttlSeconds) || ttlSeconds < 1 || ttlSeconds > MAX_TTL_SECONDS) {
    throw new RangeError(`Lifetime of a certificate is not 1 to ${MAX_TTL_SECONDS} seconds: ${ttlSeconds}`);
  }
  const serial = randomSerial(random);
  const issuedAt = Math.floor(clock.now() / 1000);
  const keyId = { caller, host: host.name, role, issuedAt, endUser, elevationPrefix, pty };
  const validBefore = issuedAt + ttlSeconds;
  const fields = {
    publicKey,
    nonce: random.bytes(32),
    serial,
    keyId: formatKeyId(keyId),
    principals: [principal],
    validAfter: issuedAt - CLOCK_SKEW_SECONDS,
    validBefore,
    criticalOptions: {
      ...(forceCommand !== "" && { "force-command": forceCommand }),
      ...(source_address !== "" && { "source-address": source_address }),
    },
    extensions: [
      ...(role === "bastion" ? ["permit-port-forwarding"] : []),
      ...(pty ? ["permit-pty"] : []),
    ],
  };
  try {
    const signed = await issueCertificate(fields, selectCaKey(caKeys, groups));
    return { certificate: formatCertificate(signed), serial, keyId, validBefore };
  } catch (cause) {
    throw new AppError("upstream_failure", "the CA key could not sign", { cause });
  }
}
