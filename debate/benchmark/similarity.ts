/**
 * How similarly two causes are worded. Words are compared, not meanings: a right diagnosis in other words
 * scores low.
 *
 * @module
 */

const STOP_WORDS: ReadonlySet<string> = new Set(
  [
    "a an and are as at be because been being but by can could did do does due for from had has have in into is it",
    "its may might of on or so such than that the their there these they this those to was were when which while",
    "will with would",
    "al aunque como con cuando de del desde donde el ella ello en entre era es esa ese eso esta este esto fue ha",
    "hay la las le les lo los mas muy no o para pero por porque puede que se ser si sin sobre son su sus un una unas",
    "unos y ya",
  ].join(" ").split(" "),
);

/** The words of a text that carry meaning: without accents, in lower case, and singular where that is easy. */
export function meaningfulWords(text: string): ReadonlySet<string> {
  const plain = text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const words = plain.match(/[\p{L}\p{N}]+/gu) ?? [];
  return new Set(words.filter((word) => !STOP_WORDS.has(word)).map(singular));
}

function singular(word: string): string {
  if (word.length <= 3 || !word.endsWith("s") || /(?:ss|us|is)$/.test(word)) return word;
  if (word.endsWith("ies")) return `${word.slice(0, -3)}y`;
  return /(?:[nlrdz]|ch|sh|x)es$/.test(word) ? word.slice(0, -2) : word.slice(0, -1);
}

/** F1 of the two sets of words, 0 to 1; 0 if either set is empty. */
export function compareCauses(a: string, b: string): number {
  const [wordsA, wordsB] = [meaningfulWords(a), meaningfulWords(b)];
  const size = wordsA.size + wordsB.size;
  return size === 0 ? 0 : 2 * wordsA.intersection(wordsB).size / size;
}
