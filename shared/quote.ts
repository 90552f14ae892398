/**
 * Untrusted text inside a message: quoted the way Go's `%q` does it, so that nothing in it can end the quote,
 * start a line or steer a terminal, and so that clients that look for such texts find them.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { quoteText } from "@gateway/shared/quote";
 *
 * assert.equal(quoteText('web"01\n'), String.raw`"web\"01\n"`);
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
