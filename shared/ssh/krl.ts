/**
 * OpenSSH's key revocation list (PROTOCOL.krl), as `RevokedKeys` of sshd_config(5) reads it: certificates that are no
 * longer believed, by serial and by key id.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { encodeKrl } from "./krl.ts";
 * import { SerialSet } from "./krl.ts";
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
import { SshWriter } from "./wire_format.ts";

/** What a list says. */
export interface Krl {
  /** Grows from list to list; unsigned, 64 bits. */
  readonly version: bigint;
  /** When the list was made, in seconds since the epoch. */
  readonly generatedAt: number;
  readonly comment: string;
  readonly serials: SerialSet;
  /** Key ids of certificates, in any order: each revokes every certificate that has it. */
  readonly keyIds: Iterable<string>;
}

const MAGIC = 0x5353_484b_524c_0a00n;
const FORMAT_VERSION = 1;
const CERTIFICATES_SECTION = 1;
const SERIAL_LIST = 0x20;
const KEY_IDS = 0x23;
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

const SERIAL_BYTES = 8;
const INITIAL_SERIALS = 16;
const LOW_HALF = 0xffff_ffffn;

/** A set of serials, unsigned, 64 bits. */
export class SerialSet {
  #bytes = new Uint8Array(INITIAL_SERIALS * SERIAL_BYTES);
  #view = new DataView(this.#bytes.buffer);
  #until = new Float64Array(INITIAL_SERIALS);
  #size = 0;

  /** With serials that are never forgotten. */
  static of(serials: Iterable<bigint>): SerialSet {
    const set = new SerialSet();
    set.add(new Map([...serials].map((serial) => [serial, Infinity])));
    return set;
  }

  get size(): number {
    return this.#size;
  }

  /** All of them, the smallest first, 8 bytes each, the most significant first. Good until the set changes. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.#size * SERIAL_BYTES);
  }

  /** Whether a serial is in it. */
  has(serial: bigint): boolean {
    const at = this.#find(serial, this.#size);
    return at < this.#size && this.#isAt(at, serial);
  }

  /**
   * Adds what is not in it yet, each until when it is to be kept; tells how many those are. All that is larger is moved
   * for a few as for many: give it a thousand at a time.
   *
   * @throws {RangeError} for a serial of 0, which sshd takes for a broken list and then refuses everybody
   */
  add(serials: ReadonlyMap<bigint, number>): number {
    if (serials.has(0n)) throw new RangeError("A revocation list can't hold the serial 0");
    const added = BigUint64Array.from(serials.keys()).filter((serial) => !this.has(serial)).sort();
    this.#reserve(this.#size + added.length);
    let end = this.#size;
    this.#size += added.length;
    // From the last on: what is larger is moved to its place first.
    for (let left = added.length; left > 0; left--) {
      const serial = added[left - 1] ?? 0n;
      const at = this.#find(serial, end);
      this.#bytes.copyWithin((at + left) * SERIAL_BYTES, at * SERIAL_BYTES, end * SERIAL_BYTES);
      this.#until.copyWithin(at + left, at, end);
      this.#view.setBigUint64((at + left - 1) * SERIAL_BYTES, serial);
      this.#until[at + left - 1] = serials.get(serial) ?? 0;
      end = at;
    }
    return added.length;
  }

  /** Takes out what was to be kept until then; tells how many those are. */
  forget(now: number): number {
    // Half a serial each.
    const words = new Uint32Array(this.#bytes.buffer);
    let kept = 0;
    for (let index = 0; index < this.#size; index++) {
      const until = this.#until[index] ?? 0;
      if (until <= now) continue;
      words[2 * kept] = words[2 * index] ?? 0;
      words[2 * kept + 1] = words[2 * index + 1] ?? 0;
      this.#until[kept++] = until;
    }
    const forgotten = this.#size - kept;
    this.#size = kept;
    return forgotten;
  }

  /** The place of a serial among the first ones: of itself, or of the next larger one. */
  #find(serial: bigint, end: number): number {
    const high = Number(serial >> 32n);
    const low = Number(serial & LOW_HALF);
    let [from, to] = [0, end];
    while (from < to) {
      const middle = (from + to) >>> 1;
      const at = middle * SERIAL_BYTES;
      const upper = this.#view.getUint32(at);
      if (upper < high || (upper === high && this.#view.getUint32(at + 4) < low)) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  #isAt(index: number, serial: bigint): boolean {
    return this.#view.getBigUint64(index * SERIAL_BYTES) === serial;
  }

  #reserve(size: number): void {
    if (size <= this.#until.length) return;
    const [bytes, until] = [this.bytes, this.#until];
    const room = Math.max(size, 2 * until.length);
    this.#bytes = new Uint8Array(room * SERIAL_BYTES);
    this.#bytes.set(bytes);
    this.#view = new DataView(this.#bytes.buffer);
    this.#until = new Float64Array(room);
    this.#until.set(until);
  }
}
