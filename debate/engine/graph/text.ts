/** The first `max` UTF-16 units of a text, or one less rather than half a character. */
export function cut(text: string, max: number): string {
  if (text.length <= max) return text;
  const last = text.charCodeAt(max - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? max - 1 : max);
}

const MAX_CUT_WORD = 1024;

/**
 * A truncated text without its last word, since no redactor recognises half a secret. If a quoted value with line
 * breaks is cut, it is recognised by its first line alone.
 */
export function withoutCutWord(text: string): string {
  return text.slice(0, Math.max(text.search(/\s\S*$/) + 1, text.length - MAX_CUT_WORD));
}

export function linesOf(text: string): readonly string[] {
  return text.split(/\r\n|[\n\r\u2028\u2029]/);
}

export function oneLine(text: string): string {
  return text.trim().replace(/\s+/g, " ");
}

/**
 * Puts text from outside into a prompt: between two lines of backticks that it cannot close, since no run of
 * backticks in it is as long.
 */
export function fence(text: string): string {
  let longest = 2;
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  const line = "`".repeat(longest + 1);
  return `${line}\n${text}\n${line}`;
}
