/**
 * The data types of the SSH protocol (RFC 4251 section 5): big-endian integers and length-prefixed strings.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { SshReader, SshWriter } from "@gateway/shared/ssh";
 *
 * const bytes = new SshWriter().text("ssh-ed25519").u64(7n).bytes();
 * const reader = new SshReader(bytes);
 * assert.equal(reader.text(), "ssh-ed25519");
 * assert.equal(reader.u64(), 7n);
 * reader.end();
 * ```
 *
 * @module
 */

import { AppError } from "../errors.ts";

const MAX_U32 = 0xffff_ffff;
const MAX_U64 = 0xffff_ffff_ffff_ffffn;

const encoder = new TextEncoder();
// Without ignoreBOM a leading U+FEFF would vanish, and two different byte strings would read as one text.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Reads values one after the other. What it gives out are views into the bytes it was made of: give it a copy
 * when those can change. Everything it refuses is an {@linkcode AppError} with the code `invalid_request`.
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

  /** The bytes that have not been read yet; does not move on. */
  get rest(): Uint8Array {
    return this.#bytes.subarray(this.#offset);
  }

  get done(): boolean {
    return this.#offset === this.#bytes.length;
  }

  /** How many bytes have been read. */
  get offset(): number {
    return this.#offset;
  }

  /**
   * An unsigned integer of 32 bits.
   *
   * @throws {AppError} `invalid_request` when the data is truncated
   */
  u32(): number {
    return this.#view.getUint32(this.#advance(4));
  }

  /**
   * An unsigned integer of 64 bits.
   *
   * @throws {AppError} `invalid_request` when the data is truncated
   */
  u64(): bigint {
    return this.#view.getBigUint64(this.#advance(8));
  }

  /**
   * So many bytes without a length before them.
   *
   * @throws {AppError} `invalid_request` when the data is truncated
   */
  raw(length: number): Uint8Array {
    const start = this.#advance(length);
    return this.#bytes.subarray(start, start + length);
  }

  /**
   * A `string`: 32 bits of length, then so many bytes.
   *
   * @throws {AppError} `invalid_request` when the data is truncated or the length goes beyond it
   */
  string(): Uint8Array {
    return this.raw(this.u32());
  }

  /**
   * A `string` that holds UTF-8.
   *
   * @throws {AppError} `invalid_request` when the data is truncated or is not UTF-8
   */
  text(): string {
    const bytes = this.string();
    try {
      return decoder.decode(bytes);
    } catch (cause) {
      throw new AppError("invalid_request", "Cannot read SSH data: a text is not UTF-8", { cause });
    }
  }

  /**
   * An `mpint` that must be positive or zero, as big-endian magnitude without leading zeros (zero is empty).
   *
   * @throws {AppError} `invalid_request` when truncated, negative or not in its shortest form
   */
  mpint(): Uint8Array {
    const bytes = this.string();
    const [first, second] = bytes;
    if (first === undefined) return bytes;
    if (first >= 0x80) throw new AppError("invalid_request", "Cannot read SSH data: a number is negative");
    if (first !== 0) return bytes;
    if (second === undefined || second < 0x80) {
      throw new AppError("invalid_request", "Cannot read SSH data: a number has needless zeros");
    }
    return bytes.subarray(1);
  }

  /**
   * A reader for the inside of a `string`.
   *
   * @throws {AppError} `invalid_request` when the data is truncated
   */
  nested(): SshReader {
    return new SshReader(this.string());
  }

  /**
   * Makes sure that nothing is left.
   *
   * @throws {AppError} `invalid_request` when bytes follow
   */
  end(): void {
    if (!this.done) {
      throw new AppError(
        "invalid_request",
        `Cannot read SSH data: ${this.#bytes.length - this.#offset} bytes too many`,
      );
    }
  }

  #advance(length: number): number {
    const start = this.#offset;
    if (length > this.#bytes.length - start) {
      throw new AppError("invalid_request", "Cannot read SSH data: truncated");
    }
    this.#offset += length;
    return start;
  }
}

/** Writes values one after the other; every method returns the writer. */
export class SshWriter {
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView<ArrayBuffer>;
  #length = 0;

  /**
   * Begins empty.
   *
   * @param capacity the bytes that there is room for at first
   */
  constructor(capacity: number = INITIAL_BYTES) {
    this.#bytes = new Uint8Array(capacity);
    this.#view = new DataView(this.#bytes.buffer);
  }

  /**
   * Four bytes, the most significant first.
   *
   * @throws {RangeError} when the value is not a whole number of 0 to 2^32-1
   */
  u32(value: number): this {
    if (!Number.isInteger(value) || value < 0 || value > MAX_U32) {
      throw new RangeError(`Not an unsigned 32-bit number: ${value}`);
    }
    const at = this.#reserve(4);
    this.#view.setUint32(at, value);
    return this;
  }

  /**
   * Eight bytes, the most significant first.
   *
   * @throws {RangeError} when the value is not in 0 to 2^64-1
   */
  u64(value: bigint): this {
    if (value < 0n || value > MAX_U64) throw new RangeError(`Not an unsigned 64-bit number: ${value}`);
    const at = this.#reserve(8);
    this.#view.setBigUint64(at, value);
    return this;
  }

  /** Bytes without a length before them. */
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
    // Three bytes hold any UTF-16 unit; what is not used is given back.
    const start = this.#reserve(4 + value.length * 3);
    const written = writeAscii(value, this.#bytes, start + 4)
      ? value.length
      : encoder.encodeInto(value, this.#bytes.subarray(start + 4)).written;
    this.#view.setUint32(start, written);
    this.#length = start + 4 + written;
    return this;
  }

  /** A `string` of what the function writes. */
  nested(write: (inside: SshWriter) => void): this {
    const start = this.#reserve(4);
    write(this);
    this.#view.setUint32(start, this.#length - start - 4);
    return this;
  }

  /** An `mpint` from a big-endian magnitude; leading zeros are dropped. */
  mpint(magnitude: Uint8Array): this {
    const start = magnitude.findIndex((byte) => byte !== 0);
    if (start === -1) return this.u32(0);
    const digits = magnitude.subarray(start);
    // A set top bit would read as a negative number.
    if ((digits[0] ?? 0) < 0x80) return this.string(digits);
    return this.u32(digits.length + 1).raw(new Uint8Array(1)).raw(digits);
  }

  /** All that was written, in an array of just that length, which nothing that is written later changes. */
  bytes(): Uint8Array<ArrayBuffer> {
    // A full one is not copied: whatever follows goes into a larger one.
    return this.#length === this.#bytes.length ? this.#bytes : this.#bytes.slice(0, this.#length);
  }

  /** Makes room at the end and gives where it starts. */
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

const INITIAL_BYTES = 256;

/** Writes a text that is ASCII; false when it is not. Most texts are short, and then this beats the encoder. */
function writeAscii(text: string, into: Uint8Array, start: number): boolean {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code > 0x7f) return false;
    into[start + index] = code;
  }
  return true;
}
