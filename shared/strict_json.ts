/**
 * JSON whose keys are written with a backslash, which the engine can't be trusted with: V8 13 to 15 compares such
 * a key as it is written with the key that came next in an earlier object (https://issues.chromium.org/issues/521080746).
 * After `{"k":1,"\\":2}` it reads the second key of `{"k":1,"\u0061":2}` as a backslash, so that the text of one
 * peer changes what another's means.
 *
 * @module
 */

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
export function parseStrictly(
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
