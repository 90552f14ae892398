/**
 * Bytes put together, collected within a bound, and written to the last one.
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
 * Not `Buffer.concat`: its result may lie in a pool that others share, and its `slice` is not a copy.
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

/**
 * Reads to the end of a source; `undefined` as soon as it gives more than `maxBytes`, and then it is told that no
 * more is wanted: a stream is cancelled.
 */
export async function collectBytes(
  source: AsyncIterable<Uint8Array | string>,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of source) {
    const bytes = typeof piece === "string" ? new TextEncoder().encode(piece) : piece;
    length += bytes.length;
    if (length > maxBytes) return undefined;
    pieces.push(bytes);
  }
  return concatBytes(pieces);
}

/** Writes all of it: a file or pipe may take a part at a time. */
export async function writeAll(
  target: { write(bytes: Uint8Array): Promise<number> },
  bytes: Uint8Array,
): Promise<void> {
  for (let rest = bytes; rest.length > 0;) rest = rest.subarray(await target.write(rest));
}

/** The same without a turn of the event loop; a text is written as UTF-8. */
export function writeAllSync(
  target: { writeSync(bytes: Uint8Array): number },
  content: Uint8Array | string,
): void {
  let rest: Uint8Array = typeof content === "string" ? new TextEncoder().encode(content) : content;
  while (rest.length > 0) rest = rest.subarray(target.writeSync(rest));
}
