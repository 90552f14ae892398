import { concatBytes } from "@gateway/shared/bytes";

const FIRST_CAPACITY = 4096;

/**
 * Keeps the first bytes of a stream and drops the rest, so that a flood costs no more memory than the limit.
 * Bytes are copied: a chunk can be one byte long and hold on to a whole packet.
 */
export class OutputBuffer {
  readonly #maxBytes: number;
  #bytes = new Uint8Array(0);
  #length = 0;
  #truncated = false;

  /** @param maxBytes how much to keep */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Whether bytes were dropped. */
  get truncated(): boolean {
    return this.#truncated;
  }

  /** Takes the next bytes of the stream. */
  write(chunk: Uint8Array): void {
    const kept = chunk.subarray(0, this.#maxBytes - this.#length);
    if (kept.length < chunk.length) this.#truncated = true;
    if (kept.length === 0) return;
    this.#reserve(this.#length + kept.length);
    this.#bytes.set(kept, this.#length);
    this.#length += kept.length;
  }

  /** What says that bytes were dropped; empty when none were. */
  get mark(): string {
    return this.#truncated ? `\n[output truncated: limit of ${this.#maxBytes} bytes exceeded]\n` : "";
  }

  /** What was kept, and a visible mark after it when bytes were dropped. */
  bytes(): Uint8Array<ArrayBuffer> {
    return concatBytes([this.#bytes.subarray(0, this.#length), new TextEncoder().encode(this.mark)]);
  }

  #reserve(length: number): void {
    if (length <= this.#bytes.length) return;
    const capacity = Math.min(this.#maxBytes, Math.max(FIRST_CAPACITY, length, this.#bytes.length * 2));
    const grown = new Uint8Array(capacity);
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
  }
}
