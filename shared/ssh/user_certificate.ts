/**
 * What goes into the certificate for one decided intent: short-lived, for one principal, with the command
 * locked in, and no permission that was not asked for.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { userCertificate } from "./user_certificate.ts";
 *
 * const fields = userCertificate({
 *   publicKey: new Uint8Array(32),
 *   nonce: new Uint8Array(32),
 *   serial: 7n,
 *   keyId: "agent=broker-1 host=web01 role=target t=1700000000",
 *   principal: "host:web01",
 *   sourceAddress: "",
 *   forceCommand: "uptime",
 *   bastion: false,
 *   pty: false,
 *   nowMs: 1_700_000_000_000,
 *   ttlSeconds: 120,
 * });
 * assert.equal(fields.validBefore - fields.validAfter, 150);
 * assert.deepEqual(fields.extensions, []);
 * ```
 *
 * @module
 */

import { AppError } from "../errors.ts";
import type { CertificateFields } from "./certificate.ts";
import { hasUnseen, isUnsafe } from "../text.ts";

/** A decided intent, in the words of a certificate. */
export interface UserCertificateInput {
  /** The submitted Ed25519 key, 32 bytes. */
  readonly publicKey: Uint8Array;
  /** 32 random bytes. */
  readonly nonce: Uint8Array;
  /** Random, unsigned, 64 bits. */
  readonly serial: bigint;
  readonly keyId: string;
  readonly principal: string;
  /** Addresses that may use the certificate, as in sshd's `from=`; `""` for any. */
  readonly sourceAddress: string;
  /** The one command that may run; `""` for none. A one-shot without one is for the caller to refuse. */
  readonly forceCommand: string;
  /** Whether the host is a stop on the way: allows port forwarding, and nothing else does. */
  readonly bastion: boolean;
  /** Whether a terminal was asked for and is allowed. */
  readonly pty: boolean;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
  /** The effective lifetime: a whole number of 1 to 900 seconds. */
  readonly ttlSeconds: number;
}

/** No certificate lives longer, whatever a config says. */
const MAX_TTL_SECONDS = 900;
/** How far a host's clock may be behind ours. */
const CLOCK_SKEW_SECONDS = 30;

/**
 * The fields of the certificate. There is never agent forwarding, X11 forwarding or the user's rc file.
 *
 * @throws {AppError} `denied`, `principal is required`, when the host has none
 * @throws {RangeError} when the lifetime is not 1 to 900 whole seconds
 */
export function userCertificate(input: UserCertificateInput): CertificateFields {
  const { publicKey, nonce, serial, keyId, principal, ttlSeconds } = input;
  if (principal === "") throw new AppError("denied", "principal is required");
  if (!Number.isInteger(ttlSeconds) || ttlSeconds < 1 || ttlSeconds > MAX_TTL_SECONDS) {
    throw new RangeError(`Lifetime of a certificate is not 1 to ${MAX_TTL_SECONDS} seconds: ${ttlSeconds}`);
  }
  const nowSeconds = Math.floor(input.nowMs / 1000);
  return {
    publicKey,
    nonce,
    serial,
    keyId,
    principals: [principal],
    validAfter: nowSeconds - CLOCK_SKEW_SECONDS,
    validBefore: nowSeconds + ttlSeconds,
    criticalOptions: {
      ...(input.forceCommand === "" ? {} : { "force-command": input.forceCommand }),
      ...(input.sourceAddress === "" ? {} : { "source-address": input.sourceAddress }),
    },
    extensions: [
      ...(input.bastion ? ["permit-port-forwarding"] : []),
      ...(input.pty ? ["permit-pty"] : []),
    ],
  };
}

/** What a KeyId tells. */
export interface KeyIdParts {
  /** The effective caller: whoever a forwarder acts for, not the forwarder. */
  readonly caller: string;
  readonly host: string;
  /** What the host is to the caller: `target` or `bastion`. */
  readonly role: string;
  /** Whole seconds since the epoch. */
  readonly issuedAt: number;
  /** The person behind the caller; `""` when nobody is known. */
  readonly endUser?: string;
  /** `sudo -n` or `sudo -n -u <user>`; `""` without elevation. The one value that has blanks. */
  readonly elevationPrefix?: string;
  readonly pty?: boolean;
}

/**
 * `agent=<caller> host=<host> role=<role> t=<seconds>`, then as they apply ` user=<end user>`,
 * ` elev=<prefix>`, ` pty=1`.
 *
 * @throws {TypeError} when a value is empty that must not be, or has a blank or a control character
 * @throws {RangeError} when the time is not a whole number of seconds
 */
export function formatKeyId(parts: KeyIdParts): string {
  const { caller, host, role, issuedAt, endUser = "", elevationPrefix = "", pty = false } = parts;
  if (!Number.isSafeInteger(issuedAt) || issuedAt < 0) throw new RangeError(`Not whole seconds: ${issuedAt}`);
  checkPresent("caller", caller);
  checkPresent("host", host);
  checkPresent("role", role);
  checkSafe("endUser", endUser);
  if (hasUnseen(elevationPrefix)) {
    throw new TypeError("KeyId value for elevationPrefix has a control character");
  }
  const user = endUser === "" ? "" : ` user=${endUser}`;
  const elevation = elevationPrefix === "" ? "" : ` elev=${elevationPrefix}`;
  return `agent=${caller} host=${host} role=${role} t=${issuedAt}${user}${elevation}${pty ? " pty=1" : ""}`;
}

function checkPresent(name: string, value: string): void {
  if (value === "") throw new TypeError(`KeyId needs a value for ${name}`);
  checkSafe(name, value);
}

function checkSafe(name: string, value: string): void {
  if (isUnsafe(value)) throw new TypeError(`KeyId value for ${name} has a blank or control character`);
}
