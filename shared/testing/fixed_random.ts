/**
 * Deterministic random bytes for tests.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { FixedRandom } from "@gateway/shared/testing";
 *
 * const random = new FixedRandom([1, 2, 3]);
 * assert.deepEqual([...random.bytes(2)], [1, 2]);
 * assert.deepEqual([...random.bytes(2)], [3, 1]);
 * ```
 *
 * @module
 */
import type { Random } from "../clock.ts";

const ALL_BYTES: readonly number[] = Array.from({ length: 256 }, (_, index) => index);

/** A {@linkcode Random} that repeats a given sequence of bytes; by default 0 to 255. */
export class FixedRandom implements Random {
  readonly #sequence: readonly number[];
  #position = 0;

  /** Starts with the first byte of the sequence. */
  constructor(sequence: readonly number[] = ALL_BYTES) {
    if (sequence.length === 0) throw new RangeError("The sequence must not be empty");
    this.#sequence = sequence;
  }

  bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.#sequence[this.#position++ % this.#sequence.length] ?? 0);
  }
}
