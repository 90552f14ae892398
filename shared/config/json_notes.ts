/**
 * What JSON with comments has more than JSON: comments, and commas before a closing bracket.
 *
 * @module
 */
import type { Steps } from "../steps.ts";
import { endOfString } from "../strict_json.ts";
import { CHARACTERS_A_STEP } from "./json_text.ts";

/**
 * The text with blanks in the place of comments and trailing commas, and otherwise as it was, faults included;
 * `undefined` when a string or comment does not end.
 */
export function* withoutNotes(text: string): Steps<string | undefined> {
  const holes: Hole[] = [];
  let pause = CHARACTERS_A_STEP;
  // The last character that counts, the one before it, and where the last one stands.
  let [last, before, lastAt] = ["", "", 0];
  for (let at = 0; at < text.length; at++) {
    if (at >= pause) {
      pause = at + CHARACTERS_A_STEP;
      yield;
    }
    const character = text[at] ?? "";
    if (character === " " || character === "\n" || character === "\t" || character === "\r") continue;
    if (character === "/") {
      const end = endOfComment(text, at);
      if (end === undefined) return undefined;
      holes.push({ from: at, to: end });
      at = end - 1;
      continue;
    }
    const closes = character === "}" || character === "]";
    if (closes && last === "," && before !== "[" && before !== "{") {
      holes.push({ from: lastAt, to: lastAt + 1 });
    }
    [before, last, lastAt] = [last, character, at];
    if (character !== '"') continue;
    const end = endOfString(text, at);
    if (end === undefined) return undefined;
    at = end - 1;
  }
  return fillHoles(text, holes);
}

/** A part of the text that is left out. */
interface Hole {
  readonly from: number;
  readonly to: number;
}

/** A blank in the place of each, or two tokens could become one. */
function fillHoles(text: string, holes: readonly Hole[]): string {
  if (holes.length === 0) return text;
  const kept: string[] = [];
  let start = 0;
  // A comma in front of a comment was found after it.
  for (const { from, to } of holes.toSorted((a, b) => a.from - b.from)) {
    kept.push(text.slice(start, from));
    start = to;
  }
  return [...kept, text.slice(start)].join(" ");
}

/** Where the text continues after a comment; a line's end is not part of it. */
function endOfComment(text: string, start: number): number | undefined {
  if (text[start + 1] === "*") {
    const end = text.indexOf("*/", start + 2);
    return end === -1 ? undefined : end + 2;
  }
  if (text[start + 1] !== "/") return undefined;
  for (let at = start + 2; at < text.length; at++) {
    if (text[at] === "\n" || text[at] === "\r") return at;
  }
  return text.length;
}
