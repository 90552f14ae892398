/**
 * Config text to value: JSON with comments and trailing commas, nothing else.
 *
 * @module
 */
import { type ParseErrorCode, printParseErrorCode, visit } from "jsonc-parser";
import type { Steps } from "../steps.ts";
import { type ConfigObject, createConfigObject, isConfigObject, type ParsedConfig } from "./config_object.ts";
import { formatKeyPath, type KeyPath } from "../key_path.ts";
import { parsePlainJson } from "./plain_json.ts";

/** The outcome of {@linkcode parseJsonc}. */
export type JsoncResult =
  | ParsedConfig & {
    readonly kind: "ok";
    /** Keys that stand twice in one object, or that no config may have; one message each. */
    readonly problems: readonly string[];
  }
  | { readonly kind: "malformed"; readonly problem: string };

/**
 * Parses the text of a config. Two equal keys in one object are a problem at any depth, written with escapes
 * or not: which of them counts would depend on who reads the file.
 *
 * @param large keys at the top whose maps may have very many entries
 */
export function* parseJsonc(text: string, large: readonly string[]): Steps<JsoncResult> {
  const plain = yield* parsePlainJson(text, large);
  return plain === undefined ? parseExactly(text, large) : { kind: "ok", ...plain, problems: [] };
}

/** {@linkcode parseJsonc} at once, and with a message for every fault. */
export function parseExactly(text: string, large: readonly string[]): JsoncResult {
  if (text.startsWith("\uFEFF")) return malformed("the file starts with a byte order mark; save it without");
  if (text.trim() === "") return malformed("the file is empty");
  const builder = new ValueBuilder();
  try {
    visit(text, builder, { allowTrailingComma: true });
  } catch (error) {
    // The parser recurses once a level.
    if (error instanceof RangeError) return malformed("nested too deeply");
    throw error;
  }
  if (builder.malformed !== undefined) return malformed(builder.malformed);
  if (!isConfigObject(builder.value)) return malformed("expected an object { … }");
  return { kind: "ok", ...takeLarge(builder.value, large), problems: builder.problems };
}

/** What is not a map stays, to be complained about. */
function takeLarge(value: ConfigObject, keys: readonly string[]): ParsedConfig {
  const large = new Map<string, Iterable<readonly [string, unknown]>>();
  for (const key of keys) {
    const entries = value[key];
    if (!isConfigObject(entries)) continue;
    large.set(key, Object.entries(entries));
    delete value[key];
  }
  return { value, large };
}

function malformed(problem: string): JsoncResult {
  return { kind: "malformed", problem };
}

/** The parser's visitor: puts the value together and remembers the first syntax error and all repeated keys. */
class ValueBuilder {
  value: unknown;
  malformed: string | undefined;
  readonly problems: string[] = [];
  readonly #open: { readonly container: ConfigObject | unknown[]; key: string }[] = [];

  readonly onObjectBegin = (): void => this.#begin(createConfigObject());
  readonly onArrayBegin = (): void => this.#begin([]);
  readonly onObjectEnd = (): void => this.#end();
  readonly onArrayEnd = (): void => this.#end();

  readonly onObjectProperty = (
    key: string,
    _offset: number,
    _length: number,
    line: number,
    character: number,
    parentPath: () => KeyPath,
  ): void => {
    this.#checkText(key, line, character);
    const top = this.#open.at(-1);
    if (top === undefined) return;
    top.key = key;
    const path = formatKeyPath([...parentPath(), key]);
    if (Object.hasOwn(top.container, key)) this.problems.push(`duplicate key "${path}" in line ${line + 1}`);
    // Assigned by libraries to ordinary objects it would change their prototype.
    if (key === "__proto__") this.problems.push(`key "${path}" is not allowed`);
  };

  readonly onLiteralValue = (
    value: unknown,
    _offset: number,
    _length: number,
    line: number,
    character: number,
  ): void => {
    if (typeof value === "string") this.#checkText(value, line, character);
    this.#add(value);
  };

  readonly onError = (
    error: ParseErrorCode,
    _offset: number,
    _length: number,
    line: number,
    character: number,
  ): void => this.#fail(describe(error), line, character);

  #begin(container: ConfigObject | unknown[]): void {
    this.#add(container);
    this.#open.push({ container, key: "" });
  }

  #end(): void {
    this.#open.pop();
  }

  #add(value: unknown): void {
    const top = this.#open.at(-1);
    if (top === undefined) this.value = value;
    else if (Array.isArray(top.container)) top.container.push(value);
    else if (top.key !== "__proto__") top.container[top.key] = value;
  }

  #checkText(text: string, line: number, character: number): void {
    if (!text.isWellFormed()) this.#fail("half of a surrogate pair", line, character);
  }

  /** The first error is the cause; those after it are often its consequences. */
  #fail(what: string, line: number, character: number): void {
    this.malformed ??= `line ${line + 1}, column ${character + 1}: ${what}`;
  }
}

/** `CommaExpected` becomes `comma expected`. */
function describe(error: ParseErrorCode): string {
  return printParseErrorCode(error).replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
}
