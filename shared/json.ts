/**
 * Parses and writes all JSON of this project. It keeps 64-bit integers exact, which `JSON.parse` and
 * `JSON.stringify` corrupt: certificate serials are random 64-bit numbers. The result never depends on JSON
 * that was parsed before, while `JSON.parse` of Deno's engine can confuse keys that are written with a
 * backslash.
 *
 * @module
 */

/** ECMAScript 2026, JSON source text access, which the compiler's library lacks. */
const json = JSON as JSON & {
  rawJSON(text: string): unknown;
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown;
};

/** 16 digits in a row, or an exponent that may overflow. */
const NEEDS_REVIVER = /\d{16}|\d[eE]\+?\d{3}/;

/**
 * Parses JSON. An integer outside the safe range of `number` becomes a `bigint`. A lone surrogate becomes U+FFFD, so that
 * every string can be encoded as UTF-8 and hashed. The last of several equal keys counts.
 *
 * @throws {SyntaxError} if the text is not JSON, nests too deeply, or has a number beyond any `number`
 */
export function parseJson(text: string): unknown {
  const wellFormed = replaceLoneSurrogates(text);
  if (hasEscapedKey(wellFormed)) return parseStrictly(wellFormed, toExactNumber);
  if (!NEEDS_REVIVER.test(wellFormed)) return JSON.parse(wellFormed);
  try {
    return json.parse(
      wellFormed,
      (_key: string, value: unknown, { source }: { readonly source?: string }) =>
        typeof value === "number" && source !== undefined ? toExactNumber(source, value) : value,
    );
  } catch (error) {
    // Unlike the parser, the reviver is recursive. The sender of the JSON causes a stack overflow, so report
    // it as a syntax error.
    if (error instanceof RangeError) throw new SyntaxError("JSON is nested too deeply", { cause: error });
    throw error;
  }
}

/**
 * {@linkcode parseJson} for a request from outside: rejects an object with two equal keys. Programs disagree on which
 * one counts, so a proxy or an approver could see another request than the decided one.
 *
 * @throws {SyntaxError} also for two equal keys
 */
export function parseUniqueJson(text: string): unknown {
  return parseStrictly(replaceLoneSurrogates(text), toExactNumber, { uniqueKeys: true });
}

/** Parses JSON as `JSON.parse` should: every number becomes a `number`, and lone surrogates stay. */
export function parseStandardJson(text: string): unknown {
  return hasEscapedKey(text) ? parseStrictly(text, Number) : JSON.parse(text);
}

/** An object of JSON. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Whether a value is an object, and neither a list nor `null`. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The same JSON for a library that calls `JSON.parse`: no key in it is written with a backslash, nor in a text that
 * begins or ends with it.
 *
 * @throws {SyntaxError} if the text is not JSON, or a key needs a backslash
 */
export function withPlainKeys(text: string): string {
  // The caller may insert the text before a colon, which makes its last string a key.
  if (!hasEscapedKey(`${text}:`)) return text;
  const plain = JSON.stringify(parseStandardJson(text));
  if (hasEscapedKey(`${plain}:`)) {
    throw new SyntaxError("JSON has a key with a quote, backslash or control character");
  }
  return plain;
}

/**
 * Writes JSON on one line. A `bigint` becomes its digits.
 *
 * @throws {TypeError} for `undefined`, a function, a symbol, or a value that contains itself
 */
export function stringifyJson(value: unknown): string {
  const write = (_key: string, member: unknown) =>
    typeof member === "bigint" ? writableBigint(member) : member;
  const text: string | undefined = JSON.stringify(value, mayHaveBigint(value) ? write : undefined);
  if (text === undefined) throw new TypeError(`Cannot write ${typeof value} as JSON`);
  return text;
}

function toExactNumber(literal: string, value: number = Number(literal)): number | bigint {
  if (Number.isSafeInteger(value)) return value;
  if (/^-?\d+$/.test(literal)) return BigInt(literal);
  if (!Number.isFinite(value)) throw new SyntaxError("JSON number is out of range");
  return value;
}

/** Wraps an integer in a value that `JSON.stringify` writes as its digits. */
export function writableBigint(integer: bigint): unknown {
  return json.rawJSON(integer.toString());
}

/** Flat objects of other values, the common case, need no replacer. */
function mayHaveBigint(value: unknown): boolean {
  const isDeep = (member: unknown) =>
    typeof member === "bigint" || (typeof member === "object" && member !== null);
  if (typeof value !== "object" || value === null) return isDeep(value);
  return Object.values(value).some(isDeep);
}

/**
 * Text that was decoded from UTF-8 has lone surrogates only as escapes. Every escape is matched whole: in `\\ud800` the
 * `u` belongs to no escape.
 */
function replaceLoneSurrogates(text: string): string {
  if (!text.includes("\\ud") && !text.includes("\\uD")) return text.toWellFormed();
  return text.toWellFormed().replace(
    /\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)/gs,
    (escape: string, lone: string | undefined) => lone === undefined ? escape : "\\ufffd",
  );
}

/** Whether a key is written with a backslash. Exact for JSON. */
export function hasEscapedKey(text: string): boolean {
  // Outside of strings JSON has no backslash.
  for (let at = text.indexOf("\\"); at !== -1;) {
    const end = endOfString(text, at);
    if (end === undefined) return false;
    if (text[skipBlanks(text, end)] === ":") return true;
    at = text.indexOf("\\", end);
  }
  return false;
}

/** The offset after the string that starts or continues here; `undefined` if it does not end. */
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

/** An unfinished list or object, and the key of its next value. */
interface Open {
  readonly value: unknown[] | Record<string, unknown>;
  key: string;
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

const WORDS = [["true", true], ["false", false], ["null", null]] as const;

/**
 * Parses JSON (RFC 8259) without the engine's parser of objects, at any depth. It is several times slower. The last of
 * several equal keys counts, unless keys must be unique.
 */
function parseStrictly(
  text: string,
  toNumber: (literal: string) => unknown,
  { uniqueKeys = false }: { readonly uniqueKeys?: boolean } = {},
): unknown {
  let at = 0;
  const fail: () => never = () => {
    const what = at < text.length ? "Unexpected token" : "Unexpected end";
    throw new SyntaxError(`${what} in JSON at position ${at}`);
  };
  const peek = () => text[at = skipBlanks(text, at)];
  const readString = (): string => {
    const start = at;
    at = endOfString(text, start) ?? fail();
    // The engine misreads only keys. A string alone is not a key.
    const value: unknown = JSON.parse(text.slice(start, at));
    return typeof value === "string" ? value : fail();
  };
  const readKey = (): string => {
    const key = peek() === '"' ? readString() : fail();
    if (peek() !== ":") fail();
    at++;
    return key;
  };
  const readWord = (): unknown => {
    NUMBER.lastIndex = at;
    const start = at;
    if (NUMBER.test(text)) return toNumber(text.slice(start, at = NUMBER.lastIndex));
    const [word, value] = WORDS.find(([word]) => text.startsWith(word, at)) ?? fail();
    at += word.length;
    return value;
  };
  const open: Open[] = [];
  for (;;) {
    let value: unknown;
    const first = peek();
    if (first === "{" || first === "[") {
      const isList = first === "[";
      at++;
      // Without a prototype, no key can call the setter of `__proto__`, and the engine does not share keys
      // between objects.
      const begun: Open = { value: isList ? [] : Object.create(null), key: "" };
      if (peek() !== (isList ? "]" : "}")) {
        if (!isList) begun.key = readKey();
        open.push(begun);
        continue;
      }
      at++;
      value = close(begun.value);
    } else value = first === '"' ? readString() : readWord();
    // After a value.
    for (;;) {
      const next = peek();
      const top = open.at(-1);
      if (top === undefined) return next === undefined ? value : fail();
      const isList = Array.isArray(top.value);
      if (Array.isArray(top.value)) top.value.push(value);
      else top.value[top.key] = value;
      if (next !== "," && next !== (isList ? "]" : "}")) fail();
      at++;
      if (next === ",") {
        if (!isList) top.key = readKey();
        if (uniqueKeys && !isList && Object.hasOwn(top.value, top.key)) fail();
        break;
      }
      value = close(top.value);
      open.pop();
    }
  }
}

function close(container: Open["value"]): unknown {
  return Array.isArray(container) ? container : Object.setPrototypeOf(container, Object.prototype);
}
