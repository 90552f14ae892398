// The parts of the rules in the catalog: steps that lead to a secret, and the extents of secrets.

/** Position of a secret. */
export interface Place {
  readonly start: number;
  readonly end: number;
}

/**
 * Returns the position after a part of a rule, or `undefined` if the part does not match or its end is
 * unknown.
 */
export type Step = (searched: Searched, at: number) => number | undefined;
/** Finds the secret that starts at a position, or at the hint of its rule. */
export type Value = (searched: Searched, at: number, hint: number) => Place | undefined;

/** White space as RE2 defines it. A value ends only at these characters, because a larger set would mask less. */
export const B = String.raw`\t\n\f\r `;
const BARE = `["'${B}]`;
/** The characters that end a value on one line. */
export const LINE = `["'\\r\\n]`;
/** Matches a position that does not follow a word character, in the same way as RE2. */
export const START = "(?-i:(?<![A-Za-z0-9_]))";
/** Matches a position that no word character follows, in the same way as RE2. */
export const END = "(?-i:(?![A-Za-z0-9_]))";

/** The flag `u` gives the case folding of RE2, where `k` also matches the Kelvin sign. */
export function sticky(source: string): Step {
  const pattern = new RegExp(source, "iuy");
  return ({ text }, at) => {
    pattern.lastIndex = at;
    return pattern.test(text) ? pattern.lastIndex : undefined;
  };
}

/** A step that waits for the following lines: it examines at most `length` characters. */
export function ahead(source: string, length: number): Step {
  const step = sticky(source);
  return (searched, at) =>
    step(searched, at) ?? (searched.isUnfinished(at + length) ? searched.wait(/[^]/) : undefined);
}

/** Skips white space. `least` is the minimum length. */
export function gap(least: 0 | 1): Step {
  const word = /\S/g;
  return (searched, at) => {
    const end = searched.next(word, at);
    if (searched.isUnfinished(end)) return searched.wait(word);
    return end - at >= least ? end : undefined;
  };
}

/** Skips an equals sign or white space. */
export function equalsOrGap(): Step {
  const blanks = gap(1);
  return (searched, at) => searched.text.charAt(at) === "=" ? at + 1 : blanks(searched, at);
}

/** A secret of at least `least` characters that ends before a character of `end`. */
export function until(end: string, least = 1): Value {
  const pattern = new RegExp(end, "g");
  const rest = new RegExp(`(?=${end})`);
  return (searched, start) => {
    const found = searched.next(pattern, start);
    if (searched.isUnfinished(found)) return searched.begin(start, rest);
    return found - start >= least ? { start, end: found } : undefined;
  };
}

/** A secret as in {@linkcode until}, if the character after it is the expected one. */
export function followedBy(expected: string, end: string, least = 1): Value {
  const run = until(end, least);
  return (searched, start, hint) => {
    const place = run(searched, start, hint);
    return place && searched.text.charAt(place.end) === expected ? place : undefined;
  };
}

/** Skips a run of characters and the expected character after them. */
export function upTo(expected: string, end: string, least?: number): Step {
  const run = followedBy(expected, end, least);
  return (searched, at) => {
    const place = run(searched, at, at);
    return place && place.end + 1;
  };
}

/** Each level of JSON in a JSON string doubles the backslashes before a quote, and adds one. */
const QUOTE_DEPTHS = [0, 1, 3, 7];
/** The closing quotes by the opening quote with its backslashes. A quote within the value has other backslashes. */
const SETTING_QUOTES: Readonly<Record<string, RegExp>> = Object.fromEntries(
  QUOTE_DEPTHS.flatMap((depth) =>
    ['"', "'"].map((quote) => {
      const mark = `\\\\{${depth}}${quote}`;
      const end = new RegExp(`${mark}(?<=(?<!\\\\)(?:\\\\{${2 * (depth + 1)}})*${mark})`, "g");
      return ["\\".repeat(depth) + quote, end];
    })
  ),
);
/** In a shell's argument, a backslash does not escape the closing quote. */
const ARGUMENT_QUOTES: Readonly<Record<string, RegExp>> = { ...SETTING_QUOTES, '"': /"/g, "'": /'/g };
const OPENING_QUOTE = /\\{0,7}["']?/y;
const LINE_END = /[\r\n]/g;

/**
 * A quoted or bare secret. Without a closing quote, it ends at the end of the line. The quotes of an argument are
 * masked too. Those of a setting, which may contain escapes, are kept.
 */
function quotedOr(bare: Value, kind: "argument" | "setting"): Value {
  const isArgument = kind === "argument";
  const quotes = isArgument ? ARGUMENT_QUOTES : SETTING_QUOTES;
  return (searched, start) => {
    OPENING_QUOTE.lastIndex = start;
    const [opening = ""] = OPENING_QUOTE.exec(searched.text) ?? [];
    const inside = start + opening.length;
    if (opening.endsWith("\\") && searched.isUnfinished(inside)) return searched.wait(/[^\\]/);
    const quote = quotes[opening];
    if (quote === undefined) return bare(searched, start, start);
    const end = searched.next(quote, inside);
    const from = isArgument ? start : inside;
    if (searched.isUnfinished(end)) return searched.begin(from, quote);
    if (end === searched.text.length) return { start, end: searched.next(LINE_END, start) };
    return { start: from, end: isArgument ? end + opening.length : end };
  };
}

/** A quoted or bare argument of a command. */
export const argument = (): Value => quotedOr(until(BARE), "argument");

/** The number of characters of a line before a value that a rule examines. The streams remember as many. */
const LINE_START = 200;

/** The text before a position on its line. */
function lineBefore({ text }: Searched, at: number): string {
  const before = text.slice(Math.max(0, at - LINE_START), at);
  return before.slice(before.lastIndexOf("\n") + 1);
}

/** Whether the text before a value is a key of YAML, with the space that follows it. */
function isYamlKey(before: string): boolean {
  const key = before.trimEnd();
  return key !== before && key.endsWith(":") && !/[\s:]/.test(key.slice(0, -1).replace(/^[ \t-]+/, ""));
}

const BLOCK = sticky("[|>][-+0-9]{0,2}[ \\t\\r]{0,40}\\n");
const MAX_INDENT = 60;
const BLOCK_ENDS = Array.from({ length: MAX_INDENT + 1 }, (_, indent) => `\\n(?= {0,${indent}}[^ \\r\\n])`);

/**
 * A quoted value, a block or a plain value of YAML or of `kubectl describe`, or a bare value that ends before a
 * character of `end`.
 */
export function setting(end: string): Value {
  const [bare, sentence] = [until(end), until("[,;\"'\\r\\n]")];
  const blocks = BLOCK_ENDS.map((blockEnd) => until(blockEnd));
  return quotedOr((searched, start) => {
    const { text } = searched;
    // `kubectl describe` names the Secret instead of the value.
    if (text.startsWith("<set to the key ", start)) return undefined;
    const before = lineBefore(searched, start);
    const indent = Math.min(/^[ -]*/.exec(before)?.[0].length ?? 0, MAX_INDENT);
    const from = BLOCK(searched, start);
    if (from !== undefined) return blocks[indent]?.(searched, from, start);
    const isKey = isYamlKey(before);
    if ((isKey ? "[{" : "[{>=`,;").includes(text.charAt(start))) return undefined;
    if (!isKey) return bare(searched, start, start);
    // A top-level key also begins sentences, which a comma or semicolon divides. The value of an indented key can
    // continue on lines that are indented more.
    return (indent === 0 ? sentence : blocks[indent])?.(searched, start, start);
  }, "setting");
}

/** The next item of a list, if an item is only an option: in JSON, in YAML, and as `kubectl describe` prints it. */
export function nextItem(): Value {
  const item = sticky(
    `\\\\{0,7}["'],\\s{0,120}(?=\\\\{0,7}["'](?!-))` +
      `|["']?[ \\t\\r]{0,40}\\n(?<=(?<![^\\n])[ \\t]{0,120}(?:- )?["']?-[^\\s"']{1,80}["']?[ \\t\\r]{0,40}\\n)` +
      `[ \\t]{0,120}(?=(?:- )?[^\\s-])`,
  );
  const value = quotedOr(until("[\\r\\n]"), "setting");
  return (searched, at, hint) => {
    const start = item(searched, at);
    if (start !== undefined) return value(searched, start, hint);
    return /^[\\"',\s]*(?:- )?$/.test(searched.text.slice(at, at + LINE_START)) &&
        searched.isUnfinished(at + LINE_START)
      ? searched.wait(/[^\\"',\s-]/)
      : undefined;
  };
}

/** The text of an XML element, if its end follows. */
export function element(): Value {
  const cdata = until("\\]\\]>");
  const content = until("[<\\r\\n]|\\\\u003c|&lt;|\\]\\]>");
  const close = sticky("(?:\\]\\]>)?\\s{0,80}(?:<|\\\\u003c|&lt;)/");
  return (searched, start, hint) => {
    const isCdata = searched.text.startsWith("<![CDATA[", start - "<![CDATA[".length);
    const place = (isCdata ? cdata : content)(searched, start, hint);
    if (place === undefined || close(searched, place.end) !== undefined) return place;
    return searched.isUnfinished(place.end + 90) ? searched.wait(/[^]/) : undefined;
  };
}

/** A secret that begins with its hint. */
export function withHint(value: Value): Value {
  return (searched, at, hint) => {
    const place = value(searched, at, hint);
    return place && { start: hint, end: place.end };
  };
}

/** A password in a URI. It ends at the last `@`, because it may contain `/` and `@`. */
export function uriPassword(): Value {
  const [at, end] = [/@/g, new RegExp(`["'<>\x60${B}]`, "g")];
  const rest = new RegExp(`(?=${end.source})`);
  return (searched, start) => {
    const limit = searched.next(end, start);
    if (searched.isUnfinished(limit)) return searched.begin(start, rest);
    if (searched.next(at, start) >= limit) return undefined;
    const last = searched.text.lastIndexOf("@", limit - 1);
    return last > start ? { start, end: last } : undefined;
  };
}

/** A private key. If its last line is missing, it extends to the end of the text. */
export function keyBlock(): Value {
  const labelEnd = /[^A-Z0-9 ]/g;
  return (searched, start) => {
    const { text } = searched;
    const from = start + "-----BEGIN".length;
    const end = searched.next(labelEnd, from);
    if (searched.isUnfinished(end)) return searched.wait(labelEnd);
    const label = text.slice(from, end);
    if (!text.startsWith("-----", end) || !/(?:PRIVATE|SECRET) KEY/.test(label)) return undefined;
    const mark = `-----END${label}-----`;
    const last = text.indexOf(mark, end);
    if (last >= 0) return { start, end: last + mark.length };
    return searched.isUnfinished(text.length)
      ? searched.begin(start, new RegExp(mark), true)
      : { start, end: text.length };
  };
}

/** Skips to the value of an option of a command; `value` matches its first character. */
export function option(name: string, value: string): Step {
  const pattern = new RegExp(`\\s${name}(?=${value})|[\\n|;&]`, "g");
  return (searched, from) => {
    const at = searched.next(pattern, from);
    // The last character may be the space before the option.
    if (searched.isUnfinished(at + 1)) return searched.wait(/\S/);
    return searched.text.startsWith(name, at + 1) ? at + 1 + name.length : undefined;
  };
}

/** Credentials with a scheme before them: in a command, a known scheme stays, and Digest has no secret. */
export function credentials(kind: "command" | "document"): Value {
  const scheme = sticky("(?:bearer|basic|token)(?=\\s)");
  const digest = sticky("digest(?!\\w)");
  const [blanks, known, line] = [gap(1), until(BARE), until(LINE)];
  return (searched, start, hint) => {
    const end = scheme(searched, start);
    if (end === undefined) {
      return kind === "command" && digest(searched, start) !== undefined
        ? undefined
        : line(searched, start, hint);
    }
    const from = blanks(searched, end);
    if (from === undefined) return undefined;
    return kind === "command"
      ? known(searched, from, hint)
      : { start, end: line(searched, from, hint)?.end ?? end };
  };
}

/** A secret, or the beginning of one, whose end is not in the text yet. */
export interface Open {
  /** The start of the secret; absent if it has not begun. */
  readonly secret?: number;
  /**
   * Matches the text up to the end of the secret. If the secret has not begun, nothing is known before a
   * match.
   */
  readonly rest: RegExp;
  /** Whether this is a secret regardless of the following text. */
  readonly isCertain: boolean;
}

/** Results of shorter searches are not remembered, because repeating the search is as fast. */
const MIN_REMEMBERED = 64;

/** A text, and the results of the searches in it. */
export class Searched {
  readonly text: string;
  /** Set by a rule whose result depends on the text that follows. */
  open: Open | undefined;
  readonly #isWhole: boolean;
  #found: Map<RegExp, { from: number; at: number }> | undefined;

  /** @param isWhole whether no text follows */
  constructor(text: string, isWhole = true) {
    this.text = text;
    this.#isWhole = isWhole;
  }

  /** The next match of a global pattern, or the end of the text. */
  next(pattern: RegExp, from: number): number {
    const known = this.#found?.get(pattern);
    if (known !== undefined && from >= known.from && from <= known.at) return known.at;
    pattern.lastIndex = from;
    const at = pattern.exec(this.text)?.index ?? this.text.length;
    if (at - from > MIN_REMEMBERED) (this.#found ??= new Map()).set(pattern, { from, at });
    return at;
  }

  /** Whether a search reached the end of the text although more text may follow. */
  isUnfinished(at: number): boolean {
    return !this.#isWhole && at >= this.text.length;
  }

  /** Records that a secret may begin after the text. */
  wait(rest: RegExp): undefined {
    this.open = { rest, isCertain: false };
  }

  /** Records that a secret begins in the text and may go on after it. */
  begin(secret: number, rest: RegExp, isCertain = false): undefined {
    this.open = { secret, rest, isCertain };
  }
}
