/**
 * Config text to value without a parser that knows comments, several times as fast and lean.
 * It gives a value only where that is beyond doubt; every other text is for the exact parser to read and to
 * complain about.
 *
 * @module
 */
import type { Steps } from "../steps.ts";
import { type ConfigObject, isConfigObject, type ParsedConfig } from "./config_object.ts";
import { withoutNotes } from "./json_notes.ts";
import { type CountedText, cutJson, readJson } from "./json_pieces.ts";

/**
 * The value of a text without syntax errors, without equal keys in one object, without `__proto__` and halves of
 * surrogate pairs; `undefined` for all other texts.
 *
 * @param large keys at the top whose maps are read entry by entry
 */
export function* parsePlainJson(text: string, large: readonly string[]): Steps<ParsedConfig | undefined> {
  const plain = yield* withoutNotes(text);
  const cut = plain === undefined ? undefined : yield* cutJson(plain);
  if (cut === undefined) return undefined;
  const value = readJson(cut.outline)?.value;
  if (!isConfigObject(value)) return undefined;
  const maps = new Map<string, Iterable<readonly [string, unknown]>>();
  for (const [key, member] of Object.entries(value)) {
    if (typeof member !== "object" || member === null) continue;
    const isLarge = large.includes(key) && !Array.isArray(member);
    const entries: ConfigObject = Object.assign(member);
    for (const [name, entry] of Object.entries(entries)) {
      const piece = readEntry(entry, cut.pieces);
      if (piece === undefined) return undefined;
      // All pieces are read once to know that they can be; those of a large map are not kept.
      if (!isLarge) entries[name] = piece.value;
      yield;
    }
    if (!isLarge) continue;
    maps.set(key, readEntries(entries, cut.pieces));
    delete value[key];
  }
  return { value, large: maps };
}

function* readEntries(
  entries: ConfigObject,
  pieces: readonly CountedText[],
): Iterable<readonly [string, unknown]> {
  for (const name of Object.keys(entries)) yield [name, readEntry(entries[name], pieces)?.value];
}

/** The value of an entry; a list is always the number of a piece. */
function readEntry(entry: unknown, pieces: readonly CountedText[]): { readonly value: unknown } | undefined {
  if (!Array.isArray(entry)) return { value: entry };
  const piece = pieces[entry[0]];
  return piece === undefined ? undefined : readJson(piece);
}
