import { make } from "./api.js";
import { HIDDEN } from "./hidden_characters.js";

export const EVERY_HIDDEN = new RegExp(`(${HIDDEN})`, "gu");

/**
 * A text with boxes that show the codes of invisible and layout-changing characters. Line ends stay.
 * @param {string} text
 */
export function visible(text) {
  return splitHidden(text).map((part, index) =>
    index % 2 === 0 ? part : make("span", { className: "odd" }, codeOf(part))
  );
}

/**
 * Converts hidden characters of a name to text.
 * @param {string} text
 */
export function plain(text) {
  return splitHidden(text).map((part, index) => index % 2 === 0 ? part : codeOf(part)).join("");
}

/**
 * Splits a text. Every second part is one hidden character.
 * @param {string} text
 */
export function splitHidden(text) {
  const parts = [""];
  for (const [index, part] of text.replaceAll("\r\n", "\n").split(EVERY_HIDDEN).entries()) {
    if (index % 2 === 1 && part !== "\n" && part !== "\t") parts.push(part, "");
    else parts[parts.length - 1] += part;
  }
  return parts;
}

/**
 * `U+202E`.
 *
 * @param {string} character
 */
export function codeOf(character) {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}
