/**
 * The one door for JSON. It keeps 64-bit integers exact in both directions: certificate serials are random 64-bit
 * numbers, which `JSON.parse` and `JSON.stringify` would corrupt. And it reads what a text says whatever was read
 * before it, which `JSON.parse` does not when a key is written with a backslash.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { parseJson, stringifyJson } from "@gateway/shared/json";
 *
 * const value = parseJson('{"serial":18446744073709551615,"ttl":60}');
 * assert.deepEqual(value, { serial: 18446744073709551615n, ttl: 60 });
 * assert.equal(stringifyJson(value), '{"serial":18446744073709551615,"ttl":60}');
 * ```
 *
 * @module
 */

/** What the engine has and the compiler's library does not describe yet (ECMAScript 2026, JSON source text access). */
interface JsonSourceText {
  rawJSON(text: string): unknown;
  parse(text: string, reviver: (key: string, value: unknown, context: NumberSource) => unknown): unknown;
}

interface NumberSource {
  /** The literal as written; only for numbers, strings, booleans and null. */
  readonly source?: string;
}

const json = JSON as JSON & JsonSourceText;

/** The shortest texts with a number that needs the slow way: 16 digits in a row, or an exponent that may overflow. */
const NEEDS_REVIVER = /\d{16}|\d[eE]\+?\d{3}/;

/**
 * Parses JSON. An integer outside the safe range of `number` becomes a `bigint`, every other number a
 * `number`. A lone surrogate in a string or a key becomes U+FFFD, so that every string can be encoded as
 * UTF-8 and hashed. The last of several equal keys counts.
 *
 * @throws {SyntaxError} when the text is not JSON, nests too deeply, or holds a number beyond any `number`
 */
export function parseJson(text: string): unknown {
  const wellFormed = replaceLoneSurrogates(text);
  if (hasEscapedKey(wellFormed)) return parseStrictly(wellFormed, toExactNumber);
  if (!NEEDS_REVIVER.test(wellFormed)) return JSON.parse(wellFormed);
  try {
    return json.parse(wellFormed, exactNumber);
  } catch (error) {
    // The reviver recurses, unlike the parser; overflowing the stack is the sender's doing, not our fault.
    if (error instanceof RangeError) throw new SyntaxError("JSON is nested too deeply", { cause: error });
    throw error;
  }
}

/**
 * Parses a request from outside as {@linkcode parseJson} does, but rejects an object with two equal keys. Programs
 * disagree on which one counts, so a proxy or an approver could see another request than the one that is decided.
 *
 * @throws {SyntaxError} also when an object has two equal keys
 */
export function parseUniqueJson(text: string): unknown {
  return parseStrictly(replaceLoneSurrogates(text), toExactNumber, { uniqueKeys: true });
}

/**
 * Parses JSON as `JSON.parse` would without its defect: every number becomes a `number`, and lone surrogates stay.
 *
 * @throws {SyntaxError} when the text is not JSON
 */
export function parseStandardJson(text: string): unknown {
  return hasEscapedKey(text) ? parseStrictly(text, Number) : JSON.parse(text);
}

/**
 * The same JSON, safe for a library that calls `JSON.parse`: no key in it is written with a backslash, nor in a text
 * that begins or ends with it.
 *
 * @throws {SyntaxError} when the text is not JSON, or a key can't be written otherwise
 */
export function withPlainKeys(text: string): string {
  // What ends with a string may continue with a colon.
  if (!hasEscapedKey(`${text}:`)) return text;
  const plain = JSON.stringify(parseStandardJson(text));
  if (hasEscapedKey(`${plain}:`)) {
    throw new SyntaxError("JSON has a key with a quote, backslash or control character");
  }
  return plain;
}

/**
 * Writes JSON on one line. A `bigint` is written as its digits; members that are `undefined` are left out.
 * Exact for what {@linkcode parseJson} gives.
 *
 * @throws {TypeError} when the value is `undefined`, a function or a symbol, or refers to itself
 */
export function stringifyJson(value: unknown): string {
  const text: string | undefined = hasBigint(value)
    ? JSON.stringify(value, writeBigint)
    : JSON.stringify(value);
  if (text === undefined) throw new TypeError(`Cannot write ${typeof value} as JSON`);
  return text;
}

function exactNumber(_key: string, value: unknown, { source }: NumberSource): unknown {
  return typeof value === "number" && source !== undefined ? toExactNumber(source, value) : value;
}

function toExactNumber(literal: string, value: number = Number(literal)): number | bigint {
  if (Number.isSafeInteger(value)) return value;
  if (/^-?\d+$/.test(literal)) return BigInt(literal);
  if (!Number.isFinite(value)) throw new SyntaxError("JSON number is out of range");
  return value;
}

/** What `JSON.stringify`, which knows no `bigint`, writes as the digits of one. */
export function writableBigint(integer: bigint): unknown {
  return json.rawJSON(integer.toString());
}

function writeBigint(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? writableBigint(value) : value;
}

/** A look at two levels decides for the common shapes; what lies deeper takes the replacer, which is always right. */
function hasBigint(value: unknown): boolean {
  if (typeof value === "bigint") return true;
  if (typeof value !== "object" || value === null) return false;
  for (const member of Object.values(value)) {
    if (typeof member === "bigint" || (typeof member === "object" && member !== null)) return true;
  }
  return false;
}

/**
 * Text that was decoded from UTF-8 has lone surrogates only as escapes, so they can be found before parsing,
 * in keys too. Every escape is matched whole: in `\\ud800` the `u` belongs to no escape.
 */
function replaceLoneSurrogates(text: string): string {
  if (!text.includes("\\ud") && !text.includes("\\uD")) return text.toWellFormed();
  return text.toWellFormed().replace(
    /\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)/gs,
    (escape: string, lone: string | undefined) => lone === undefined ? escape : "\\ufffd",
  );
}

/** Whether a key is written with a backslash. Exact for JSON; anything else has no right answer. */
export function hasEscapedKey(text: string): boolean {
  // What is outside of strings has no backslash, so the next one is always inside.
  for (let at = text.indexOf("\\"); at !== -1;) {
    const end = endOfString(text, at);
    if (end === undefined) return false;
    if (text[skipBlanks(text, end)] === ":") return true;
    at = text.indexOf("\\", end);
  }
  return false;
}

/** Where the text continues after the string that starts here, or in which this is; `undefined` when it does not end. */
function endOfString(text: string, start: number): number | undefined {
  let quote = text.indexOf('"', start + 1);
  while (quote !== -1 && isEscaped(text, quote)) quote = text.indexOf('"', quote + 1);
  return quote === -1 ? undefined : quote + 1;
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text[at - 1 - backslashes] === "\\") backslashes++;
  return backslashes % 2 === 1;
}

function skipBlanks(text: string, start: number): number {
  let at = start;
  while (text[at] === " " || text[at] === "\n" || text[at] === "\r" || text[at] === "\t") at++;
  return at;
}

/** A list or object that has begun, and the key that the next value belongs to. */
interface Open {
  readonly value: unknown[] | Record<string, unknown>;
  key: string;
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

const WORDS = [["true", true], ["false", false], ["null", null]] as const;

/**
 * Parses JSON (RFC 8259) without the engine's parser of objects: several times as slow, at any depth. The last of
 * several equal keys counts, unless keys must be unique.
 *
 * @param toNumber gives the value of a number as it is written
 * @throws {SyntaxError} when the text is not JSON
 */
function parseStrictly(
  text: string,
  toNumber: (literal: string) => unknown,
  { uniqueKeys = false }: { readonly uniqueKeys?: boolean } = {},
): unknown {
  const scanner = new Scanner(text);
  const open: Open[] = [];
  for (;;) {
    let value: unknown;
    const first = scanner.peek();
    if (first === "{" || first === "[") {
      const isList = first === "[";
      scanner.skip();
      const begun: Open = { value: isList ? [] : emptyObject(), key: "" };
      if (scanner.peek() !== (isList ? "]" : "}")) {
        if (!isList) begun.key = scanner.key();
        open.push(begun);
        continue;
      }
      scanner.skip();
      value = close(begun.value);
    } else value = first === '"' ? scanner.string() : scanner.word(toNumber);
    // Behind a value.
    for (;;) {
      const next = scanner.peek();
      const top = open.at(-1);
      if (top === undefined) return next === undefined ? value : scanner.fail();
      const isList = put(top, value);
      if (next !== "," && next !== (isList ? "]" : "}")) scanner.fail();
      scanner.skip();
      if (next === ",") {
        if (!isList) top.key = scanner.key();
        if (uniqueKeys && !isList && Object.hasOwn(top.value, top.key)) scanner.fail();
        break;
      }
      value = close(top.value);
      open.pop();
    }
  }
}

/** Without prototype, a key can't be the setter of one, and the engine does not remember keys for other objects. */
function emptyObject(): Record<string, unknown> {
  return Object.create(null);
}

/** Adds a value, and gives whether to a list. */
function put({ value: container, key }: Open, value: unknown): boolean {
  if (!Array.isArray(container)) {
    container[key] = value;
    return false;
  }
  container.push(value);
  return true;
}

function close(container: Open["value"]): unknown {
  return Array.isArray(container) ? container : Object.setPrototypeOf(container, Object.prototype);
}

/** Walks over the tokens of a text. */
class Scanner {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** The first character of the next token; `undefined` at the end. */
  peek(): string | undefined {
    this.#at = skipBlanks(this.#text, this.#at);
    return this.#text[this.#at];
  }

  /** Goes past the character that was peeked at. */
  skip(): void {
    this.#at++;
  }

  key(): string {
    const key = this.peek() === '"' ? this.string() : this.fail();
    if (this.peek() !== ":") this.fail();
    this.skip();
    return key;
  }

  string(): string {
    const start = this.#at;
    this.#at = endOfString(this.#text, start) ?? this.fail();
    // What the engine misreads are keys, and a string alone is not one.
    const value: unknown = JSON.parse(this.#text.slice(start, this.#at));
    return typeof value === "string" ? value : this.fail();
  }

  word(toNumber: (literal: string) => unknown): unknown {
    NUMBER.lastIndex = this.#at;
    if (NUMBER.test(this.#text)) {
      const literal = this.#text.slice(this.#at, NUMBER.lastIndex);
      this.#at = NUMBER.lastIndex;
      return toNumber(literal);
    }
    for (const [word, value] of WORDS) {
      if (!this.#text.startsWith(word, this.#at)) continue;
      this.#at += word.length;
      return value;
    }
    return this.fail();
  }

  fail(): never {
    const what = this.#at < this.#text.length ? "Unexpected token" : "Unexpected end";
    throw new SyntaxError(`${what} in JSON at position ${this.#at}`);
  }
}
