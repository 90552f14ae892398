/**
 * Text of unknown origin (records, logs, command output in messages) made safe to show on a terminal.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { visibleText } from "@gateway/shared/visible";
 *
 * assert.equal(visibleText("ls\x1b[2J"), String.raw`ls\x1b[2J`);
 * ```
 *
 * @module
 */

// Controls, format characters (bidi, zero width, tags), line and paragraph separators, lone surrogates.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

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
  return text.replace(INVISIBLE, escapeCharacter);
}
