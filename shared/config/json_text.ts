/**
 * What those who walk over a JSON text share.
 *
 * @module
 */

/** How many characters are looked at in one step: a fraction of a millisecond. */
export const CHARACTERS_A_STEP: number = 1 << 14;

/** Where the text goes on after the string that starts here; `undefined` when it does not end. */
export function endOfString(text: string, start: number): number | undefined {
  let quote = text.indexOf('"', start + 1);
  while (quote !== -1 && isEscaped(text, quote)) quote = text.indexOf('"', quote + 1);
  return quote === -1 ? undefined : quote + 1;
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text[at - 1 - backslashes] === "\\") backslashes++;
  return backslashes % 2 === 1;
}
