import { visibleLines } from "@gateway/shared/text";
import { outputText } from "../request/output_text.ts";
import { type KeptBytes, keptBytes, missingBytes, type Output } from "../ssh/output_buffer.ts";
import { jsonEnd, jsonLength, jsonStart } from "./json_length.ts";
import { READABLE_BYTES, type ToolLimits } from "./limits.ts";

/** How much of a command's output its caller wants. */
export interface OutputWish {
  /** Of each stream, in bytes. */
  readonly maxBytes: number;
  /** The end of it and not the beginning. */
  readonly tail: boolean;
}

/** The wish that the arguments of a call express; nobody gets more than the broker's limit. */
export function readOutputWish(
  { max_output_bytes: asked = 0, tail = false }: {
    readonly max_output_bytes?: number | undefined;
    readonly tail?: boolean | undefined;
  },
  { maxOutputBytes }: Pick<ToolLimits, "maxOutputBytes">,
): OutputWish {
  return { maxBytes: asked > 0 ? Math.min(asked, maxOutputBytes) : maxOutputBytes, tail };
}

/** What has to be kept of a stream for such a wish: for the text, its end too. */
export function keptFor({ maxBytes, tail }: OutputWish): KeptBytes {
  return tail
    ? { headBytes: 0, tailBytes: maxBytes }
    : { headBytes: maxBytes, tailBytes: Math.min(maxBytes, READABLE_BYTES / 2) };
}

/** Whether the structured content may have all of a stream. */
export function isWanted({ totalBytes }: Output, { maxBytes }: OutputWish): boolean {
  return totalBytes <= maxBytes;
}

/** What the structured content has of a stream, as the host sent it. */
export function contentOf(output: Output, wish: OutputWish): string {
  if (isWanted(output, wish)) return outputText(keptBytes(output));
  return outputText(wish.tail ? wholeAtStart(output.tail) : wholeAtEnd(output.head));
}

/** What the text block shows of a stream. */
interface ReadableStreamText {
  /** Of its beginning; of all of it, when nothing is left out. */
  readonly start: string;
  readonly end: string;
  /** How many bytes are left out in between, roughly where they are not text. */
  readonly leftOut: number;
}

/** A stream for reading: its beginning and its end, with everything visible that would steer or hide something. */
export function readStream(output: Output, wish: OutputWish): ReadableStreamText {
  const { totalBytes } = output;
  const { maxBytes, tail } = wish;
  const all = missingBytes(output) === 0 ? outputText(keptBytes(output)) : undefined;
  if (all !== undefined && isWanted(output, wish) && all.length <= READABLE_BYTES) {
    const start = visibleLines(all);
    if (jsonLength(start) <= READABLE_BYTES) return { start, end: "", leftOut: 0 };
  }
  const room = Math.min(READABLE_BYTES, maxBytes);
  const rawStart = tail ? "" : startForReading(all ?? outputText(wholeAtEnd(output.head)), room / 2);
  const rawEnd = endForReading(all ?? outputText(wholeAtStart(output.tail)), tail ? room : room / 2);
  return {
    start: visibleLines(rawStart),
    end: visibleLines(rawEnd),
    leftOut: Math.max(1, totalBytes - byteLength(rawStart) - byteLength(rawEnd)),
  };
}

/** The start of a text, up to the end of a line where one is near, that fits when all of it is visible. */
function startForReading(text: string, maxLength: number): string {
  const part = fit(text, maxLength, jsonStart);
  const lineEnd = part.lastIndexOf("\n") + 1;
  return lineEnd > part.length / 2 ? part.slice(0, lineEnd) : part;
}

function endForReading(text: string, maxLength: number): string {
  const part = fit(text, maxLength, jsonEnd);
  const lineStart = part.indexOf("\n") + 1;
  return lineStart < part.length / 2 ? part.slice(lineStart) : part;
}

function fit(text: string, maxLength: number, cut: (text: string, maxLength: number) => string): string {
  let part = cut(text, maxLength);
  for (;;) {
    const length = jsonLength(visibleLines(part));
    if (length <= maxLength) return part;
    part = cut(part, Math.floor(jsonLength(part) * maxLength / length));
  }
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** Without the character at the end that was cut in two. */
function wholeAtEnd(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (isContinuation(byte)) continue;
    const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needs > back ? bytes.subarray(0, bytes.length - back) : bytes;
  }
  return bytes;
}

/** Without the rest of a character at the start. */
function wholeAtStart(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  let start = 0;
  while (start < 3 && isContinuation(bytes[start] ?? 0)) start += 1;
  return bytes.subarray(start);
}

function isContinuation(byte: number): boolean {
  return byte >= 0x80 && byte <= 0xbf;
}
