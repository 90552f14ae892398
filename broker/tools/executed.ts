import { Buffer } from "node:buffer";
import type { Random } from "@gateway/shared/clock";
import { shortenText, visibleLines, visibleText } from "@gateway/shared/text";
import * as z from "@zod/zod";
import {
  isContinuation,
  type KeptBytes,
  keptBytes,
  missingBytes,
  type Output,
  outputText,
} from "../ssh/output.ts";
import { contentBudget, READABLE_BYTES, type ToolLimits, type ToolResult } from "./tool.ts";

export interface ResultPorts {
  readonly random: Random;
  readonly limits: ToolLimits;
}

export function outputArguments({ maxOutputBytes }: Pick<ToolLimits, "maxOutputBytes">) {
  return {
    max_output_bytes: z.int().optional().describe(
      `Bytes of each stream, at most ${maxOutputBytes} (default)`,
    ),
    tail: z.boolean().optional().describe("Return the end of a long stream"),
  };
}

export const EXECUTED_FIELDS = {
  stdout: z.string(),
  stderr: z.string(),
  exit_code: z.int().describe("128 plus the signal number after a signal"),
  stdout_total_bytes: z.int().optional(),
  stderr_total_bytes: z.int().optional(),
  serial: z.bigint(),
  warnings: z.array(z.string()).optional(),
} as const;

/** The longest warning in a result, in characters. */
export const MAX_WARNING = 1000;
/** Drawn after the host has sent its output, so that the host cannot guess it. */
const MARK_BYTES = 8;

/** The part of a command's output that its caller requests. */
interface OutputSelection {
  readonly maxBytes: number;
  /** The end of the stream instead of the beginning. */
  readonly tail: boolean;
}

/** The requested part of the output. It never exceeds the broker's limit. */
export function selectOutput(
  { max_output_bytes: asked = 0, tail = false }: {
    readonly max_output_bytes?: number | undefined;
    readonly tail?: boolean | undefined;
  },
  { maxOutputBytes }: Pick<ToolLimits, "maxOutputBytes">,
): OutputSelection {
  return { maxBytes: asked > 0 ? Math.min(asked, maxOutputBytes) : maxOutputBytes, tail };
}

/** The bytes to keep of each stream. The text block always shows the end too. */
export function keptFor({ maxBytes, tail }: OutputSelection): KeptBytes {
  return tail
    ? { headBytes: 0, tailBytes: maxBytes }
    : { headBytes: maxBytes, tailBytes: Math.min(maxBytes, READABLE_BYTES / 2) };
}

export function renderExecuted(
  { random, limits }: ResultPorts,
  { stdout, stderr, exitCode, serial, warnings: all }: {
    readonly stdout: Output;
    readonly stderr: Output;
    readonly exitCode: number;
    readonly serial: bigint;
    readonly warnings: readonly string[];
  },
  selection: OutputSelection,
): ToolResult {
  const mark = random.bytes(MARK_BYTES).toHex();
  const warnings = all.map((warning) => shortenText(warning, MAX_WARNING));
  const budget = contentBudget(limits);
  // One stream can use the room that the other stream leaves.
  const [outText, errText] = [contentOf(stdout, selection), contentOf(stderr, selection)];
  const fit = (text: string, other: string) =>
    (selection.tail ? jsonEnd : jsonStart)(text, Math.max(budget / 2, budget - jsonLength(other)));
  const [outContent, errContent] = [fit(outText, errText), fit(errText, outText)];
  const outIsAll = stdout.totalBytes <= selection.maxBytes && outContent.length === outText.length;
  const errIsAll = stderr.totalBytes <= selection.maxBytes && errContent.length === errText.length;
  const shown = [
    showStream({ name: "stdout", mark, selection, ...(!outIsAll && { part: outContent }) }, stdout),
    showStream({ name: "stderr", mark, selection, ...(!errIsAll && { part: errContent }) }, stderr),
  ];
  return {
    text: [
      ...shown.flatMap(({ block }) => block),
      ...warnings.map((warning) => `[warning] ${visibleText(warning)}`),
      ...shown.flatMap(({ note }) => note),
      `[exit=${exitCode} serial=${serial}]`,
    ].join("\n"),
    structured: {
      stdout: outContent,
      stderr: errContent,
      exit_code: exitCode,
      serial,
      ...(!outIsAll && { stdout_total_bytes: stdout.totalBytes }),
      ...(!errIsAll && { stderr_total_bytes: stderr.totalBytes }),
      ...(warnings.length > 0 && { warnings }),
    },
  };
}

/** @param about `part` is the text in the structured content if that text is not the whole stream */
function showStream(
  { name, mark, selection, part }: {
    readonly name: string;
    readonly mark: string;
    readonly selection: OutputSelection;
    readonly part?: string;
  },
  output: Output,
): { readonly block: readonly string[]; readonly note: readonly string[] } {
  const { totalBytes } = output;
  if (totalBytes === 0) return { block: [], note: [] };
  const { start, end, leftOut } = readStream(output, selection);
  const cut = leftOut > 0 ? `${leftOut} of ${totalBytes} bytes` : undefined;
  const block = [showParts({ name, mark, totalBytes, start, cut, end })];
  if (part === undefined) {
    const note = `[note] structuredContent has all ${totalBytes} bytes of ${name}`;
    return { block, note: leftOut > 0 ? [note] : [] };
  }
  const which = `the ${selection.tail ? "last" : "first"} ${Buffer.byteLength(part)} of ${totalBytes} bytes`;
  const others = "for another part pass tail or max_output_bytes, or let the command select it";
  return { block, note: [`[note] structuredContent has ${which} of ${name}; ${others}`] };
}

/** The part of a stream for the structured content, as the host sent it. */
function contentOf(output: Output, { maxBytes, tail }: OutputSelection): string {
  if (output.totalBytes <= maxBytes) return outputText(keptBytes(output));
  return outputText(tail ? wholeAtStart(output.tail) : wholeAtEnd(output.head));
}

function readStream(output: Output, { maxBytes, tail }: OutputSelection) {
  const { totalBytes } = output;
  const all = missingBytes(output) === 0 ? outputText(keptBytes(output)) : undefined;
  if (all !== undefined && totalBytes <= maxBytes && all.length <= READABLE_BYTES) {
    const start = visibleLines(all);
    if (jsonLength(start) <= READABLE_BYTES) return { start, end: "", leftOut: 0 };
  }
  const room = Math.min(READABLE_BYTES, maxBytes);
  const start = tail ? "" : startForReading(all ?? outputText(wholeAtEnd(output.head)), room / 2);
  const end = endForReading(all ?? outputText(wholeAtStart(output.tail)), tail ? room : room / 2);
  // The number is approximate if the bytes are not text.
  const leftOut = Math.max(1, totalBytes - Buffer.byteLength(start) - Buffer.byteLength(end));
  return { start: visibleLines(start), end: visibleLines(end), leftOut };
}

/**
 * The longest start of a text that fits in the limit after invisible characters are escaped. It ends at a
 * line end if one is near.
 */
function startForReading(text: string, maxLength: number): string {
  const part = fitVisible(text, maxLength, jsonStart);
  const lineEnd = part.lastIndexOf("\n") + 1;
  return lineEnd > part.length / 2 ? part.slice(0, lineEnd) : part;
}

function endForReading(text: string, maxLength: number): string {
  const part = fitVisible(text, maxLength, jsonEnd);
  const lineStart = part.indexOf("\n") + 1;
  return lineStart < part.length / 2 ? part.slice(lineStart) : part;
}

function fitVisible(text: string, maxLength: number, cut: typeof jsonStart): string {
  let part = cut(text, maxLength);
  for (;;) {
    const length = jsonLength(visibleLines(part));
    if (length <= maxLength) return part;
    part = cut(part, Math.floor(jsonLength(part) * maxLength / length));
  }
}

function wholeAtEnd(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (isContinuation(byte)) continue;
    const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needs > back ? bytes.subarray(0, bytes.length - back) : bytes;
  }
  return bytes;
}

function wholeAtStart(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  let start = 0;
  while (start < 3 && isContinuation(bytes[start] ?? 0)) start += 1;
  return bytes.subarray(start);
}

/**
 * Puts UTF-8 text between two lines with a random mark, so that no line of the text can imitate the end.
 * @returns `note` names the place of the rest if the block has only the beginning and the end
 */
export function fence(name: string, bytes: Uint8Array<ArrayBuffer>, random: Random) {
  const mark = random.bytes(MARK_BYTES).toHex();
  const { start, end, leftOut } = readStream(
    { head: bytes, tail: new Uint8Array(0), totalBytes: bytes.length },
    { maxBytes: bytes.length, tail: false },
  );
  const lines = countLines(new TextDecoder().decode(bytes)) - countLines(start) - countLines(end);
  const cut = leftOut > 0 ? `${leftOut} bytes in ${Math.max(1, lines)} lines` : undefined;
  const note =
    `[note] structuredContent has all ${bytes.length} bytes; this text has at most ${READABLE_BYTES}`;
  const block = showParts({ name, mark, totalBytes: bytes.length, start, cut, end });
  return { block, note: leftOut > 0 ? [note] : [] };
}

function showParts(
  { name, mark, totalBytes, start, cut, end }: Record<"name" | "mark" | "start" | "end", string> & {
    readonly totalBytes: number;
    readonly cut: string | undefined;
  },
): string {
  const left = cut === undefined ? "" : `[cut ${mark}: about ${cut} are left out here]\n`;
  return `[${name} ${mark} ${totalBytes} bytes]\n${endLine(start)}${left}${endLine(end)}[end ${mark}]`;
}

/** Ends a text with a line feed, unless it is empty. */
function endLine(text: string): string {
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}

function countLines(text: string): number {
  return endLine(text).split("\n").length - 1;
}

/** The bytes that a text takes as a JSON string, without its quotes. The text has no lone surrogates. */
export function jsonLength(text: string): number {
  let length = 0;
  for (let index = 0; index < text.length; index += 1) length += jsonCost(text.charCodeAt(index));
  return length;
}

/** The longest start of a text whose JSON string has at most this number of bytes. */
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

/** The longest end of a text whose JSON string has at most this number of bytes. */
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

/** The cost of one UTF-16 unit. Each half of a surrogate pair counts half of its character. */
function jsonCost(unit: number): number {
  if (unit < 0x20) return SHORT_ESCAPES.has(unit) ? 2 : 6;
  if (unit < 0x80) return unit === 0x22 || unit === 0x5c ? 2 : 1;
  if (unit < 0x800) return 2;
  return unit >= 0xd800 && unit <= 0xdfff ? 2 : 3;
}

const SHORT_ESCAPES: ReadonlySet<number> = new Set([0x08, 0x09, 0x0a, 0x0c, 0x0d]);

function isLowSurrogate(text: string, index: number): boolean {
  const unit = text.charCodeAt(index);
  return index > 0 && unit >= 0xdc00 && unit <= 0xdfff;
}
