/**
 * Pieces of bytes put together.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { concatBytes } from "@gateway/shared/bytes";
 *
 * assert.deepEqual(concatBytes([Uint8Array.of(1), Uint8Array.of(), Uint8Array.of(2, 3)]), Uint8Array.of(1, 2, 3));
 * ```
 *
 * @module
 */

/**
 * All of them, one after the other, always in a buffer of their own.
 *
 * Not `Buffer.concat`: its result may lie in a pool that others share, and its `slice` is no copy.
 */
export function concatBytes(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let offset = 0;
  for (const piece of pieces) {
    bytes.set(piece, offset);
    offset += piece.length;
  }
  return bytes;
}
