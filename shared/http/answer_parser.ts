/**
 * HTTP/1.1 answers (RFC 9112) from the bytes of a connection, strictly: whatever could be read in two ways is
 * refused, because the next answer on the connection would then be somebody else's.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { AnswerParser } from "./answer_parser.ts";
 *
 * const parser = new AnswerParser({ maxBytes: 100 });
 * const answer = parser.push(new TextEncoder().encode("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"));
 * assert.equal(answer?.status, 200);
 * assert.equal(answer.headers["content-length"], "2");
 * assert.equal(new TextDecoder().decode(answer.body), "{}");
 * ```
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { trimBlanks } from "../text.ts";

/** One whole answer. */
export interface Answer {
  readonly status: number;
  /** By lowercase name; several of one name with commas between. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** Whether the connection can be used again. */
  readonly isReusable: boolean;
}

/** What {@linkcode AnswerParser} needs. */
export interface AnswerLimits {
  /** The largest body, in bytes. */
  readonly maxBytes: number;
}

/** An answer that can't be read. */
export class MalformedAnswer extends Error {
  override readonly name = "MalformedAnswer";
}

/** A body beyond the limit. */
export class AnswerTooLarge extends Error {
  override readonly name = "AnswerTooLarge";
}

const MAX_HEAD_BYTES = 16_384;
const MAX_CHUNK_LINE_BYTES = 1024;
const NOTHING = new Uint8Array(0);
const HEAD_END = "\r\n\r\n";
const STATUS_LINE = /^HTTP\/1\.1 ([2-5]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/;
const FIELD = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t\x20-\x7e\x80-\xff]*)$/;
const CHUNK_SIZE = /^([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t\x20-\x7e]*)?$/;

interface Head {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** Where the parser stands in a chunked body (RFC 9112 section 7.1). */
type ChunkPart = "size" | "data" | "end" | "trailer";

/** Reads one answer. */
export class AnswerParser {
  readonly #maxBytes: number;
  /** Not understood yet: of the head, or of a chunk's line. */
  #rest: Uint8Array = NOTHING;
  #head: Head | undefined;
  /** Bytes of the body, or of the chunk, that are still to come. */
  #missing = 0;
  #chunkPart: ChunkPart | undefined;
  #size = 0;
  readonly #pieces: Uint8Array[] = [];

  constructor({ maxBytes }: AnswerLimits) {
    this.#maxBytes = maxBytes;
  }

  /**
   * Takes the next bytes.
   *
   * @returns the answer when it is complete
   * @throws {MalformedAnswer} also for bytes after the end
   * @throws {AnswerTooLarge} as soon as it is known
   */
  push(bytes: Uint8Array): Answer | undefined {
    let rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    this.#rest = NOTHING;
    if (this.#head === undefined) {
      const end = view(rest).indexOf(HEAD_END);
      if (end > MAX_HEAD_BYTES || (end < 0 && rest.length > MAX_HEAD_BYTES)) {
        throw new MalformedAnswer("the head is too long");
      }
      if (end < 0) return this.#keep(rest);
      this.#head = parseHead(view(rest).toString("latin1", 0, end));
      this.#beginBody(this.#head);
      rest = rest.subarray(end + HEAD_END.length);
    }
    return this.#chunkPart === undefined
      ? this.#readLength(this.#head, rest)
      : this.#readChunks(this.#head, rest);
  }

  #keep(rest: Uint8Array): undefined {
    this.#rest = rest;
  }

  #beginBody({ status, headers }: Head): void {
    const coding = headers["transfer-encoding"];
    const length = headers["content-length"];
    if (status === 204 || status === 304) return;
    if (coding !== undefined) {
      if (coding.toLowerCase() !== "chunked" || length !== undefined) {
        throw new MalformedAnswer("the body's end is ambiguous");
      }
      this.#chunkPart = "size";
      return;
    }
    if (length === undefined || !/^\d{1,15}$/.test(length)) {
      throw new MalformedAnswer("the body's end is unknown");
    }
    this.#missing = Number(length);
    if (this.#missing > this.#maxBytes) throw new AnswerTooLarge();
  }

  #readLength(head: Head, bytes: Uint8Array): Answer | undefined {
    if (bytes.length > this.#missing) throw new MalformedAnswer("there are bytes after the end");
    this.#take(bytes);
    return this.#missing === 0 ? this.#complete(head) : undefined;
  }

  #readChunks(head: Head, bytes: Uint8Array): Answer | undefined {
    let rest = bytes;
    for (;;) {
      if (this.#chunkPart === "data") {
        const data = rest.subarray(0, this.#missing);
        rest = rest.subarray(data.length);
        this.#take(data);
        if (this.#missing > 0) return undefined;
        this.#chunkPart = "end";
      }
      const end = view(rest).indexOf("\r\n");
      if (end > MAX_CHUNK_LINE_BYTES || (end < 0 && rest.length > MAX_CHUNK_LINE_BYTES)) {
        throw new MalformedAnswer("a line of a chunk is too long");
      }
      if (end < 0) return this.#keep(rest);
      const line = view(rest).toString("latin1", 0, end);
      rest = rest.subarray(end + 2);
      if (this.#chunkPart === "trailer") {
        if (line !== "") throw new MalformedAnswer("there is a trailer");
        if (rest.length > 0) throw new MalformedAnswer("there are bytes after the end");
        return this.#complete(head);
      }
      if (this.#chunkPart === "end") {
        if (line !== "") throw new MalformedAnswer("a chunk is longer than it says");
        this.#chunkPart = "size";
        continue;
      }
      const [, size] = CHUNK_SIZE.exec(line) ?? [];
      if (size === undefined) throw new MalformedAnswer("a chunk says no size");
      this.#missing = parseInt(size, 16);
      this.#chunkPart = this.#missing === 0 ? "trailer" : "data";
    }
  }

  #take(bytes: Uint8Array): void {
    this.#missing -= bytes.length;
    this.#size += bytes.length;
    if (this.#size > this.#maxBytes) throw new AnswerTooLarge();
    if (bytes.length > 0) this.#pieces.push(bytes);
  }

  #complete({ status, headers }: Head): Answer {
    const [first = NOTHING] = this.#pieces;
    const isClosing = /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i.test(headers["connection"] ?? "");
    return {
      status,
      headers,
      body: this.#pieces.length > 1 ? Buffer.concat(this.#pieces) : first,
      isReusable: !isClosing,
    };
  }
}

function parseHead(text: string): Head {
  const [first = "", ...fields] = text.split("\r\n");
  const [, status] = STATUS_LINE.exec(first) ?? [];
  if (status === undefined) throw new MalformedAnswer("the first line is not a status");
  const headers: Record<string, string> = Object.create(null);
  for (const field of fields) {
    const [, name, padded] = FIELD.exec(field) ?? [];
    if (name === undefined || padded === undefined) throw new MalformedAnswer("a header is malformed");
    const value = trimBlanks(padded);
    const key = name.toLowerCase();
    // Such as two lengths: joined they are not a number, and refused.
    headers[key] = headers[key] === undefined ? value : `${headers[key]}, ${value}`;
  }
  return { status: Number(status), headers };
}

/** The same bytes with the methods of a buffer; not copied. */
function view(bytes: Uint8Array): Buffer {
  return bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
