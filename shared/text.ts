/**
 * Text and bytes: quoting, visible forms of unseen characters, identities, durations, shell words.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { quoteText, shellQuote, visibleText } from "@gateway/shared/text";
 *
 * assert.equal(quoteText("a\tb"), String.raw`"a\tb"`);
 * assert.equal(shellQuote("a b"), "'a b'");
 * assert.equal(visibleText("a\u202eb"), String.raw`a\u{202e}b`);
 * ```
 *
 * @module
 */
const SHORT: Readonly<Record<string, string>> = {
  '"': '\\"',
  "\\": "\\\\",
  "\x07": "\\a",
  "\b": "\\b",
  "\f": "\\f",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\v": "\\v",
};

// Go's strconv.IsPrint: letters, marks, numbers, punctuation, symbols and the ASCII space.
const UNPRINTABLE = /["\\]|[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu;

/**
 * A text in double quotes. `"` and `\` get a backslash; controls become `\a \b \f \n \r \t \v` or `\x1b`;
 * whatever else does not print (format characters, separators other than the space, unassigned code points)
 * is written like `\u200b` or `\U000e0001`; a lone surrogate becomes U+FFFD first.
 */
export function quoteText(text: string): string {
  return `"${text.toWellFormed().replace(UNPRINTABLE, escape)}"`;
}

function escape(character: string): string {
  const short = SHORT[character];
  if (short !== undefined) return short;
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20 || code === 0x7f) return `\\x${code.toString(16).padStart(2, "0")}`;
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, "0")}`;
  return `\\U${code.toString(16).padStart(8, "0")}`;
}

/**
 * As part of a character class: what shows nothing of itself or steers what is shown. Controls, format characters
 * (bidi, zero width, tags), private use, unassigned, lone surrogates; separators of lines; the other default
 * ignorables, such as variation selectors and the Hangul fillers; the Braille pattern without dots.
 */
const UNSEEN: string = String.raw`\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800`;

const UNSEEN_CHARACTER = new RegExp(`[${UNSEEN}]`, "u");
const UNSAFE_CHARACTER = new RegExp(String.raw`[${UNSEEN}\p{Zs}]`, "u");

/** Whether a text holds what no reader sees: as a name it could pass for another. */
export function hasUnseen(text: string): boolean {
  return UNSEEN_CHARACTER.test(text);
}

/**
 * Whether a text can't stand as one word in an audit record or a KeyId, whose fields are divided by blanks: it holds
 * a blank of any kind, or is not what it looks like.
 */
export function isUnsafe(text: string): boolean {
  return UNSAFE_CHARACTER.test(text);
}

/** A text without the spaces and tabs at its ends. Other white space stays, unlike with `trim()`. */
export function trimBlanks(text: string): string {
  return text.replace(/^[ \t]+|(?<![ \t])[ \t]+$/g, "");
}

/**
 * As a regular expression with the flag `u`: one character that does not show itself, is a blank other than the
 * space, or is a mark that stands on nothing or as a third on one letter.
 */
export const ODD: string = String.raw`(?:[${UNSEEN}]|(?! )\p{Zs}|\p{M}(?<=\p{M}{3}|^\p{M}))`;

const EVERY_ODD = new RegExp(ODD, "gu");

/**
 * One character written out: C0, DEL and C1 as `\x1b`, all others as `\u{202e}`.
 *
 * @param character one code point, or a lone surrogate
 */
export function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  return code < 0x100 && code !== 0xad ? `\\x${hex.padStart(2, "0")}` : `\\u{${hex}}`;
}

/**
 * The text with every character that steers a terminal or hides other text written out as by
 * {@linkcode escapeCharacter}. The result is one line. A backslash stays as it is, so the text is for eyes,
 * not for parsing back.
 */
export function visibleText(text: string): string {
  return text.replace(EVERY_ODD, escapeCharacter);
}

/** The same as {@linkcode visibleText} line by line: line ends and tabs stay, and CR LF ends a line. */
export function visibleLines(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(
    EVERY_ODD,
    (character) => character === "\n" || character === "\t" ? character : escapeCharacter(character),
  );
}

/** The same JSON value in one line in which nothing steers a terminal or hides other text. */
export function visibleJson(json: string): string {
  // C0 can stand between tokens only, where a blank means the same; everything else in strings only.
  return json.replace(EVERY_ODD, (character) => character < " " ? " " : escapeUnits(character));
}

function escapeUnits(character: string): string {
  return Array.from(
    { length: character.length },
    (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`,
  ).join("");
}

/** The start of a text, at most that many UTF-16 units and no half of a character. */
export function cutText(text: string, limit: number): string {
  return text.length <= limit ? text : text.slice(0, limit).replace(/[\ud800-\udbff]$/, "");
}

/** The same with `…` in the place of what is cut off. */
export function shortenText(text: string, limit: number): string {
  return text.length <= limit ? text : `${cutText(text, limit)}…`;
}

// `=` is left out: zsh rewrites a word that begins with it.
const BARE_WORD = /^[A-Za-z0-9@%_+:,./-]+$/;

/** A word as a POSIX shell has to be given it: bare where that is safe, else in single quotes. */
export function shellQuote(word: string): string {
  return BARE_WORD.test(word) ? word : singleQuote(word);
}

/** A text as one word of a POSIX shell, in single quotes whatever is in it. */
export function singleQuote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** `2h0m0s`, `10m0s`, `45s`, `2.5s`, `300ms`, `0s`. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1_000) return milliseconds === 0 ? "0s" : `${milliseconds}ms`;
  const hours = Math.floor(milliseconds / 3_600_000);
  const minutes = Math.floor(milliseconds / 60_000) % 60;
  const seconds = `${(milliseconds % 60_000) / 1_000}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}

/** Names for which everything below changes no more than capitals and dots. */
const ASCII = /^[\0-\x7f]*$/;
/** Of a name that has something before them: what is nothing but dots is a name too. */
const TRAILING_DOTS = /(?<=[^.])\.+$/;

/**
 * The form in which names are the same that differ by Unicode compatibility form (NFKC), by case, or by trailing
 * dots. Empty only for the empty name. Not for showing.
 */
export function foldIdentity(name: string): string {
  if (ASCII.test(name)) return name.toLowerCase().replace(TRAILING_DOTS, "");
  return foldCase(name.normalize("NFKC")).normalize("NFKC").replace(TRAILING_DOTS, "");
}

/** Whether two names are taken for one. */
export function isSameIdentity(left: string, right: string): boolean {
  return foldIdentity(left) === foldIdentity(right);
}

/** Full case folding, and wider where capitals are shared, as by `ı` and `i`: too many stopped is the safe side. */
function foldCase(text: string): string {
  // By way of small letters first: the capital sharp s has no other way to its two letters. Character by character at
  // last: a sigma at a word's end is the same as any other.
  return Array.from(text.toLowerCase().toUpperCase(), (character) => character.toLowerCase()).join("");
}

/** The keys and list positions from the top of a config to one of its values. */
export type KeyPath = readonly PropertyKey[];

/** `hosts.web01.addr`, `redact.patterns[0].name`; a key with other characters, a dot too, is quoted: `hosts["web.01"]`. */
export function formatKeyPath(path: KeyPath): string {
  let text = "";
  for (const key of path) {
    if (typeof key === "number") text += `[${key}]`;
    else if (typeof key === "string" && /^[\w-]+$/.test(key)) text += text === "" ? key : `.${key}`;
    else text += `[${quoteText(String(key))}]`;
  }
  return text;
}

/**
 * All of them, one after the other, always in a buffer of their own.
 *
 * Not `Buffer.concat`: its result may lie in a pool that others share, and its `slice` is not a copy.
 */
export function concatBytes(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let offset = 0;
  for (const piece of pieces) {
    bytes.set(piece, offset);
    offset += piece.length;
  }
  return bytes;
}

/**
 * Reads to the end of a source; `undefined` as soon as it gives more than `maxBytes`, and then it is told that no
 * more is wanted: a stream is cancelled.
 */
export async function collectBytes(
  source: AsyncIterable<Uint8Array | string>,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of source) {
    const bytes = typeof piece === "string" ? new TextEncoder().encode(piece) : piece;
    length += bytes.length;
    if (length > maxBytes) return undefined;
    pieces.push(bytes);
  }
  return concatBytes(pieces);
}

/** Writes all of it: a file or pipe may take a part at a time. */
export async function writeAll(
  target: { write(bytes: Uint8Array): Promise<number> },
  bytes: Uint8Array,
): Promise<void> {
  for (let rest = bytes; rest.length > 0;) rest = rest.subarray(await target.write(rest));
}

/** The same without a turn of the event loop; a text is written as UTF-8. */
export function writeAllSync(
  target: { writeSync(bytes: Uint8Array): number },
  content: Uint8Array | string,
): void {
  let rest: Uint8Array = typeof content === "string" ? new TextEncoder().encode(content) : content;
  while (rest.length > 0) rest = rest.subarray(target.writeSync(rest));
}
