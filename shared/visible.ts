/**
 * Text of unknown origin (records, logs, command output in messages) made safe to show on terminals and pages.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { visibleJson, visibleText } from "@gateway/shared/visible";
 *
 * assert.equal(visibleText("ls\x1b[2J"), String.raw`ls\x1b[2J`);
 * assert.equal(visibleJson('{"command":"ls\x9b2J"}'), String.raw`{"command":"ls\u009b2J"}`);
 * ```
 *
 * @module
 */
import { UNSEEN } from "./characters.ts";

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
