/**
 * Text and bytes: quoting, visible forms of invisible characters, identities, durations, shell words.
 *
 * @module
 */

// Go's strconv.IsPrint: letters, marks, numbers, punctuation, symbols and the ASCII space.
const UNPRINTABLE = /["\\]|[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu;

/**
 * A text in double quotes, escaped as by Go's strconv.Quote: `\n`, `\x1b`, `\u200b`, `\U000e0001`. A lone surrogate
 * becomes U+FFFD.
 */
export function quoteText(text: string): string {
  return `"${text.toWellFormed().replace(UNPRINTABLE, escape)}"`;
}

function escape(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (character === '"' || character === "\\") return `\\${character}`;
  if (code >= 7 && code <= 13) return `\\${"abtnvfr".charAt(code - 7)}`;
  if (code < 0x20 || code === 0x7f) return `\\x${code.toString(16).padStart(2, "0")}`;
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, "0")}`;
  return `\\U${code.toString(16).padStart(8, "0")}`;
}

/**
 * The part of a character class with characters that show nothing or change the display of others: controls, format
 * characters (bidi, zero width, tags), private use, unassigned, lone surrogates, line separators, other default
 * ignorables (variation selectors, Hangul fillers), and the Braille pattern without dots.
 */
const INVISIBLE: string = String.raw`\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800`;

const INVISIBLE_CHARACTER = new RegExp(`[${INVISIBLE}]`, "u");
const UNSAFE_CHARACTER = new RegExp(String.raw`[${INVISIBLE}\p{Zs}]`, "u");

/** Whether a text has invisible characters: as a name it could look like another. */
export function hasInvisible(text: string): boolean {
  return INVISIBLE_CHARACTER.test(text);
}

/** Whether a text is unsafe as one word of an audit record or a KeyId: it has a space or an invisible character. */
export function isUnsafe(text: string): boolean {
  return UNSAFE_CHARACTER.test(text);
}

/** Removes spaces and tabs at both ends. Unlike with `trim()`, other white space stays. */
export function trimSpaces(text: string): string {
  return text.replace(/^[ \t]+|(?<![ \t])[ \t]+$/g, "");
}

/**
 * A regular expression, for the flag `u`, of one character that is invisible, a space other than the ASCII space, or a
 * mark without a base or as the third of one letter.
 */
export const ODD: string = String.raw`(?:[${INVISIBLE}]|(?! )\p{Zs}|\p{M}(?<=\p{M}{3}|^\p{M}))`;

const EVERY_ODD = new RegExp(ODD, "gu");

/** One code point, or a lone surrogate, as an escape: C0, DEL and C1 as `\x1b`, all others as `\u{202e}`. */
export function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  return code < 0x100 && code !== 0xad ? `\\x${hex.padStart(2, "0")}` : `\\u{${hex}}`;
}

/**
 * Escapes every character that controls a terminal or hides other text. The result is one line for eyes: a backslash
 * stays as it is.
 */
export function visibleText(text: string): string {
  return text.replace(EVERY_ODD, escapeCharacter);
}

/** {@linkcode visibleText} for several lines: line ends and tabs stay, and CR LF ends a line. */
export function visibleLines(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(
    EVERY_ODD,
    (character) => character === "\n" || character === "\t" ? character : escapeCharacter(character),
  );
}

/** The same JSON value in one line, without characters that control a terminal or hide other text. */
export function visibleJson(json: string): string {
  // C0 occurs only between tokens, where a space means the same. All others occur only in strings.
  return json.replace(
    EVERY_ODD,
    (character) =>
      character < " " ? " " : character.split("")
        .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""),
  );
}

/** The start of a text, at most `limit` UTF-16 units, without half of a character. */
export function cutText(text: string, limit: number): string {
  return text.length <= limit ? text : text.slice(0, limit).replace(/[\ud800-\udbff]$/, "");
}

/** {@linkcode cutText} with `…` for the omitted text. */
export function shortenText(text: string, limit: number): string {
  return text.length <= limit ? text : `${cutText(text, limit)}…`;
}

// `=` is omitted, because zsh rewrites a word that begins with it.
const BARE_WORD = /^[A-Za-z0-9@%_+:,./-]+$/;

/** A word for a POSIX shell: bare if that is safe, else in single quotes. */
export function shellQuote(word: string): string {
  return BARE_WORD.test(word) ? word : singleQuote(word);
}

/** A text as one word of a POSIX shell, always in single quotes. */
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

const ASCII = /^[\0-\x7f]*$/;
/** Matches the dots at the end of a name, except in a name that consists only of dots. */
const TRAILING_DOTS = /(?<=[^.])\.+$/;

/** The common form of names that differ by Unicode compatibility form (NFKC), by case, or by trailing dots. */
export function foldIdentity(name: string): string {
  if (ASCII.test(name)) return name.toLowerCase().replace(TRAILING_DOTS, "");
  return foldCase(name.normalize("NFKC")).normalize("NFKC").replace(TRAILING_DOTS, "");
}

/** Whether two names count as one. */
export function isSameIdentity(left: string, right: string): boolean {
  return foldIdentity(left) === foldIdentity(right);
}

/**
 * Full case folding that also maps letters with a common capital to each other, such as `ı` and `i`. Blocking
 * too many names is safe.
 */
function foldCase(text: string): string {
  // The capital sharp s becomes two letters only after it is lowercased. A final sigma must be lowercased
  // alone to become a normal sigma.
  return Array.from(text.toLowerCase().toUpperCase(), (character) => character.toLowerCase()).join("");
}

/** Removes empty fields: empty texts and lists, `false`, 0 and `undefined`. */
export function withoutEmpty<T extends object>(fields: T): { readonly [Key in keyof T]?: T[Key] } {
  const isEmpty = (value: unknown) => !value || (Array.isArray(value) && value.length === 0);
  const kept = Object.entries(fields).filter(([, value]) => !isEmpty(value));
  return Object.fromEntries(kept) as Partial<T>;
}

/** The keys and list indexes from the top of a config to one of its values. */
export type KeyPath = readonly PropertyKey[];

/** `hosts.web01.addr`, `redact.patterns[0].name`; a key with other characters is quoted: `hosts["web.01"]`. */
export function formatKeyPath(path: KeyPath): string {
  let text = "";
  for (const key of path) {
    if (typeof key === "number") text += `[${key}]`;
    else if (typeof key === "string" && /^[\w-]+$/.test(key)) text += text === "" ? key : `.${key}`;
    else text += `[${quoteText(String(key))}]`;
  }
  return text;
}

/** The number of letters to insert, delete or replace to turn one text into the other. Takes quadratic time. */
export function editDistance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (const [i, letter] of [...left].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...right].entries()) {
      const replaced = (row[j] ?? 0) + (letter === other ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

/** Joins bytes in a new buffer. `Buffer.concat` may use a shared pool, and its `slice` is not a copy. */
export function concatBytes(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let offset = 0;
  for (const piece of pieces) {
    bytes.set(piece, offset);
    offset += piece.length;
  }
  return bytes;
}

/** {@linkcode concatBytes}, but a single piece is not copied. */
export function joinBytes(pieces: readonly Uint8Array[]): Uint8Array {
  const [first] = pieces;
  return first !== undefined && pieces.length === 1 ? first : concatBytes(pieces);
}

/** Reads to the end of a source; `undefined` after more than `maxBytes`, and then a stream is canceled. */
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

/** Writes all bytes. A file or pipe may accept only a part at a time. */
export async function writeAll(
  target: { write(bytes: Uint8Array): Promise<number> },
  bytes: Uint8Array,
): Promise<void> {
  for (let rest = bytes; rest.length > 0;) rest = rest.subarray(await target.write(rest));
}

/** {@linkcode writeAll}, but synchronous. A text is written as UTF-8. */
export function writeAllSync(
  target: { writeSync(bytes: Uint8Array): number },
  content: Uint8Array | string,
): void {
  let rest: Uint8Array = typeof content === "string" ? new TextEncoder().encode(content) : content;
  while (rest.length > 0) rest = rest.subarray(target.writeSync(rest));
}

/** `1 min 12 s`, `2 h`, `3 days 4 h`. */
export function formatSpan(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  const pair = (big: string, small: number, unit: string) => small === 0 ? big : `${big} ${small} ${unit}`;
  if (minutes === 0) return `${seconds} s`;
  if (hours === 0) return pair(`${minutes} min`, seconds % 60, "s");
  if (days === 0) return pair(`${hours} h`, minutes % 60, "min");
  return pair(days === 1 ? "1 day" : `${days} days`, hours % 24, "h");
}
