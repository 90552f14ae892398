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

/** The text of UTF-8 bytes; `undefined` for anything else. An incomplete last character of a cut file is dropped. */
export function decodeText(bytes: Uint8Array, isCut = false): string | undefined {
  if (bytes.includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: isCut });
  } catch {
    return undefined;
  }
}
