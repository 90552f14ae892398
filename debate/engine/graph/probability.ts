import { linesOf } from "./text.ts";

/** Parses a number or a percentage as a share; `undefined` if the text is not a number. */
export function parseShare(text: string): number | undefined {
  const match = /^\+?(-?)(\d{1,9}(?:[.,]\d{0,15})?|[.,]\d{1,15})\s?(%?)$/.exec(text.trim());
  if (match === null) return undefined;
  const [, sign, digits = "", percent] = match;
  const value = Number(digits.replace(",", ".")) / (percent === "%" ? 100 : 1);
  return sign === "-" && value !== 0 ? -value : value;
}

function clampShare(value: number): number {
  return Math.min(1, Math.max(0, value));
}

const BRACKETED = /\[\s?P\s?[=:]([^\]\n]{1,24})\]/i;
const NUMBER = String.raw`(?<digits>\d{1,3}(?:[.,]\d{1,15})?|[.,]\d{1,15})`;
const SHARE = String.raw`${NUMBER}[ \t]?(?<percent>%?)(?![\p{L}\p{N}%]|[.,]\d)`;
const WORD = String
  .raw`(?:P(?:[ \t]?\([^()\n]{1,24}\))?|prob(?:ability|abilidad|\.)?|likelihood|confidence|confianza)`;
const NAMED = String.raw`${WORD}[ \t*_\x60]{0,4}[=:≈~][ \t*_\x60≈~]{0,4}${SHARE}`;
/** Forms that count only in the first line: in running text, `p = 0.03` may be a figure of the evidence. */
const IN_LINE = [
  new RegExp(String.raw`(?<![\p{L}\p{N}_.?&/-])[(\[]?${NAMED}[ \t]?[)\]]?`, "iu"),
  new RegExp(
    String
      .raw`(?<![\p{L}\p{N}_.-])[(\[]?${NUMBER}[ \t]?(?<percent>%)[ \t](?:likely|probable|probability|probabilidad)(?!\p{L})[)\]]?`,
    "iu",
  ),
];
const LEADING = new RegExp(
  String
    .raw`^[ \t*_:|,;–—=>\[(-]{0,10}(?:${NUMBER}[ \t]?(?<percent>%)|(?<=[(|\[][ \t]{0,2})(?<cell>[01]?[.,]\d{1,15}|[01])(?=[ \t]?[)|\]]))[ \t*_.]{0,4}(?:[)\]|;:–—]|-[ \t]|$)`,
  "u",
);
const ON_ITS_LINE = new RegExp(String.raw`^[ \t>*+_|-]{0,12}${NAMED}[ \t.*_\x60)\]]{0,6}$`, "iu");
const MAX_LINE = 400;

/**
 * The probability that a text states, 0 to 1. The forms in order of precedence: the first `[P=…]`; `P = 0.6`,
 * `probability: 60%` or `60% likely` in the first line; `(60%)` at the start; a line `Probability: 0.6`.
 */
export function findProbability(text: string): number | undefined {
  const bracketed = BRACKETED.exec(text)?.[1];
  if (bracketed !== undefined) {
    const value = parseShare(bracketed);
    if (value === undefined) return undefined;
    return clampShare(/^\s*\d{2,3}\s*$/.test(bracketed) ? value / 100 : value);
  }
  const line = firstLine(text);
  return readShare([...IN_LINE, LEADING].map((form) => form.exec(line)).find((match) => match !== null)) ??
    findProbabilityLine(linesOf(text).slice(1));
}

/** The probability of the first line that states nothing else, such as `- **Probability:** 60%`. */
export function findProbabilityLine(lines: readonly string[]): number | undefined {
  for (const line of lines) {
    const share = line.length <= MAX_LINE ? readShare(ON_ITS_LINE.exec(line)) : undefined;
    if (share !== undefined) return share;
  }
  return undefined;
}

export function withoutProbability(text: string): string {
  const line = firstLine(text);
  if (BRACKETED.test(line)) return text.replace(BRACKETED, "");
  const form = [...IN_LINE, LEADING].find((form) => readShare(form.exec(line)) !== undefined);
  return form === undefined ? text : text.replace(form, "");
}

function firstLine(text: string): string {
  return /^[^\r\n]*/.exec(text.slice(0, MAX_LINE))?.[0] ?? "";
}

/** Outside brackets only a share counts, because `P = 5` may have another meaning. */
function readShare(match: RegExpExecArray | null | undefined): number | undefined {
  const { digits, cell, percent = "" } = match?.groups ?? {};
  const value = parseShare(`${digits ?? cell ?? ""}${percent}`);
  return value === undefined || value > 1 ? undefined : value;
}
