import { visibleLines } from "@gateway/shared/text";
import { outputText } from "../request/output_text.ts";
import { type KeptBytes, keptBytes, missingBytes, type Output } from "../ssh/output_buffer.ts";
import { READABLE_BYTES, type ToolLimits } from "./tool.ts";
import type { Random } from "@gateway/shared/clock";

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

/** How many bytes a text takes as a JSON string, without its quotes. No lone surrogates, which would be escaped. */
export function jsonLength(text: string): number {
  let length = 0;
  for (let index = 0; index < text.length; index += 1) length += jsonCost(text.charCodeAt(index));
  return length;
}

/** The longest start of a text that takes no more than so many bytes as a JSON string. */
export function jsonStart(text: string, maxLength: number): string {
  let length = 0;
  let end = 0;
  while (end < text.length) {
    length += jsonCost(text.charCodeAt(end));
    if (length > maxLength) break;
    end += 1;
  }
  return text.slice(0, isLowSurrogate(text, end) ? end - 1 : end);
}

/** The longest end of a text that takes no more than so many bytes as a JSON string. */
export function jsonEnd(text: string, maxLength: number): string {
  let length = 0;
  let start = text.length;
  while (start > 0) {
    length += jsonCost(text.charCodeAt(start - 1));
    if (length > maxLength) break;
    start -= 1;
  }
  return text.slice(isLowSurrogate(text, start) ? start + 1 : start);
}

/** Of one UTF-16 unit; each half of a pair stands for half of its character. */
function jsonCost(unit: number): number {
  if (unit < 0x20) return SHORT_ESCAPES.has(unit) ? 2 : 6;
  if (unit < 0x80) return unit === 0x22 || unit === 0x5c ? 2 : 1;
  if (unit < 0x800) return 2;
  return unit >= 0xd800 && unit <= 0xdfff ? 2 : 3;
}

/** Backspace, tab, line feed, form feed, carriage return. */
const SHORT_ESCAPES: ReadonlySet<number> = new Set([0x08, 0x09, 0x0a, 0x0c, 0x0d]);

/** Whether a character would be cut in two there. */
function isLowSurrogate(text: string, index: number): boolean {
  const unit = text.charCodeAt(index);
  return index > 0 && unit >= 0xdc00 && unit <= 0xdfff;
}
