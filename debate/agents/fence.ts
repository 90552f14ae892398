/**
 * Text from outside inside of a prompt.
 *
 * @module
 */

/** The text between two lines of backticks that it cannot close, for no run of backticks in it is as long. */
export function fence(text: string): string {
  let longest = 2;
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  const line = "`".repeat(longest + 1);
  return `${line}\n${text}\n${line}`;
}
