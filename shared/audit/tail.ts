/**
 * What the end of a log file tells about its state: where the chain continues, or what keeps it from continuing.
 *
 * @module
 */
import { parseStandardJson } from "../json.ts";
import { type AuditPublicKey, type ChainHead, hashLine, parseLine, verifySignature } from "./chain.ts";
import { MAX_LINE_BYTES } from "./record.ts";

/** How many bytes at the end of a file {@linkcode inspectTail} needs to see: two lines of full length. */
export const TAIL_BYTES: number = 2 * (MAX_LINE_BYTES + 1);

/** The state of a log file. */
export type TailState =
  /** No record in it. */
  | { readonly kind: "empty"; readonly tornBytes: number }
  /** `tornBytes` at the end belong to a record that was not written to its end. */
  | {
    readonly kind: "good";
    readonly head: ChainHead;
    /** False when the last record, though whole, lacks its newline. */
    readonly terminated: boolean;
    readonly tornBytes: number;
  }
  /** Not the trace of an interrupted write: somebody has to look. */
  | { readonly kind: "broken"; readonly reason: string };

const NEWLINE = 0x0a;

/**
 * Judges a file by its last line. A last line without newline that isn't JSON was never acknowledged, so it
 * counts as torn; anything else must be a record signed by this key and linked to the line before it.
 *
 * @param bytes the last {@linkcode TAIL_BYTES} of the file, or all of it if it is shorter
 * @param wholeFile whether `bytes` starts where the file starts
 */
export function inspectTail(bytes: Uint8Array, wholeFile: boolean, key: AuditPublicKey): TailState {
  const lastStart = bytes.lastIndexOf(NEWLINE) + 1;
  const unterminated = bytes.subarray(lastStart);
  if (unterminated.length > MAX_LINE_BYTES) return tooLong();
  if (unterminated.length === 0) return inspectRecords(bytes, wholeFile, key, true, 0);
  if (isJson(unterminated)) return inspectRecords(bytes, wholeFile, key, false, 0);
  return inspectRecords(bytes.subarray(0, lastStart), wholeFile, key, true, unterminated.length);
}

function inspectRecords(
  bytes: Uint8Array,
  wholeFile: boolean,
  key: AuditPublicKey,
  terminated: boolean,
  tornBytes: number,
): TailState {
  const last = lastLine(bytes);
  if (last === undefined) return wholeFile ? { kind: "empty", tornBytes } : broken("it ends in blank lines");
  if (last.line.length > MAX_LINE_BYTES || (last.start === 0 && !wholeFile)) return tooLong();
  const record = parseLine(last.line);
  if (record === undefined) return broken("its last line is not a record");
  if (!verifySignature(record, key)) return broken("its last record is not signed by this audit key");
  const previous = lastLine(bytes.subarray(0, last.start));
  // A line cut off by the start of the window can't be hashed.
  if (previous !== undefined && (previous.start > 0 || wholeFile)) {
    const linked = record.prevHash === hashLine(previous.line);
    if (!linked) return broken("its last record is not linked to the one before it");
  }
  const seq = Number(record.seq);
  if (!Number.isSafeInteger(seq)) return broken("the number of its last record is too large");
  return { kind: "good", head: { seq, hash: hashLine(last.line) }, terminated, tornBytes };
}

/** The last line that isn't blank, without its newline. */
function lastLine(bytes: Uint8Array): { readonly line: Uint8Array; readonly start: number } | undefined {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === NEWLINE) end--;
  if (end === 0) return undefined;
  const start = bytes.lastIndexOf(NEWLINE, end - 1) + 1;
  return { line: bytes.subarray(start, end), start };
}

function isJson(bytes: Uint8Array): boolean {
  try {
    parseStandardJson(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
    return true;
  } catch {
    return false;
  }
}

function tooLong(): TailState {
  return broken(`its last line is longer than ${MAX_LINE_BYTES} bytes`);
}

function broken(reason: string): TailState {
  return { kind: "broken", reason };
}
