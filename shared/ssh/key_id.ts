/**
 * The KeyId of a certificate: what sshd writes to its log, so that a login on a host can be traced back to the
 * caller, the intent and the person behind it.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { formatKeyId } from "./key_id.ts";
 *
 * const keyId = formatKeyId({ caller: "broker-1", host: "web01", role: "target", issuedAt: 1_700_000_000 });
 * assert.equal(keyId, "agent=broker-1 host=web01 role=target t=1700000000");
 * ```
 *
 * @module
 */
import { hasUnseen, isUnsafe } from "../characters.ts";

/** What a KeyId tells. */
export interface KeyIdParts {
  /** The effective caller: whoever a forwarder acts for, not the forwarder. */
  readonly caller: string;
  /** Logical name of the host. */
  readonly host: string;
  /** What the host is to the caller: `target` or `bastion`. */
  readonly role: string;
  /** Whole seconds since the epoch. */
  readonly issuedAt: number;
  /** The person behind the caller; `""` when nobody is known. */
  readonly endUser?: string;
  /** `sudo -n` or `sudo -n -u <user>`; `""` without elevation. The one value that has blanks. */
  readonly elevationPrefix?: string;
  /** Whether a terminal was granted. */
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
