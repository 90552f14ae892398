/**
 * A JSON text cut into pieces, so that a config of thousands of hosts is never read in one go.
 *
 * @module
 */
import { parseStandardJson } from "../json.ts";
import type { Steps } from "../steps.ts";
import { endOfString } from "../strict_json.ts";
import { CHARACTERS_A_STEP } from "./json_text.ts";

/** Deeper than any config; those who read the value recurse. */
const MAX_DEPTH = 64;

/** A text and how many keys it has, equal ones counted each. */
export interface CountedText {
  readonly text: string;
  readonly keys: number;
}

/**
 * A text in which each list and object that stands in a member of the whole is replaced by a list of one number,
 * the number of its piece: `{"hosts": {"a": {...}}}` is `{"hosts": {"a": [0]}}` and the piece `{...}`.
 */
export interface Pieces {
  readonly outline: CountedText;
  readonly pieces: readonly CountedText[];
}

/** Cuts a text without comments; `undefined` when its brackets and strings do not end or are nested too deeply. */
export function* cutJson(text: string): Steps<Pieces | undefined> {
  const outline: string[] = [];
  const pieces: CountedText[] = [];
  let [depth, keys, outlineKeys, from, pieceFrom] = [0, 0, 0, 0, 0];
  let pause = CHARACTERS_A_STEP;
  for (let at = 0; at < text.length; at++) {
    if (at >= pause) {
      pause = at + CHARACTERS_A_STEP;
      yield;
    }
    const character = text[at];
    if (character === '"') {
      const end = endOfString(text, at);
      if (end === undefined) return undefined;
      at = end - 1;
    } else if (character === ":") {
      if (depth < 3) outlineKeys++;
      else keys++;
    } else if (character === "{" || character === "[") {
      if (++depth > MAX_DEPTH) return undefined;
      if (depth === 3) [pieceFrom, keys] = [at, 0];
    } else if (character === "}" || character === "]") {
      if (depth-- === 3) {
        outline.push(text.slice(from, pieceFrom), `[${pieces.length}]`);
        pieces.push({ text: text.slice(pieceFrom, at + 1), keys });
        from = at + 1;
      }
    }
  }
  if (depth !== 0) return undefined;
  outline.push(text.slice(from));
  return { outline: { text: outline.join(""), keys: outlineKeys }, pieces };
}

/**
 * The value of a piece, its objects without prototype; `undefined` when it has faults,
 * or what an exact parser is to complain about: equal keys in one object, `__proto__`, half a surrogate pair.
 */
export function readJson({ text, keys }: CountedText): { readonly value: unknown } | undefined {
  let value: unknown;
  try {
    value = parseStandardJson(text);
  } catch {
    return undefined;
  }
  // Of equal keys one is kept: fewer keys in the value than in the text.
  return countKeys(value) === keys ? { value } : undefined;
}

function countKeys(value: unknown): number | undefined {
  if (typeof value === "string") return value.isWellFormed() ? 0 : undefined;
  if (typeof value !== "object" || value === null) return 0;
  let keys = 0;
  const isList = Array.isArray(value);
  if (!isList) Object.setPrototypeOf(value, null);
  for (const [key, member] of Object.entries(value)) {
    if (key === "__proto__" || !key.isWellFormed()) return undefined;
    const inner = countKeys(member);
    if (inner === undefined) return undefined;
    keys += inner + (isList ? 0 : 1);
  }
  return keys;
}
