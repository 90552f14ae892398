/**
 * OpenSSH's key revocation list (PROTOCOL.krl), as `RevokedKeys` of sshd_config(5) reads it: certificates that are no
 * longer believed, by serial and by key id.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { encodeKrl } from "./krl.ts";
 *
 * const list = encodeKrl({
 *   version: 7n,
 *   generatedAt: 1_700_000_000,
 *   comment: "gateway",
 *   serials: [18_446_744_073_709_551_615n],
 *   keyIds: [],
 * });
 * assert.equal(new TextDecoder().decode(list.subarray(0, 8)), "SSHKRL\n\0");
 * ```
 *
 * @module
 */
import { SshWriter } from "./wire_format.ts";

/** What a list says. */
export interface Krl {
  /** Grows from list to list; unsigned, 64 bits. */
  readonly version: bigint;
  /** When the list was made, in seconds since the epoch. */
  readonly generatedAt: number;
  /** For people. */
  readonly comment: string;
  /** Serials of certificates, in any order, unsigned, 64 bits; 0 can't be revoked. */
  readonly serials: Iterable<bigint>;
  /** Key ids of certificates, in any order: each revokes every certificate that has it. */
  readonly keyIds: Iterable<string>;
}

const MAGIC = 0x5353_484b_524c_0a00n;
const FORMAT_VERSION = 1;
const CERTIFICATES_SECTION = 1;
const SERIAL_LIST = 0x20;
const KEY_IDS = 0x23;
const SERIAL_BYTES = 8;

/**
 * Writes a list. It counts for certificates of every CA that a host believes, for the CA of a host can change while a
 * certificate of the old one is still valid.
 *
 * @throws {RangeError} for a serial of 0, which sshd takes for a broken list and then refuses everybody
 */
export function encodeKrl({ version, generatedAt, comment, serials, keyIds }: Krl): Uint8Array<ArrayBuffer> {
  const sorted = sortSerials(serials);
  const names = [...new Set(keyIds)].sort();
  const writer = new SshWriter(INITIAL_BYTES + SERIAL_BYTES * sorted.length)
    .u64(MAGIC).u32(FORMAT_VERSION).u64(version).u64(BigInt(generatedAt)).u64(0n).text("").text(comment);
  if (sorted.length === 0 && names.length === 0) return writer.bytes();
  return writer.raw(Uint8Array.of(CERTIFICATES_SECTION)).nested((section) => {
    // An empty key of the CA: any.
    section.text("").text("");
    if (sorted.length > 0) section.raw(Uint8Array.of(SERIAL_LIST)).string(bigEndian(sorted));
    if (names.length > 0) {
      section.raw(Uint8Array.of(KEY_IDS)).nested((ids) => names.forEach((name) => ids.text(name)));
    }
  }).bytes();
}

const INITIAL_BYTES = 256;

/** Each once, the smallest first: equal lists have equal bytes. */
function sortSerials(serials: Iterable<bigint>): BigUint64Array<ArrayBuffer> {
  const sorted = new BigUint64Array([...serials]).sort();
  if (sorted[0] === 0n) throw new RangeError("A revocation list can't hold the serial 0");
  const words = wordsOf(sorted);
  let length = 0;
  for (let index = 0; index < words.length; index += 2) {
    const [low, high] = [words[index] ?? 0, words[index + 1] ?? 0];
    if (length > 0 && words[length - 2] === low && words[length - 1] === high) continue;
    words[length++] = low;
    words[length++] = high;
  }
  return sorted.subarray(0, length / 2);
}

function bigEndian(serials: BigUint64Array<ArrayBuffer>): Uint8Array {
  const bytes = new Uint8Array(SERIAL_BYTES * serials.length);
  const view = new DataView(bytes.buffer);
  const words = wordsOf(serials);
  for (let index = 0; index < words.length; index++) view.setUint32(4 * (index ^ 1), words[index] ?? 0);
  return bytes;
}

/** Low and high half of each, as every machine that this runs on has them: a hundred thousand bigints take long. */
function wordsOf({ buffer, byteOffset, length }: BigUint64Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  return new Uint32Array(buffer, byteOffset, 2 * length);
}
