import { findQuotes } from "../../engine/graph/evidence.ts";

const DROPPED = /[\p{Cf}\ufffd"'`´‘’‚‛“”„‟«»‹›\\]/u;
const WORD = /[\p{L}\p{N}]/u;

/**
 * Splits a result at the quotes of a line of evidence. Every second part is a quote. The comparison ignores what the
 * engine ignores. The first line names the request, so it contains no quote.
 */
export function splitQuoted(result: string, line: string): readonly string[] {
  const { text, at } = comparable(result, result.indexOf("\n") + 1);
  const readings = findQuotes(line).map((quotes) => {
    const parts: string[] = [];
    let end = 0;
    const ranges = quotes.flatMap((quote) => rangeOf(text, comparable(quote).text.trim()));
    for (const [from, to] of ranges.toSorted(([a], [b]) => a - b)) {
      const start = Math.max(end, at[from] ?? 0);
      const next = (at[to - 1] ?? 0) + 1;
      if (next <= start) continue;
      parts.push(result.slice(end, start), result.slice(start, next));
      end = next;
    }
    return [...parts, result.slice(end)];
  });
  return readings.toSorted((a, b) => quotedLength(b) - quotedLength(a))[0] ?? [result];
}

function quotedLength(parts: readonly string[]): number {
  return parts.reduce((sum, part, index) => index % 2 === 0 ? sum : sum + part.length, 0);
}

/** The text to compare, and the position of each of its characters in the original. */
function comparable(original: string, start = 0) {
  let text = "";
  const at: number[] = [];
  for (let index = start; index < original.length; index++) {
    const character = original.charAt(index);
    const isSpace = /\s/.test(character);
    if (DROPPED.test(character) || (isSpace && text.endsWith(" "))) continue;
    const lower = character.toLowerCase();
    text += isSpace ? " " : /[\p{Pd}−]/u.test(character) ? "-" : lower.length === 1 ? lower : character;
    at.push(index);
  }
  return { text, at };
}

/** The first place where a text contains a quote as whole words. */
function rangeOf(text: string, quote: string): readonly (readonly [from: number, to: number])[] {
  if (quote === "") return [];
  for (let from = text.indexOf(quote); from >= 0; from = text.indexOf(quote, from + 1)) {
    const to = from + quote.length;
    const isInWord = (at: number) => WORD.test(text.charAt(at - 1)) && WORD.test(text.charAt(at));
    if (!isInWord(from) && !isInWord(to)) return [[from, to]];
  }
  return [];
}
