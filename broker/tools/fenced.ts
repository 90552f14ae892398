import type { Random } from "@gateway/shared/clock";
import { READABLE_BYTES } from "./limits.ts";
import { readStream } from "./stream_view.ts";

/** The text cannot contain the mark, because it was sent before the mark is drawn. */
const MARK_BYTES = 8;

/** Text from outside, for a model to read. */
interface Fenced {
  /** The text between two lines with a random mark; its beginning and end where it is longer than 64 KiB. */
  readonly block: string;
  /** Says where the rest is; empty if the block has all. */
  readonly note: readonly string[];
}

/** Puts UTF-8 text between marks, so that no line of the text can pass for the end of it. */
export function fence(name: string, bytes: Uint8Array<ArrayBuffer>, random: Random): Fenced {
  const mark = random.bytes(MARK_BYTES).toHex();
  const { start, end, leftOut } = readStream(
    { head: bytes, tail: new Uint8Array(0), totalBytes: bytes.length },
    { maxBytes: bytes.length, tail: false },
  );
  const lines = countLines(new TextDecoder().decode(bytes)) - countLines(start) - countLines(end);
  const cut = `[cut ${mark}: about ${leftOut} bytes in ${Math.max(1, lines)} lines are left out here]\n`;
  return {
    block: `[${name} ${mark} ${bytes.length} bytes]\n${endLine(start)}${
      leftOut === 0 ? "" : cut + endLine(end)
    }[end ${mark}]`,
    note: leftOut === 0 ? [] : [
      `[note] structuredContent has all ${bytes.length} bytes; this text has at most ${READABLE_BYTES}`,
    ],
  };
}

/** Ends a text with a line feed, unless it is empty. */
export function endLine(text: string): string {
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}

function countLines(text: string): number {
  return endLine(text).split("\n").length - 1;
}
