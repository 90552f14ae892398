import { cutText, visibleText } from "@gateway/shared/text";

export interface Terminal {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** `err` is a terminal, so text may be streamed to it. */
  readonly isLive: boolean;
  readonly outColor: boolean;
  readonly errColor: boolean;
  readonly width: number;
}

/** Tab and line feed stay, because texts are printed with their lines. */
const INVISIBLE = /(?![\t\n])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Escapes characters in the text of models and tools that control the terminal or hide other text. */
export function safeText(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(INVISIBLE, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
  });
}

export function safeLine(text: string, length: number): string {
  const line = safeText(text.slice(0, 4 * length)).replace(/\s+/g, " ").trim();
  return line.length <= length ? line : `${line.slice(0, Math.max(0, length - 1)).toWellFormed()}…`;
}

/**
 * Prints the call of a tool on one line of at most `length` characters. A person may judge the call by this line, so
 * unusual white space and invisible characters are escaped too.
 */
export function exactLine(text: string, length: number): string {
  const line = visibleText(cutText(text, length));
  return line.length <= length && text.length <= length ? line : `${cutText(line, length - 1)}…`;
}

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;

export type Paint = (style: keyof typeof CODES, text: string) => string;

export function createPaint(hasColor: boolean): Paint {
  return hasColor ? (style, text) => `\x1b[${CODES[style]}m${text}\x1b[0m` : (_style, text) => text;
}

/** Wraps a text into lines of at most `width` characters. Longer words are not split. */
export function wrap(text: string, width: number): readonly string[] {
  return text.split("\n").flatMap((line) => wrapLine(line, width));
}

function wrapLine(line: string, width: number): readonly string[] {
  // Continuation lines of a list entry are aligned with its text.
  const indent = /^[ \t]*(?:[-*•]|\d{1,3}[.)])?[ \t]*/.exec(line)?.[0].replace(/\S/g, " ") ?? "";
  const lines: string[] = [];
  let current = "";
  for (const word of line.match(/(?<!\s)\s*\S+/g) ?? [""]) {
    if (current !== "" && current.length + word.length > width) {
      lines.push(current);
      current = indent.length < width / 2 ? `${indent}${word.trimStart()}` : word.trimStart();
    } else current += word;
  }
  return [...lines, current];
}
