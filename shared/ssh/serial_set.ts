/**
 * Serials of certificates, sorted, each with the time until which it is kept: in the bytes in which a revocation list
 * has them, so that a list of a hundred thousand is copied and not made anew.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { SerialSet } from "@gateway/shared/ssh/serial_set";
 *
 * const set = new SerialSet();
 * assert.equal(set.add(new Map([[7n, 100], [3n, 100]])), 2);
 * assert.deepEqual([...set.bytes], [0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 7]);
 * assert.equal(set.forget(100), 2);
 * ```
 *
 * @module
 */

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

  /** How many there are. */
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
