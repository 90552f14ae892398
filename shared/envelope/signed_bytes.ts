/**
 * What the signature of an envelope of format v1 is over, for who makes it and who checks it. The shim, which is started
 * for every command, loads this and no other part of envelopes.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { signedBytesV1 } from "@gateway/shared/envelope/signed_bytes";
 *
 * const bytes = signedBytesV1({ nonce: "00", host: "web01", command: "uptime", expiry: "1700000030" }, "example-v1");
 * assert.equal(bytes.length, "example-v1".length + 1 + 4 * 8 + "00web01uptime1700000030".length);
 * ```
 *
 * @module
 */
import { SshWriter } from "../ssh/wire_format.ts";

/** The domain of v1, unless a host's shim has another. */
export const ENVELOPE_DOMAIN = "gateway-sealed-exec-v1";

/** The longest time that an envelope can be good for; a shim refuses more. */
export const MAX_ENVELOPE_TTL_SECONDS = 300;

/** The fields that are signed, in this order; the expiry in decimal digits. */
export interface SignedFieldsV1 {
  /** Hex digits. */
  readonly nonce: string;
  /** The logical name of the host. */
  readonly host: string;
  /** As the host's shell gets it. */
  readonly command: string;
  /** In seconds since the epoch, as written. */
  readonly expiry: string;
}

const encoder = new TextEncoder();

/** The domain, a NUL, and each field as UTF-8 behind its length in 8 bytes, big-endian. */
export function signedBytesV1(
  { nonce, host, command, expiry }: SignedFieldsV1,
  domain: string,
): Uint8Array<ArrayBuffer> {
  const writer = new SshWriter().raw(encoder.encode(`${domain}\0`));
  for (const field of [nonce, host, command, expiry]) {
    const bytes = encoder.encode(field);
    writer.u64(BigInt(bytes.length)).raw(bytes);
  }
  return writer.bytes();
}
