import { concatBytes } from "@gateway/shared/text";

export interface KeptBytes {
  readonly headBytes: number;
  readonly tailBytes: number;
}

export interface Output {
  readonly head: Uint8Array<ArrayBuffer>;
  /** The last bytes of the stream, without the bytes in the head. */
  readonly tail: Uint8Array<ArrayBuffer>;
  /** The length of the whole stream. Bytes between head and tail may have been dropped. */
  readonly totalBytes: number;
}

export function missingBytes({ head, tail, totalBytes }: Output): number {
  return totalBytes - head.length - tail.length;
}

export function keptBytes({ head, tail }: Output): Uint8Array<ArrayBuffer> {
  return concatBytes([head, tail]);
}

/** The head. If the stream was longer, a visible mark follows. */
export function markedHead({ head, totalBytes }: Output): Uint8Array<ArrayBuffer> {
  const mark = totalBytes > head.length ? truncationMark(head.length) : "";
  return concatBytes([head, new TextEncoder().encode(mark)]);
}

export function truncationMark(limit: number): string {
  return `\n[output truncated: limit of ${limit} bytes exceeded]\n`;
}

const FIRST_CAPACITY = 4096;

/**
 * Keeps the first and the last bytes of a stream and drops the rest, so that memory stays within the limits.
 * Bytes are copied, because a chunk of one byte can hold a whole packet in memory.
 */
export class OutputBuffer {
  readonly #headBytes: number;
  readonly #tailBytes: number;
  #head = new Uint8Array(0);
  #headLength = 0;
  /** A ring: byte number `n` after the head is at `n % tailBytes`. */
  #tail = new Uint8Array(0);
  #tailTotal = 0;

  constructor({ headBytes, tailBytes }: KeptBytes) {
    this.#headBytes = headBytes;
    this.#tailBytes = tailBytes;
  }

  get totalBytes(): number {
    return this.#headLength + this.#tailTotal;
  }

  write(chunk: Uint8Array): void {
    const first = chunk.subarray(0, this.#headBytes - this.#headLength);
    if (first.length > 0) {
      this.#head = reserve(this.#head, this.#headLength + first.length, this.#headBytes);
      this.#head.set(first, this.#headLength);
      this.#headLength += first.length;
    }
    const rest = chunk.subarray(first.length);
    const max = this.#tailBytes;
    this.#tailTotal += rest.length;
    const last = rest.subarray(Math.max(0, rest.length - max));
    if (last.length === 0) return;
    this.#tail = reserve(this.#tail, Math.min(max, this.#tailTotal), max);
    const at = (this.#tailTotal - last.length) % max;
    const untilEnd = last.subarray(0, max - at);
    this.#tail.set(untilEnd, at);
    this.#tail.set(last.subarray(untilEnd.length), 0);
  }

  output(): Output {
    const max = this.#tailBytes;
    const at = this.#tailTotal <= max ? 0 : this.#tailTotal % max;
    const tail = this.#tail.subarray(0, Math.min(max, this.#tailTotal));
    return {
      head: this.#head.slice(0, this.#headLength),
      tail: concatBytes([tail.subarray(at), tail.subarray(0, at)]),
      totalBytes: this.totalBytes,
    };
  }
}

function reserve(bytes: Uint8Array<ArrayBuffer>, length: number, limit: number): Uint8Array<ArrayBuffer> {
  if (length <= bytes.length) return bytes;
  const grown = new Uint8Array(Math.min(limit, Math.max(FIRST_CAPACITY, length, bytes.length * 2)));
  grown.set(bytes);
  return grown;
}

const REPLACEMENT = [0xef, 0xbf, 0xbd] as const;

/**
 * The output of a remote command as text: UTF-8, with one U+FFFD for each byte outside of a valid sequence, so that the
 * length of the text shows the length of the output. (`TextDecoder` writes one U+FFFD for each broken sequence.) A byte
 * order mark is kept.
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

/** The length of the valid sequence at this index (RFC 3629 section 4), or 0. */
function sequenceLength(bytes: Uint8Array, at: number): number {
  const first = bytes[at] ?? 0;
  if (first < 0x80) return 1;
  // A missing byte counts as 0, which is not part of a longer sequence.
  const [second, third, fourth] = [bytes[at + 1] ?? 0, bytes[at + 2] ?? 0, bytes[at + 3] ?? 0];
  if (first >= 0xc2 && first <= 0xdf) return isContinuation(second) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const low = first === 0xe0 ? 0xa0 : 0x80;
    const high = first === 0xed ? 0x9f : 0xbf;
    return second >= low && second <= high && isContinuation(third) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const low = first === 0xf0 ? 0x90 : 0x80;
    const high = first === 0xf4 ? 0x8f : 0xbf;
    return second >= low && second <= high && isContinuation(third) && isContinuation(fourth) ? 4 : 0;
  }
  return 0;
}

export function isContinuation(byte: number): boolean {
  return byte >= 0x80 && byte <= 0xbf;
}
