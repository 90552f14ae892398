/**
 * Whether a text holds what is quoted from it, and whether the quote says anything.
 *
 * @module
 */

const MAX_QUOTES = 8;
/** Opening marks and what closes each. */
const MARKS: Readonly<Record<string, string>> = {
  "`": "`",
  '"': '"',
  "“": "”",
  "„": "“",
  "«": "»",
  "”": "”",
};

/**
 * What a line quotes, in its order. Between double quotes that hold double quotes, as in JSON, it is ambiguous what is
 * quoted: `whole` is everything from the first to the last of them.
 */
interface Quotes {
  readonly parts: readonly string[];
  readonly whole: string | undefined;
}

/** Finds the quotes of a line. */
export function findQuotes(line: string): Quotes {
  const parts: string[] = [];
  for (let index = 0; index < line.length && parts.length < MAX_QUOTES; index++) {
    const closing = MARKS[line.charAt(index)];
    if (closing === undefined) continue;
    const end = line.indexOf(closing, index + 1);
    if (end < 0) continue;
    parts.push(line.slice(index + 1, end));
    index = end;
  }
  const first = line.indexOf('"');
  const last = line.lastIndexOf('"');
  return { parts, whole: parts.length > 1 && last > first ? line.slice(first + 1, last) : undefined };
}

/**
 * A text in the form in which quotes are compared: models change case, blanks, dashes, quotation marks and the composition
 * of characters when they copy. Letters that only look alike stay different.
 */
export function toComparable(text: string): string {
  return text.normalize("NFKC").replace(/[\p{Cf}\ufffd"'`´‘’‚‛“”„‟«»‹›\\]/gu, "").replace(/\p{Pd}|−/gu, "-")
    .toLowerCase().replace(/\s+/g, " ").trim();
}

/** Whether a text holds a quote, both comparable: as whole words and whole numbers, so that `98 MB` is not in `1498 MB`. */
export function holds(text: string, quote: string): boolean {
  if (quote === "") return false;
  for (let at = text.indexOf(quote); at >= 0; at = text.indexOf(quote, at + 1)) {
    const before = text.slice(Math.max(0, at - 2), at);
    const after = text.slice(at + quote.length, at + quote.length + 2);
    if (
      !(continues(before.slice(-1), quote.charAt(0)) || /\d[.,]$/.test(before) && /^\d/.test(quote)) &&
      !(continues(quote.slice(-1), after.charAt(0)) || /^[.,]\d/.test(after) && /\d$/.test(quote))
    ) return true;
  }
  return false;
}

function continues(left: string, right: string): boolean {
  return /[\p{L}\p{N}]/u.test(left) && /[\p{L}\p{N}]/u.test(right);
}

const MIN_CHARACTERS = 8;

/**
 * Whether a quote says something that was not in the question: tools repeat their arguments, so words of them prove
 * nothing. What is left needs eight letters or digits, in two words, or in one that holds a figure.
 *
 * @param asked the arguments, comparable
 */
export function saysSomething(quote: string, asked: string): boolean {
  const words = quote.split(/[\s|]+/).map((word) =>
    word.replace(/^[^\p{L}\p{N}]+|(?<![^\p{L}\p{N}%])[^\p{L}\p{N}%]+$/gu, "")
  )
    .filter((word) => !asked.includes(word));
  const characters = words.join("").match(/[\p{L}\p{N}]/gu)?.length ?? 0;
  if (characters < MIN_CHARACTERS) return false;
  const telling = new Set(words.filter((word) => word.length > 2 || /\d/.test(word)));
  return telling.size > 1 || words.some((word) => /\d/.test(word) && /\D/.test(word));
}
