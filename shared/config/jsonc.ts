/**
 * Config text to value: JSON with comments and trailing commas, nothing else.
 *
 * jsonc-parser splits the text into tokens. Its own `parse` and `visit` cannot pause, took twice as long for 10,000
 * hosts, and keep the last of two equal keys.
 *
 * @module
 */
import { createScanner } from "jsonc-parser";
import { formatKeyPath } from "../text.ts";
import type { Steps } from "../clock.ts";
import { isObject } from "../json.ts";
import { type ConfigObject, createConfigObject } from "./problems.ts";

/**
 * The result of parsing. `problems` are repeated or forbidden keys. `value` omits the entries of large maps.
 */
type JsoncResult =
  | { readonly kind: "ok"; readonly value: ConfigObject; readonly problems: readonly string[] }
  | { readonly kind: "malformed"; readonly problem: string };

interface TextRange {
  readonly start: number;
  readonly end: number;
}

/** The maximum depth, which exceeds that of any config. Readers of the value are recursive. */
const MAX_DEPTH = 64;
/**
 * Objects up to this depth allow a pause between their members. After known entries, the pauses are less
 * frequent.
 */
const PAUSING_DEPTH = 2;
const KNOWN_A_PAUSE = 1000;
const KEYWORDS: ReadonlyMap<string, unknown> = new Map([["true", true], ["false", false], ["null", null]]);
/** The scanner's errors by number. */
const TOKEN_FAULTS: readonly (string | undefined)[] = [
  undefined,
  "unexpected end of comment",
  "unexpected end of string",
  "unexpected end of number",
  "invalid unicode",
  "invalid escape character",
  "invalid character",
];

/**
 * Parses the text of a config. Two equal keys in one object are a problem at any depth, with or without escapes: readers
 * could disagree on the one that counts.
 *
 * @param large receives the entries of maps at the top that may be very large, by the map's key
 */
export function* parseJsonc(text: string, large: ReadonlyMap<string, LargeMap>): Steps<JsoncResult> {
  if (text.startsWith("\uFEFF")) return malformed("the file starts with a byte order mark; save it without");
  if (text.trim() === "") return malformed("the file is empty");
  const reader = new ConfigReader(text, large);
  try {
    const value = yield* reader.read();
    if (!isObject(value)) return malformed("expected an object { … }");
    // A value that is not a map stays in the config and is rejected later.
    const kept = Object.entries(value).filter(([key, member]) => !large.has(key) || !isObject(member));
    return {
      kind: "ok",
      value: Object.assign(createConfigObject(), Object.fromEntries(kept)),
      problems: reader.problems,
    };
  } catch (error) {
    if (error instanceof MalformedText) return malformed(error.message);
    throw error;
  }
}

function malformed(problem: string): JsoncResult {
  return { kind: "malformed", problem };
}

class MalformedText extends Error {}

/** Reads a text by recursive descent. */
class ConfigReader {
  readonly problems: string[] = [];
  readonly #text: string;
  readonly #scanner: ReturnType<typeof createScanner>;
  readonly #large: ReadonlyMap<string, LargeMap>;
  readonly #path: (string | number)[] = [];
  /**
   * The current token: its first character, `"` for a text, `0` for another plain value; undefined at the
   * end.
   */
  #mark: string | undefined;
  /** The value of the current token if it is a text or another plain value. */
  #plain: unknown;
  #known = 0;

  constructor(text: string, large: ReadonlyMap<string, LargeMap>) {
    this.#text = text;
    this.#large = large;
    this.#scanner = createScanner(text, false);
  }

  *read(): Steps<unknown> {
    this.#next();
    const value = yield* this.#value();
    if (this.#next() !== undefined) throw this.#malformed("end of file expected");
    return value;
  }

  #next(): string | undefined {
    for (;;) {
      this.#scanner.scan();
      const fault = TOKEN_FAULTS[this.#scanner.getTokenError()];
      if (fault !== undefined) throw this.#malformed(fault);
      const token = this.#scanner.getTokenValue();
      this.#mark = this.#text[this.#scanner.getTokenOffset()];
      switch (this.#mark) {
        case " ":
        case "\t":
        case "\n":
        case "\r":
          continue;
        case "/":
          if (token === "/") throw this.#malformed("invalid symbol");
          continue;
        case '"':
          this.#plain = token;
          return this.#mark;
        case undefined:
        case "{":
        case "}":
        case "[":
        case "]":
        case ":":
        case ",":
          return this.#mark;
      }
      this.#plain = /[-\d]/.test(this.#mark)
        ? Number(token)
        : KEYWORDS.has(token)
        ? KEYWORDS.get(token)
        : NaN;
      if (Number.isNaN(this.#plain)) throw this.#malformed("invalid symbol");
      return this.#mark = "0";
    }
  }

  /** The value that begins with the current token. */
  *#value(): Steps<unknown> {
    switch (this.#mark) {
      case "{":
        return yield* this.#object();
      case "[":
        return yield* this.#list();
      case '"':
        return this.#wellFormed();
      case "0":
        return this.#plain;
      default:
        throw this.#malformed("value expected");
    }
  }

  #wellFormed(): string {
    const text = String(this.#plain);
    if (text.isWellFormed()) return text;
    throw this.#malformed("half of a surrogate pair");
  }

  *#list(): Steps<unknown[]> {
    const list: unknown[] = [];
    this.#checkDepth();
    for (this.#next(); this.#mark !== "]"; this.#next()) {
      if (this.#mark === undefined && list.length === 0) throw this.#malformed("close bracket expected");
      this.#path.push(list.length);
      list.push(yield* this.#value());
      this.#path.pop();
      if (this.#isEnd("]", "close bracket expected")) break;
    }
    return list;
  }

  *#object(): Steps<ConfigObject> {
    const object = createConfigObject();
    const depth = this.#path.length;
    const taker = depth === 1 ? this.#large.get(String(this.#path[0])) : undefined;
    this.#checkDepth();
    let isFirst = true;
    for (this.#next(); this.#mark !== "}"; this.#next()) {
      const key = this.#key(object, isFirst);
      isFirst = false;
      this.#path.push(key);
      if (this.#next() !== ":") throw this.#malformed("colon expected");
      const isBlock = this.#next() === "{";
      const start = this.#scanner.getTokenOffset();
      const end = isBlock ? taker?.takeKnown(key, start) : undefined;
      if (end !== undefined) this.#scanner.setPosition(end);
      const value = end === undefined ? yield* this.#value() : undefined;
      if (key !== "__proto__") {
        const range = isObject(value) ? { start, end: this.#scanner.getPosition() } : undefined;
        if (end === undefined) taker?.take(key, value, range);
        // For an entry of a large map, keep only the name, to find it later.
        object[key] = taker === undefined ? value : undefined;
      }
      this.#path.pop();
      const pauses = end === undefined || ++this.#known % KNOWN_A_PAUSE === 0;
      if (depth < PAUSING_DEPTH && pauses) yield;
      if (this.#isEnd("}", "close brace expected")) break;
    }
    return object;
  }

  #key(object: ConfigObject, isFirst: boolean): string {
    if (this.#mark !== '"') {
      if (isFirst && this.#mark === undefined) throw this.#malformed("close brace expected");
      throw this.#malformed(isFirst && this.#mark === "," ? "value expected" : "property name expected");
    }
    const key = this.#wellFormed();
    const path = () => formatKeyPath([...this.#path, key]);
    if (Object.hasOwn(object, key)) {
      this.problems.push(`duplicate key "${path()}" in line ${this.#place().line}`);
    }
    // Libraries that assign this key to ordinary objects would change their prototype.
    if (key === "__proto__") this.problems.push(`key "${path()}" is not allowed`);
    return key;
  }

  #checkDepth(): void {
    if (this.#path.length >= MAX_DEPTH) throw new MalformedText("nested too deeply");
  }

  /** Reads the comma after a member, or the end of its container. */
  #isEnd(close: "]" | "}", missing: string): boolean {
    const mark = this.#next();
    if (mark !== close && mark !== ",") {
      throw this.#malformed(mark === undefined ? missing : "comma expected");
    }
    return mark === close;
  }

  #malformed(what: string): MalformedText {
    const { line, column } = this.#place();
    return new MalformedText(`line ${line}, column ${column}: ${what}`);
  }

  /** The place where the token begins. The scanner does not count the lines of skipped values. */
  #place(): { readonly line: number; readonly column: number } {
    const lines = this.#text.slice(0, this.#scanner.getTokenOffset()).split(/\r\n|\r|\n/);
    return { line: lines.length, column: (lines.at(-1) ?? "").length + 1 };
  }
}

/** A checked map, and the places of its entries in the text. */
export interface WrittenMap {
  readonly text: string;
  readonly ranges: ReadonlyMap<string, TextRange>;
  readonly entries: ConfigObject;
}

interface LargeMapOptions {
  readonly text: string;
  /** The entry with defaults, in an object; an empty one for an invalid entry or a comment. */
  readonly check: (name: string, entry: unknown) => ConfigObject;
  /** The map of the previous text, checked by the same rules and valid. */
  readonly before?: WrittenMap | undefined;
}

/** Receives the entries of a large map, even if the text is malformed after the map. */
export class LargeMap {
  readonly #options: LargeMapOptions;
  readonly #ranges = new Map<string, TextRange>();
  readonly #entries = createConfigObject();
  #isThere = false;

  constructor(options: LargeMapOptions) {
    this.#options = options;
  }

  take(name: string, entry: unknown, range?: TextRange): void {
    this.#isThere = true;
    const checked = this.#options.check(name, entry);
    if (!Object.hasOwn(checked, name)) return;
    this.#entries[name] = checked[name];
    if (range !== undefined) this.#ranges.set(name, range);
  }

  takeKnown(name: string, start: number): number | undefined {
    const { text, before } = this.#options;
    const range = before?.ranges.get(name);
    if (before === undefined || range === undefined) return undefined;
    // The text from the opening to the closing brace is the same, so the entry ends there, whatever follows.
    const known = before.text.slice(range.start, range.end);
    if (!text.startsWith(known, start)) return undefined;
    this.#isThere = true;
    this.#entries[name] = before.entries[name];
    const end = start + known.length;
    this.#ranges.set(name, { start, end });
    return end;
  }

  /** The map so far; `undefined` without entries. */
  get written(): WrittenMap | undefined {
    if (!this.#isThere) return undefined;
    return { text: this.#options.text, ranges: this.#ranges, entries: this.#entries };
  }
}
