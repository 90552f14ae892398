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
import { hasEscapedKey, parseStrictly } from "./strict_json.ts";

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
