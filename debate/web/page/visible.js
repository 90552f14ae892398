import { make } from "./api.js";
import { ODD } from "./odd.js";

export const EVERY_ODD = new RegExp(`(${ODD})`, "gu");

/**
 * A text with every character that shows nothing of itself, or steers what is shown, as a box with its code. Lines
 * stay lines.
 *
 * @param {string} text
 */
export function visible(text) {
  return splitOdd(text).map((part, index) =>
    index % 2 === 0 ? part : make("span", { className: "odd" }, codeOf(part))
  );
}

/**
 * The same as text alone, for names.
 *
 * @param {string} text
 */
export function plain(text) {
  return splitOdd(text).map((part, index) => index % 2 === 0 ? part : codeOf(part)).join("");
}

/**
 * The parts of a text: every second one is a single odd character.
 *
 * @param {string} text
 */
export function splitOdd(text) {
  const parts = [""];
  for (const [index, part] of text.replaceAll("\r\n", "\n").split(EVERY_ODD).entries()) {
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
