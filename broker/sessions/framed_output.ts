import { Buffer } from "node:buffer";
import type { Frame } from "./shell_protocol.ts";

/** The rest of a frame's line after its word. */
const FIELD = /^:(\d{1,3})\r?\n/;
const MAX_FIELD_BYTES = ":255\r\n".length;

/**
 * Cuts the output of one command out of a stream of a shell. Bytes before the begin of the frame are of earlier
 * commands' background processes and are not this command's output; bytes after the end are not looked at.
 */
export class FramedOutput {
  readonly #words: readonly [begin: Buffer, end: Buffer];
  readonly #onOutput: (bytes: Uint8Array) => void;
  /** How many of the words were there. */
  #passed: 0 | 1 | 2 = 0;
  #exitCode: number | undefined;
  /** What can't be told yet: it may be the start of a frame's line. */
  #held = Buffer.alloc(0);
  /** Bytes that came before the frame. */
  strayBytes = 0;

  constructor({ begin, end }: Frame, onOutput: (bytes: Uint8Array) => void) {
    this.#words = [Buffer.from(begin), Buffer.from(end)];
    this.#onOutput = onOutput;
  }

  /** Whether the end of the frame was there. */
  get ended(): boolean {
    return this.#passed === 2;
  }

  /** The exit code at the end of the frame; `undefined` when there is none, and the shell can't be trusted. */
  get exitCode(): number | undefined {
    return this.#exitCode;
  }

  /** Takes the next bytes of the stream. */
  push(chunk: Uint8Array): void {
    let bytes = this.#held.length === 0 ? Buffer.from(chunk) : Buffer.concat([this.#held, chunk]);
    this.#held = Buffer.alloc(0);
    while (this.#passed < 2) {
      const word = this.#words[this.#passed === 0 ? 0 : 1];
      const at = indexOfField(bytes, word);
      if (at < 0) return this.#hold(bytes, bytes.length - overlap(bytes, word));
      const rest = bytes.subarray(at + word.length);
      const field = FIELD.exec(rest.toString("latin1", 0, MAX_FIELD_BYTES));
      if (field === null && rest.length < MAX_FIELD_BYTES && !rest.includes("\n")) {
        return this.#hold(bytes, at);
      }
      this.#deliver(bytes.subarray(0, at));
      bytes = rest.subarray(field?.[0].length ?? 0);
      this.#passed = this.#passed === 0 ? 1 : 2;
      if (this.#passed === 2) this.#exitCode = codeOf(field?.[1]);
    }
  }

  #hold(bytes: Buffer, at: number): void {
    this.#deliver(bytes.subarray(0, at));
    this.#held = Buffer.from(bytes.subarray(at));
  }

  #deliver(bytes: Buffer): void {
    if (bytes.length === 0) return;
    if (this.#passed === 1) this.#onOutput(bytes);
    else this.strayBytes += bytes.length;
  }
}

/** The first bytes that a field has, or what should be one; a shell that traces what it does prints none of them. */
const FIELD_START = Buffer.from(":\r\n");

/** Where the word is with its field after it, or nothing yet. */
function indexOfField(bytes: Buffer, word: Buffer): number {
  let at = bytes.indexOf(word);
  while (
    at >= 0 && at + word.length < bytes.length &&
    !FIELD_START.includes(bytes.subarray(at + word.length, at + word.length + 1))
  ) {
    at = bytes.indexOf(word, at + word.length);
  }
  return at;
}

function codeOf(text: string | undefined): number | undefined {
  const code = Number(text ?? NaN);
  return code <= 255 ? code : undefined;
}

/** How many bytes at the end of a text may be the start of a word. */
function overlap(bytes: Buffer, word: Buffer): number {
  for (let length = Math.min(bytes.length, word.length - 1); length > 0; length--) {
    if (bytes.subarray(bytes.length - length).equals(word.subarray(0, length))) return length;
  }
  return 0;
}
