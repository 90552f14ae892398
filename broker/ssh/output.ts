import { concatBytes } from "@gateway/shared/text";

const FIRST_CAPACITY = 4096;

/** How much is kept of each stream of a command. */
export interface KeptBytes {
  readonly headBytes: number;
  readonly tailBytes: number;
}

/** What was kept of a stream. */
export interface Output {
  /** Its first bytes. */
  readonly head: Uint8Array<ArrayBuffer>;
  /** Its last bytes, without those of the head. */
  readonly tail: Uint8Array<ArrayBuffer>;
  /** How many there were; where that is more than what was kept, those between head and tail are missing. */
  readonly totalBytes: number;
}

/** How many bytes are missing between the head and the tail. */
export function missingBytes({ head, tail, totalBytes }: Output): number {
  return totalBytes - head.length - tail.length;
}

/** All that was kept, in one piece: what is missing is not marked. */
export function keptBytes({ head, tail }: Output): Uint8Array<ArrayBuffer> {
  return concatBytes([head, tail]);
}

/** The head, and a visible mark after it when there was more. */
export function markedHead({ head, totalBytes }: Output): Uint8Array<ArrayBuffer> {
  const limit = head.length;
  return concatBytes([head, new TextEncoder().encode(totalBytes > limit ? truncationMark(limit) : "")]);
}

/** What says that a stream was cut off. */
export function truncationMark(limit: number): string {
  return `\n[output truncated: limit of ${limit} bytes exceeded]\n`;
}

/**
 * Keeps the first and the last bytes of a stream and drops the rest, so that a flood costs no more memory than the
 * limits. Bytes are copied: a chunk can be one byte long and hold on to a whole packet.
 */
export class OutputBuffer {
  readonly #headBytes: number;
  readonly #tailBytes: number;
  #head = new Uint8Array(0);
  #headLength = 0;
  /** A ring: the byte number `n` after the head is at `n % tailBytes`. */
  #tail = new Uint8Array(0);
  #tailTotal = 0;

  constructor({ headBytes, tailBytes }: KeptBytes) {
    this.#headBytes = headBytes;
    this.#tailBytes = tailBytes;
  }

  /** How many bytes there were. */
  get totalBytes(): number {
    return this.#headLength + this.#tailTotal;
  }

  /** Takes the next bytes of the stream. */
  write(chunk: Uint8Array): void {
    const first = chunk.subarray(0, this.#headBytes - this.#headLength);
    if (first.length > 0) {
      this.#head = reserve(this.#head, this.#headLength + first.length, this.#headBytes);
      this.#head.set(first, this.#headLength);
      this.#headLength += first.length;
    }
    this.#writeTail(chunk.subarray(first.length));
  }

  output(): Output {
    return {
      head: this.#head.slice(0, this.#headLength),
      tail: this.#readTail(),
      totalBytes: this.totalBytes,
    };
  }

  #writeTail(chunk: Uint8Array): void {
    const max = this.#tailBytes;
    const total = this.#tailTotal + chunk.length;
    const last = chunk.subarray(Math.max(0, chunk.length - max));
    if (last.length > 0) {
      this.#tail = reserve(this.#tail, Math.min(max, total), max);
      const at = (total - last.length) % max;
      const untilEnd = last.subarray(0, max - at);
      this.#tail.set(untilEnd, at);
      this.#tail.set(last.subarray(untilEnd.length), 0);
    }
    this.#tailTotal = total;
  }

  #readTail(): Uint8Array<ArrayBuffer> {
    const max = this.#tailBytes;
    if (max === 0 || this.#tailTotal <= max) return this.#tail.slice(0, Math.min(max, this.#tailTotal));
    const at = this.#tailTotal % max;
    return concatBytes([this.#tail.subarray(at), this.#tail.subarray(0, at)]);
  }
}

/** The same bytes with room for so many; grows by doubling, to the limit at most. */
function reserve(bytes: Uint8Array<ArrayBuffer>, length: number, limit: number): Uint8Array<ArrayBuffer> {
  if (length <= bytes.length) return bytes;
  const grown = new Uint8Array(Math.min(limit, Math.max(FIRST_CAPACITY, length, bytes.length * 2)));
  grown.set(bytes);
  return grown;
}

const REPLACEMENT = [0xef, 0xbf, 0xbd] as const;

/**
 * The output of a remote command as text: UTF-8, with one U+FFFD for each byte that is not part of a valid
 * sequence. (`TextDecoder` alone gives one for each broken sequence, so the text's length would say less about
 * what the host sent.) A byte order mark is kept.
 */
export function outputText(bytes: Uint8Array): string {
  let repaired: Uint8Array | undefined;
  let used = 0;
  let copied = 0;
  for (let at = 0; at < bytes.length;) {
    const length = sequenceLength(bytes, at);
    if (length > 0) {
      at += length;
      continue;
    }
    repaired ??= new Uint8Array(at + (bytes.length - at) * REPLACEMENT.length);
    repaired.set(bytes.subarray(copied, at), used);
    used += at - copied;
    repaired.set(REPLACEMENT, used);
    used += REPLACEMENT.length;
    at += 1;
    copied = at;
  }
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  if (repaired === undefined) return decoder.decode(bytes);
  repaired.set(bytes.subarray(copied), used);
  return decoder.decode(repaired.subarray(0, used + bytes.length - copied));
}

/** The length of the valid sequence that starts here (RFC 3629 section 4), 0 when there is none. */
function sequenceLength(bytes: Uint8Array, at: number): number {
  const first = byteAt(bytes, at);
  if (first < 0x80) return 1;
  const second = byteAt(bytes, at + 1);
  if (first >= 0xc2 && first <= 0xdf) return isTail(second) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const low = first === 0xe0 ? 0xa0 : 0x80;
    const high = first === 0xed ? 0x9f : 0xbf;
    return second >= low && second <= high && isTail(byteAt(bytes, at + 2)) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const low = first === 0xf0 ? 0x90 : 0x80;
    const high = first === 0xf4 ? 0x8f : 0xbf;
    const valid = second >= low && second <= high && isTail(byteAt(bytes, at + 2)) &&
      isTail(byteAt(bytes, at + 3));
    return valid ? 4 : 0;
  }
  return 0;
}

/** The byte there, or 0, which is not part of a longer sequence, past the end. */
function byteAt(bytes: Uint8Array, at: number): number {
  return bytes[at] ?? 0;
}

function isTail(byte: number): boolean {
  return byte >= 0x80 && byte <= 0xbf;
}
