/**
 * OpenSSH's key revocation list (PROTOCOL.krl), as `RevokedKeys` of sshd_config(5) reads it: certificates that are no
 * longer believed, by serial and by key id.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { encodeKrl } from "./krl.ts";
 * import { SerialSet } from "./serial_set.ts";
 *
 * const list = encodeKrl({
 *   version: 7n,
 *   generatedAt: 1_700_000_000,
 *   comment: "gateway",
 *   serials: SerialSet.of([18_446_744_073_709_551_615n]),
 *   keyIds: [],
 * });
 * assert.equal(new TextDecoder().decode(list.subarray(0, 8)), "SSHKRL\n\0");
 * ```
 *
 * @module
 */
import type { SerialSet } from "./serial_set.ts";
import { SshWriter } from "./wire_format.ts";

/** What a list says. */
export interface Krl {
  /** Grows from list to list; unsigned, 64 bits. */
  readonly version: bigint;
  /** When the list was made, in seconds since the epoch. */
  readonly generatedAt: number;
  /** For people. */
  readonly comment: string;
  /** Serials of certificates. */
  readonly serials: SerialSet;
  /** Key ids of certificates, in any order: each revokes every certificate that has it. */
  readonly keyIds: Iterable<string>;
}

const MAGIC = 0x5353_484b_524c_0a00n;
const FORMAT_VERSION = 1;
const CERTIFICATES_SECTION = 1;
const SERIAL_LIST = 0x20;
const KEY_IDS = 0x23;
/** Beside the serials. */
const INITIAL_BYTES = 256;

/**
 * Writes a list. It counts for certificates of every CA that a host believes, for the CA of a host can change while a
 * certificate of the old one is still valid. Equal lists have equal bytes.
 */
export function encodeKrl({ version, generatedAt, comment, serials, keyIds }: Krl): Uint8Array<ArrayBuffer> {
  const names = [...new Set(keyIds)].sort();
  const writer = new SshWriter(INITIAL_BYTES + serials.bytes.length)
    .u64(MAGIC).u32(FORMAT_VERSION).u64(version).u64(BigInt(generatedAt)).u64(0n).text("").text(comment);
  if (serials.size === 0 && names.length === 0) return writer.bytes();
  return writer.raw(Uint8Array.of(CERTIFICATES_SECTION)).nested((section) => {
    // An empty key of the CA: any.
    section.text("").text("");
    if (serials.size > 0) section.raw(Uint8Array.of(SERIAL_LIST)).string(serials.bytes);
    if (names.length > 0) {
      section.raw(Uint8Array.of(KEY_IDS)).nested((ids) => names.forEach((name) => ids.text(name)));
    }
  }).bytes();
}
