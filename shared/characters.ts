/**
 * Which characters show themselves, and which texts can stand as one word of a record: one definition for the
 * names that are let in, and for the texts that are shown.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { hasUnseen, isUnsafe } from "@gateway/shared/characters";
 *
 * assert.equal(isUnsafe("alice"), false);
 * assert.equal(isUnsafe("x role=bastion"), true);
 * assert.equal(hasUnseen("Ops Broker"), false);
 * assert.equal(hasUnseen("ali\u200bce"), true);
 * ```
 *
 * @module
 */

/**
 * As part of a character class: what shows nothing of itself or steers what is shown. Controls, format characters
 * (bidi, zero width, tags), private use, unassigned, lone surrogates; separators of lines; the other default
 * ignorables, such as variation selectors and the Hangul fillers; the Braille pattern without dots.
 */
export const UNSEEN: string = String.raw`\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800`;

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
