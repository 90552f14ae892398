/**
 * Numbers from 0 to 1 as models write them: `0.6`, `.6`, `0,6`, `60%`.
 *
 * @module
 */

/** The number that a text states, with a percentage divided by 100; `undefined` if it is not a number. */
export function parseShare(text: string): number | undefined {
  const match = /^\+?(-?)(\d{1,9}(?:[.,]\d{0,15})?|[.,]\d{1,15})\s?(%?)$/.exec(text.trim());
  if (match === null) return undefined;
  const [, sign, digits = "", percent] = match;
  const value = Number(digits.replace(",", ".")) / (percent === "%" ? 100 : 1);
  return sign === "-" && value !== 0 ? -value : value;
}

/** The number, limited to the range from 0 to 1. */
export function clampShare(value: number): number {
  return Math.min(1, Math.max(0, value));
}

/** The first `[P=…]` of a text, 0 to 1; `undefined` if there is none or it does not contain a number. */
export function findProbability(text: string): number | undefined {
  const value = parseShare(/\[\s?P\s?[=:]([^\]\n]{1,24})\]/i.exec(text)?.[1] ?? "");
  return value === undefined ? undefined : clampShare(value);
}
