/**
 * Config text to value: JSON with comments and trailing commas, nothing else.
 *
 * jsonc-parser cuts the text into tokens; its own `parse` and `visit` can't pause, took twice as long for 10,000 hosts,
 * and keep the last of two equal keys.
 *
 * @module
 */
import { createScanner } from "jsonc-parser";
import { formatKeyPath } from "../text.ts";
import type { Steps } from "../clock.ts";
import { type ConfigObject, createConfigObject, isConfigObject } from "./problems.ts";

/** The outcome of {@linkcode parseJsonc}. */
type JsoncResult =
  | {
    readonly kind: "ok";
    /** Without the entries of large maps. */
    readonly value: ConfigObject;
    /** Keys that stand twice in one object, or that no config may have; one message each. */
    readonly problems: readonly string[];
  }
  | { readonly kind: "malformed"; readonly problem: string };

/** From where to where something stands in a text. */
interface TextRange {
  readonly start: number;
  readonly end: number;
}

/** Takes the entries of a large map, also of a text that turns out to be malformed further on. */
interface EntryTaker {
  /** @param range absent where it is no object */
  take(name: string, entry: unknown, range?: TextRange): void;
  /** Takes the object that begins there unread, where it is known; gives its end then. */
  takeKnown?(name: string, start: number): number | undefined;
}

/** How many tokens are read in one step: fewer than a host has, whose check takes longest. */
const TOKENS_A_STEP = 16;
/** Deeper than any config; those who read the value recurse. */
const MAX_DEPTH = 64;
const KEYWORDS: ReadonlyMap<string, unknown> = new Map([["true", true], ["false", false], ["null", null]]);
/** What the scanner can find wrong with a token, by its number. */
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
 * Parses the text of a config. Two equal keys in one object are a problem at any depth, written with escapes
 * or not: which of them counts would depend on who reads the file.
 *
 * @param large who takes the entries of maps at the top that may have very many of them, by the map's key; they are
 *   not kept
 */
export function* parseJsonc(text: string, large: ReadonlyMap<string, EntryTaker>): Steps<JsoncResult> {
  if (text.startsWith("\uFEFF")) return malformed("the file starts with a byte order mark; save it without");
  if (text.trim() === "") return malformed("the file is empty");
  const reader = new ConfigReader(text, large);
  try {
    for (let tokens = 1; reader.take(); tokens++) {
      if (tokens % TOKENS_A_STEP === 0) yield;
    }
  } catch (error) {
    if (error instanceof MalformedText) return malformed(error.message);
    throw error;
  }
  const { value, problems } = reader;
  if (!isConfigObject(value)) return malformed("expected an object { … }");
  // What is not a map stays, to be complained about.
  for (const key of large.keys()) if (isConfigObject(value[key])) delete value[key];
  return { kind: "ok", value, problems };
}

function malformed(problem: string): JsoncResult {
  return { kind: "malformed", problem };
}

class MalformedText extends Error {}

/** An object or list whose end is still to come. */
interface Container {
  readonly value: ConfigObject | unknown[];
  readonly start: number;
  /** In an object: the newest key. */
  key: string;
}

/**
 * What may come next: `first` and `next` are the member, or the end, of a container that has just begun or just had a
 * comma; `comma` is a comma or the end.
 */
type Expected = "value" | "first" | "next" | "colon" | "comma" | "nothing";

/** Puts the value of a text together, token by token. */
class ConfigReader {
  value: unknown;
  readonly problems: string[] = [];
  readonly #text: string;
  readonly #scanner: ReturnType<typeof createScanner>;
  readonly #large: ReadonlyMap<string, EntryTaker>;
  readonly #open: Container[] = [];
  #expected: Expected = "value";

  constructor(text: string, large: ReadonlyMap<string, EntryTaker>) {
    this.#text = text;
    this.#large = large;
    this.#scanner = createScanner(text, false);
  }

  /**
   * Takes the next token.
   *
   * @returns false at the end of the text
   * @throws {MalformedText} when it has no place there
   */
  take(): boolean {
    this.#scanner.scan();
    const fault = TOKEN_FAULTS[this.#scanner.getTokenError()];
    if (fault !== undefined) throw this.#malformed(fault);
    const token = this.#scanner.getTokenValue();
    const mark = this.#text[this.#scanner.getTokenOffset()];
    switch (mark) {
      case undefined:
        if (this.#expected !== "nothing") throw this.#unexpected(mark);
        return false;
      case " ":
      case "\t":
      case "\n":
      case "\r":
        return true;
      case "/":
        if (token === mark) throw this.#malformed("invalid symbol");
        return true;
      case "{":
        if (!this.#passKnown(mark)) this.#begin(mark, createConfigObject());
        return true;
      case "[":
        this.#begin(mark, []);
        return true;
      case "}":
      case "]":
        this.#end(mark);
        return true;
      case ":":
      case ",":
        if (this.#expected !== (mark === ":" ? "colon" : "comma")) throw this.#unexpected(mark);
        this.#expected = mark === ":" ? "value" : "next";
        return true;
      case '"':
        this.#takeText(token);
        return true;
      default:
        this.#takeLiteral(mark, token);
        return true;
    }
  }

  get #top(): Container | undefined {
    return this.#open.at(-1);
  }

  get #mayBeMember(): boolean {
    return this.#expected === "first" || this.#expected === "next";
  }

  #takeLiteral(mark: string, token: string): void {
    const number = /[-\d]/.test(mark) ? Number(token) : NaN;
    const value = KEYWORDS.has(token) ? KEYWORDS.get(token) : number;
    if (Number.isNaN(value)) throw this.#malformed("invalid symbol");
    this.#add(mark, value);
    this.#complete(value);
  }

  #takeText(text: string): void {
    const top = this.#top;
    const isKey = this.#mayBeMember && isConfigObject(top?.value);
    if (!isKey) this.#add('"', text);
    if (!text.isWellFormed()) throw this.#malformed("half of a surrogate pair");
    if (isKey && top !== undefined) this.#takeKey(top, text);
    else this.#complete(text);
  }

  #takeKey(top: Container, key: string): void {
    top.key = key;
    this.#expected = "colon";
    const isRepeated = Object.hasOwn(top.value, key);
    if (!isRepeated && key !== "__proto__") return;
    const path = formatKeyPath(
      this.#open.map(({ value, key }) => Array.isArray(value) ? value.length - 1 : key),
    );
    if (isRepeated) {
      this.problems.push(`duplicate key "${path}" in line ${this.#place().line}`);
    }
    // Assigned by libraries to ordinary objects it would change their prototype.
    if (key === "__proto__") this.problems.push(`key "${path}" is not allowed`);
  }

  #begin(mark: string, value: ConfigObject | unknown[]): void {
    this.#add(mark, value);
    const start = this.#scanner.getTokenOffset();
    if (this.#open.push({ value, start, key: "" }) > MAX_DEPTH) throw new MalformedText("nested too deeply");
    this.#expected = "first";
  }

  #end(mark: "}" | "]"): void {
    const isFitting = isConfigObject(this.#top?.value) === (mark === "}");
    if (!isFitting || !this.#mayBeMember && this.#expected !== "comma") throw this.#unexpected(mark);
    const ended = this.#open.pop();
    const end = this.#scanner.getTokenOffset() + mark.length;
    this.#complete(
      ended?.value,
      mark === "}" && ended !== undefined ? { start: ended.start, end } : undefined,
    );
  }

  /** Passes over an entry of a large map that is known. */
  #passKnown(mark: string): boolean {
    const name = this.#top?.key;
    if (this.#expected !== "value" || name === undefined) return false;
    const end = this.#taker?.takeKnown?.(name, this.#scanner.getTokenOffset());
    if (end === undefined) return false;
    this.#add(mark, undefined);
    this.#scanner.setPosition(end);
    this.#expected = "comma";
    return true;
  }

  /** Puts a value that has begun where it belongs. */
  #add(mark: string, value: unknown): void {
    const top = this.#top;
    if (this.#expected !== "value" && !(this.#mayBeMember && Array.isArray(top?.value))) {
      throw this.#unexpected(mark);
    }
    if (top === undefined) this.value = value;
    else if (Array.isArray(top.value)) top.value.push(value);
    // Of an entry of a large map only the name is kept: it could stand there again.
    else if (top.key !== "__proto__") top.value[top.key] = this.#taker === undefined ? value : undefined;
  }

  #complete(value: unknown, range?: TextRange): void {
    this.#expected = this.#open.length === 0 ? "nothing" : "comma";
    const name = this.#top?.key;
    if (name !== undefined && name !== "__proto__") this.#taker?.take(name, value, range);
  }

  /** Who takes what stands at this place: an entry of a large map. */
  get #taker(): EntryTaker | undefined {
    const [top, map, inner] = this.#open;
    const isEntry = inner === undefined && isConfigObject(map?.value);
    return isEntry && top !== undefined ? this.#large.get(top.key) : undefined;
  }

  /** The fault of a token in a wrong place; `undefined` is the end of the text. */
  #unexpected(mark: string | undefined): MalformedText {
    const isObject = isConfigObject(this.#top?.value);
    const end = isObject ? "close brace expected" : "close bracket expected";
    switch (this.#expected) {
      case "value":
        return this.#malformed("value expected");
      case "first":
        if (mark === undefined) return this.#malformed(end);
        return this.#malformed(isObject && mark !== "," ? "property name expected" : "value expected");
      case "next":
        return this.#malformed(isObject ? "property name expected" : "value expected");
      case "colon":
        return this.#malformed("colon expected");
      case "comma":
        return this.#malformed(mark === undefined ? end : "comma expected");
      case "nothing":
        return this.#malformed("end of file expected");
      default:
        return this.#expected satisfies never;
    }
  }

  #malformed(what: string): MalformedText {
    const { line, column } = this.#place();
    return new MalformedText(`line ${line}, column ${column}: ${what}`);
  }

  /** Where the token begins; the scanner has not counted the lines that were passed over. */
  #place(): { readonly line: number; readonly column: number } {
    const lines = this.#text.slice(0, this.#scanner.getTokenOffset()).split(/\r\n|\r|\n/);
    return { line: lines.length, column: (lines.at(-1) ?? "").length + 1 };
  }
}

/** A map that was checked, and where its entries stand in the text. */
export interface WrittenMap {
  readonly text: string;
  readonly ranges: ReadonlyMap<string, TextRange>;
  readonly entries: ConfigObject;
}

/** What a {@linkcode LargeMap} works with. */
interface LargeMapOptions {
  readonly text: string;
  /** The entry with its defaults, in an object of its own; nothing in it after problems, or where it is a comment. */
  readonly check: (name: string, entry: unknown) => ConfigObject;
  /** The map of the text before; it was checked by the same rules, and had no problems. */
  readonly before?: WrittenMap | undefined;
}

/** Collects the entries. */
export class LargeMap implements EntryTaker {
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
    // From its brace to the one that closes it: what begins so ends there, whatever follows.
    const known = before.text.slice(range.start, range.end);
    if (!text.startsWith(known, start)) return undefined;
    this.#isThere = true;
    this.#entries[name] = before.entries[name];
    const end = start + known.length;
    this.#ranges.set(name, { start, end });
    return end;
  }

  /** The map as it is by now; `undefined` where no entry has come. */
  get written(): WrittenMap | undefined {
    if (!this.#isThere) return undefined;
    return { text: this.#options.text, ranges: this.#ranges, entries: this.#entries };
  }
}
