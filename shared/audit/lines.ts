/**
 * A stream of bytes as lines, in constant memory.
 *
 * @module
 */
import { concatBytes } from "../bytes.ts";

/** One line of a log. */
export interface LogLine {
  /** Without its newline; of a line that is too long, only the beginning. Valid until the next line is taken. */
  readonly bytes: Uint8Array;
  /** False for a last line without newline. */
  readonly terminated: boolean;
  /** True when the line has more than the allowed bytes. */
  readonly tooLong: boolean;
}

const NEWLINE = 0x0a;

/** Splits at LF; keeps no more than `maxBytes` of a line. */
export async function* splitLines(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<LogLine> {
  const partial = new LineBuffer(maxBytes);
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      yield partial.complete(chunk.subarray(start, end));
      start = end + 1;
    }
    partial.add(chunk.subarray(start));
  }
  if (partial.length > 0) yield { ...partial.complete(new Uint8Array(0)), terminated: false };
}

/** Collects the pieces of a line that spans chunks. */
class LineBuffer {
  readonly #maxBytes: number;
  #pieces: Uint8Array[] = [];
  #kept = 0;
  /** All bytes of the line so far, kept or not. */
  length = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  add(piece: Uint8Array): void {
    const room = this.#maxBytes - this.#kept;
    this.length += piece.length;
    if (room <= 0 || piece.length === 0) return;
    // A copy: the source may reuse its buffer.
    this.#pieces.push(piece.slice(0, room));
    this.#kept += Math.min(room, piece.length);
  }

  complete(piece: Uint8Array): LogLine {
    if (this.length === 0 && piece.length <= this.#maxBytes) {
      return { bytes: piece, terminated: true, tooLong: false };
    }
    this.add(piece);
    const line = {
      bytes: concatBytes(this.#pieces),
      terminated: true,
      tooLong: this.length > this.#maxBytes,
    };
    this.#pieces = [];
    this.#kept = 0;
    this.length = 0;
    return line;
  }
}
