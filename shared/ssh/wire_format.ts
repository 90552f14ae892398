// The data types of the SSH protocol (RFC 4251 section 5), and OpenSSH's key revocation list (PROTOCOL.krl).
import { AppError } from "../errors.ts";

const MAX_U32 = 0xffff_ffff;
const MAX_U64 = 0xffff_ffff_ffff_ffffn;
const INITIAL_BYTES = 256;

const encoder = new TextEncoder();
// Without ignoreBOM, a leading U+FEFF would be dropped, and two different byte strings would be decoded as
// the same text.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Reads values one after the other. The results are views into the given bytes: pass a copy if these can change.
 * Every rejection is an {@linkcode AppError} with the code `invalid_request`.
 */
export class SshReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #offset = 0;

  /** Begins at the first byte. */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** The bytes after the current position. */
  get rest(): Uint8Array {
    return this.#bytes.subarray(this.#offset);
  }

  get done(): boolean {
    return this.#offset === this.#bytes.length;
  }

  get offset(): number {
    return this.#offset;
  }

  u32(): number {
    return this.#view.getUint32(this.#advance(4));
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.#advance(8));
  }

  /** Bytes without a length. */
  raw(length: number): Uint8Array {
    const start = this.#advance(length);
    return this.#bytes.subarray(start, start + length);
  }

  /** A `string`: 32 bits of length, then the bytes. */
  string(): Uint8Array {
    return this.raw(this.u32());
  }

  /** A `string` of UTF-8. */
  text(): string {
    const bytes = this.string();
    try {
      return decoder.decode(bytes);
    } catch (cause) {
      throw unreadable("a text is not UTF-8", cause);
    }
  }

  /** An `mpint` in its shortest form and not negative, as big-endian magnitude without leading zeros. */
  mpint(): Uint8Array {
    const bytes = this.string();
    const [first, second] = bytes;
    if (first === undefined) return bytes;
    if (first >= 0x80) throw unreadable("a number is negative");
    if (first !== 0) return bytes;
    if (second === undefined || second < 0x80) throw unreadable("a number has needless zeros");
    return bytes.subarray(1);
  }

  /** A reader for the contents of a `string`. */
  nested(): SshReader {
    return new SshReader(this.string());
  }

  /** Rejects further bytes. */
  end(): void {
    if (!this.done) throw unreadable(`${this.#bytes.length - this.#offset} bytes too many`);
  }

  #advance(length: number): number {
    const start = this.#offset;
    if (length > this.#bytes.length - start) throw unreadable("truncated");
    this.#offset += length;
    return start;
  }
}

function unreadable(fault: string, cause?: unknown): AppError {
  return new AppError("invalid_request", `Cannot read SSH data: ${fault}`, { cause });
}

/** Writes values one after the other; every method returns the writer. */
export class SshWriter {
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView<ArrayBuffer>;
  #length = 0;

  /** @param capacity the initial room in bytes */
  constructor(capacity: number = INITIAL_BYTES) {
    this.#bytes = new Uint8Array(capacity);
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** @throws {RangeError} if the value is not a whole number of 0 to 2^32-1 */
  u32(value: number): this {
    if (!Number.isInteger(value) || value < 0 || value > MAX_U32) {
      throw new RangeError(`Not an unsigned 32-bit number: ${value}`);
    }
    const at = this.#reserve(4);
    this.#view.setUint32(at, value);
    return this;
  }

  /** @throws {RangeError} if the value is not in 0 to 2^64-1 */
  u64(value: bigint): this {
    if (value < 0n || value > MAX_U64) throw new RangeError(`Not an unsigned 64-bit number: ${value}`);
    const at = this.#reserve(8);
    this.#view.setBigUint64(at, value);
    return this;
  }

  /** Bytes without a length. */
  raw(bytes: Uint8Array): this {
    const at = this.#reserve(bytes.length);
    this.#bytes.set(bytes, at);
    return this;
  }

  /** A `string`: 32 bits of length, then the bytes. */
  string(bytes: Uint8Array): this {
    return this.u32(bytes.length).raw(bytes);
  }

  /** A `string` of UTF-8. */
  text(value: string): this {
    // Reserve three bytes for each UTF-16 unit, which is the maximum, and return the unused rest.
    const start = this.#reserve(4 + value.length * 3);
    const written = writeAscii(value, this.#bytes, start + 4)
      ? value.length
      : encoder.encodeInto(value, this.#bytes.subarray(start + 4)).written;
    this.#view.setUint32(start, written);
    this.#length = start + 4 + written;
    return this;
  }

  /** A `string` that the function writes. */
  nested(write: (inside: SshWriter) => void): this {
    const start = this.#reserve(4);
    write(this);
    this.#view.setUint32(start, this.#length - start - 4);
    return this;
  }

  /** An `mpint` from a big-endian magnitude, without leading zeros. */
  mpint(magnitude: Uint8Array): this {
    const start = magnitude.findIndex((byte) => byte !== 0);
    if (start === -1) return this.u32(0);
    const digits = magnitude.subarray(start);
    // Add a zero byte if the top bit is set, because the number would otherwise be negative.
    if ((digits[0] ?? 0) < 0x80) return this.string(digits);
    return this.u32(digits.length + 1).raw(new Uint8Array(1)).raw(digits);
  }

  /** The bytes written so far. Later writes do not change the result. */
  bytes(): Uint8Array<ArrayBuffer> {
    // If the buffer is full, no copy is needed, because the next write allocates a larger buffer.
    return this.#length === this.#bytes.length ? this.#bytes : this.#bytes.slice(0, this.#length);
  }

  #reserve(length: number): number {
    const start = this.#length;
    this.#length += length;
    if (this.#length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(this.#length, this.#bytes.length * 2));
      larger.set(this.#bytes.subarray(0, start));
      this.#bytes = larger;
      this.#view = new DataView(larger.buffer);
    }
    return start;
  }
}

/** Writes a text of ASCII; false for other texts. For short texts it is faster than the encoder. */
function writeAscii(text: string, into: Uint8Array, start: number): boolean {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code > 0x7f) return false;
    into[start + index] = code;
  }
  return true;
}

/** A key revocation list. */
export interface Krl {
  /** The version, which increases with each list. */
  readonly version: bigint;
  /** In seconds since the epoch. */
  readonly generatedAt: number;
  readonly comment: string;
  readonly serials: SerialSet;
  /** The key IDs. Each revokes every certificate that has it. */
  readonly keyIds: Iterable<string>;
}

const MAGIC = 0x5353_484b_524c_0a00n;
const FORMAT_VERSION = 1;
const CERTIFICATES_SECTION = 1;
const SERIAL_LIST = 0x20;
const KEY_IDS = 0x23;

/**
 * Writes a list for certificates of every CA that a host trusts, because the CA of a host can change while certificates
 * of the old CA are still valid. Equal lists have equal bytes.
 */
export function encodeKrl({ version, generatedAt, comment, serials, keyIds }: Krl): Uint8Array<ArrayBuffer> {
  const names = [...new Set(keyIds)].sort();
  const writer = new SshWriter(INITIAL_BYTES + serials.bytes.length)
    .u64(MAGIC).u32(FORMAT_VERSION).u64(version).u64(BigInt(generatedAt)).u64(0n).text("").text(comment);
  if (serials.size === 0 && names.length === 0) return writer.bytes();
  return writer.raw(Uint8Array.of(CERTIFICATES_SECTION)).nested((section) => {
    // An empty CA key applies to every CA.
    section.text("").text("");
    if (serials.size > 0) section.raw(Uint8Array.of(SERIAL_LIST)).string(serials.bytes);
    if (names.length > 0) {
      section.raw(Uint8Array.of(KEY_IDS)).nested((ids) => names.forEach((name) => ids.text(name)));
    }
  }).bytes();
}

const SERIAL_BYTES = 8;
const INITIAL_SERIALS = 16;

/** A set of unsigned 64-bit serials, sorted in one buffer. */
export class SerialSet {
  #bytes = new Uint8Array(INITIAL_SERIALS * SERIAL_BYTES);
  #view = new DataView(this.#bytes.buffer);
  #until = new Float64Array(INITIAL_SERIALS);
  #size = 0;

  /** Creates a set of serials that never expire. */
  static of(serials: Iterable<bigint>): SerialSet {
    const set = new SerialSet();
    set.add(new Map([...serials].map((serial) => [serial, Infinity])));
    return set;
  }

  get size(): number {
    return this.#size;
  }

  /** All serials in order, 8 bytes each, big-endian. Valid until the set changes. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.#size * SERIAL_BYTES);
  }

  /** Whether the set contains a serial. */
  has(serial: bigint): boolean {
    const at = this.#find(serial, this.#size);
    return at < this.#size && this.#view.getBigUint64(at * SERIAL_BYTES) === serial;
  }

  /**
   * Adds new serials, each with the time until which it is kept, and returns their number. A call moves all
   * larger serials, even to add a single one, so add about a thousand at a time.
   *
   * @throws {RangeError} for a serial of 0: sshd treats the list as broken and rejects everybody
   */
  add(serials: ReadonlyMap<bigint, number>): number {
    if (serials.has(0n)) throw new RangeError("A revocation list cannot contain the serial 0");
    const added = BigUint64Array.from(serials.keys()).filter((serial) => !this.has(serial)).sort();
    this.#reserve(this.#size + added.length);
    let end = this.#size;
    this.#size += added.length;
    // Start with the largest serial, so that larger serials are moved to their place first.
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

  /** Removes the serials that are no longer kept, and returns their number. */
  forget(now: number): number {
    // Copy 32 bits at a time, which avoids bigints.
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

  /** The index of a serial, or of the next larger one, among the first `end` serials. */
  #find(serial: bigint, end: number): number {
    const high = Number(serial >> 32n);
    const low = Number(serial & 0xffff_ffffn);
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
