/**
 * From a decision to a certificate: what the policy allowed, signed by the CA key of the host's group.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { issueUserCertificate } from "@gateway/shared/ca";
 * import { parsePemCaKey } from "@gateway/shared/ca/pem";
 * import { systemClock } from "@gateway/shared/clock";
 * import { decideSsh } from "@gateway/shared/policy";
 * import { systemRandom } from "@gateway/shared/clock";
 * import { parseCertificate } from "@gateway/shared/ssh";
 * import { encodeOpensshPrivateKey } from "@gateway/shared/ssh";
 * import { compileSample, sampleConfig, sampleIntent } from "@gateway/shared/testing";
 *
 * const decision = decideSsh(compileSample(sampleConfig()), sampleIntent());
 * assert(decision.kind === "allowed");
 * const fallback = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
 * const { certificate, serial } = await issueUserCertificate(
 *   { decision, caller: "broker-1", endUser: "", publicKey: new Uint8Array(32) },
 *   { caKeys: { fallback, byGroup: new Map() }, clock: systemClock, random: systemRandom },
 * );
 * assert.equal(parseCertificate(certificate).serial, serial);
 * ```
 *
 * @module
 */
import { type Clock, type Random, randomSerial } from "../clock.ts";
import { AppError } from "../errors.ts";
import type { AllowedSsh } from "../policy/ssh.ts";
import { formatCertificate, issueCertificate } from "../ssh/certificate.ts";
import { formatKeyId, type KeyIdParts, userCertificate } from "../ssh/user_certificate.ts";
import type { CaKey } from "./custody.ts";
import { type CaKeyRing, selectCaKey } from "./model.ts";

/** What a certificate is made of. */
interface IssueRequest {
  readonly decision: AllowedSsh;
  /** The effective caller, for the KeyId. */
  readonly caller: string;
  /** The end user, for the KeyId; empty: none. */
  readonly endUser: string;
  /** The Ed25519 key that the certificate is for, 32 bytes. */
  readonly publicKey: Uint8Array;
}

/** What a certificate is made with. */
interface IssuePorts {
  /** The CA keys by host group. */
  readonly caKeys: CaKeyRing<CaKey>;
  /** For the time that the certificate begins at. */
  readonly clock: Clock;
  readonly random: Random;
}

/** A certificate, and the number that it is known by. */
export interface IssuedCertificate {
  /** One authorized_keys line without comment, with its newline. */
  readonly certificate: string;
  /** Unsigned, 64 bits. */
  readonly serial: bigint;
  readonly keyId: Required<KeyIdParts>;
  /** No longer valid at this second since the epoch. */
  readonly validBefore: number;
}

/**
 * Makes and signs the certificate of a decision. It is not in any log then: record it before it is released.
 *
 * @throws {AppError} `upstream_failure` when the CA key could not sign
 */
export async function issueUserCertificate(
  { decision, caller, endUser, publicKey }: IssueRequest,
  { caKeys, clock, random }: IssuePorts,
): Promise<IssuedCertificate> {
  const { host, role, pty } = decision;
  const serial = randomSerial(random);
  const nowMs = clock.now();
  const keyId: Required<KeyIdParts> = {
    caller,
    host: host.name,
    role,
    issuedAt: Math.floor(nowMs / 1000),
    endUser,
    elevationPrefix: decision.sudoPrefix,
    pty,
  };
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
