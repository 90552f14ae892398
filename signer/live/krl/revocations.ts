/**
 * What a revocation says, and for how long it has to be said.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { readSerial } from "./revocations.ts";
 *
 * assert.equal(readSerial("18446744073709551615"), 2n ** 64n - 1n);
 * assert.equal(readSerial("0"), undefined);
 * ```
 *
 * @module
 */
import { MAX_TTL_SECONDS } from "@gateway/shared/policy";

export const REVOCABLE_KINDS = ["caller", "end_user", "serial", "key_id", "request"] as const;

export interface CertificateSubject {
  readonly kind: (typeof REVOCABLE_KINDS)[number];
  /** A CN, a user name, a serial in decimal digits, a key id, a request as {@linkcode nameRequest} has it. */
  readonly value: string;
}

/**
 * A caller's request. Whoever names another's id names another request.
 *
 * @param id has no blank
 */
export function nameRequest(caller: string, id: string): string {
  return `${id} ${caller}`;
}

/**
 * A certificate that a caller names as its own, and that another instance may have issued: looked for like the answer to a
 * request. No request has such an id.
 */
export function nameSerial(caller: string, serial: bigint): string {
  return nameRequest(caller, `serial=${serial}`);
}

/** What a control plane with several signers puts behind the id that a broker gave a request. */
const FORWARDERS_END = /\.[0-9a-f]{12}$/;

/** The names that a request with this id can have been given up by. */
export function namesOfRequest(caller: string, id: string): readonly string[] {
  const brokers = id.replace(FORWARDERS_END, "");
  return brokers === id ? [nameRequest(caller, id)] : [nameRequest(caller, id), nameRequest(caller, brokers)];
}

/** A revocation as it is kept: of the certificates of a subject that were issued until then. */
export interface KeptRevocation extends CertificateSubject {
  /** Milliseconds since the epoch. */
  readonly revokedAt: number;
}

/**
 * A host whose clock is behind believes a certificate so much longer, in seconds. One that is further behind takes
 * none of the signer's certificates: they begin 30 seconds before they are issued.
 */
export const CLOCK_SKEW_SECONDS = 60;

/** After so many seconds no host believes any certificate that was issued before. */
export const REVOCATION_SECONDS: number = MAX_TTL_SECONDS + CLOCK_SKEW_SECONDS;

/** The serial of decimal digits; `undefined` where a certificate can't have it, or a list of revocations not hold it. */
export function readSerial(text: string): bigint | undefined {
  const serial = /^\d{1,20}$/.test(text) ? BigInt(text) : 0n;
  return serial > 0n && serial < 2n ** 64n ? serial : undefined;
}

export function requestsOf(revocations: readonly KeptRevocation[]): readonly string[] {
  return revocations.filter(({ kind }) => kind === "request").map(({ value }) => value);
}

/** The version of a list after another. It grows also where the clock was set back, and where the store is gone. */
export function nextVersion(last: number, nowMs: number): number {
  return Math.max(last + 1, Math.floor(nowMs));
}
