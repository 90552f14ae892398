/**
 * Randomness as a parameter.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { systemRandom } from "@gateway/shared/random";
 *
 * assert.equal(systemRandom.bytes(32).length, 32);
 * ```
 *
 * @module
 */

/** A source of unpredictable bytes. */
export interface Random {
  /** So many fresh random bytes. */
  bytes(length: number): Uint8Array;
}

/** The operating system's generator. */
export const systemRandom: Random = {
  bytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
};

/** An unsigned 64-bit number from eight random bytes, big-endian: a certificate serial. */
export function randomSerial(random: Random): bigint {
  const bytes = random.bytes(8);
  return new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0);
}
