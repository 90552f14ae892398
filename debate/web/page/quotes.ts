const MARKS: Readonly<Record<string, string>> = {
  "`": "`",
  '"': '"',
  "“": "”",
  "„": "“",
  "«": "»",
  "”": "”",
};
const DROPPED = /[\p{Cf}\ufffd"'`´‘’‚‛“”„‟«»‹›\\]/u;
const WORD = /[\p{L}\p{N}]/u;

type Range = readonly [from: number, to: number];

/**
 * Splits a result at the quotes of a line of evidence. Every second part is a quote. The comparison ignores what the
 * engine ignores. The first line names the request, so it contains no quote.
 */
export function splitQuoted(result: string, line: string): readonly string[] {
  const { text, at } = comparable(result, result.indexOf("\n") + 1);
  const readings = readingsOf(line).map((quotes) =>
    quotes.flatMap((quote) => rangeOf(text, comparable(quote).text.trim()))
  );
  const lengthOf = (ranges: readonly Range[]) => ranges.reduce((sum, [from, to]) => sum + to - from, 0);
  const found = readings.toSorted((a, b) => lengthOf(b) - lengthOf(a))[0] ?? [];
  const parts: string[] = [];
  let end = 0;
  for (const [from, to] of found.toSorted(([a], [b]) => a - b)) {
    const start = Math.max(end, at[from] ?? 0);
    const next = (at[to - 1] ?? 0) + 1;
    if (next <= start) continue;
    parts.push(result.slice(end, start), result.slice(start, next));
    end = next;
  }
  return [...parts, result.slice(end)];
}

/** The readings of the quotes of a line. A quote that contains double quotes, as in JSON, is also read as one. */
function readingsOf(line: string): readonly (readonly string[])[] {
  const quotes: string[] = [];
  for (let index = 0; index < line.length; index++) {
    const close = MARKS[line.charAt(index)];
    const end = close === undefined ? -1 : line.indexOf(close, index + 1);
    if (end < 0) continue;
    quotes.push(line.slice(index + 1, end));
    index = end;
  }
  return [[line.slice(line.indexOf('"') + 1, line.lastIndexOf('"'))], quotes];
}

/** The text to compare, and the position of each of its characters in the original. */
function comparable(original: string, start = 0) {
  let text = "";
  const at: number[] = [];
  for (let index = start; index < original.length; index++) {
    const character = original.charAt(index);
    if (DROPPED.test(character)) continue;
    const isSpace = /\s/.test(character);
    if (isSpace && text.endsWith(" ")) continue;
    const lower = character.toLowerCase();
    text += isSpace ? " " : /[\p{Pd}−]/u.test(character) ? "-" : lower.length === 1 ? lower : character;
    at.push(index);
  }
  return { text, at };
}

/** The first place where a text contains a quote as whole words. */
function rangeOf(text: string, quote: string): readonly Range[] {
  if (quote === "") return [];
  for (let from = text.indexOf(quote); from >= 0; from = text.indexOf(quote, from + 1)) {
    const to = from + quote.length;
    const isInWord = (at: number) => WORD.test(text.charAt(at - 1)) && WORD.test(text.charAt(at));
    if (!isInWord(from) && !isInWord(to)) return [[from, to]];
  }
  return [];
}
