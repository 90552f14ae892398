/**
 * Splits a command line into words. No shell runs it, so everything that a shell would act upon is rejected.
 */
import { refuse } from "./define_tool.ts";

const MAX_LENGTH = 4000;
const MAX_WORDS = 100;

/**
 * Splits at blanks. Quotes group as in a POSIX shell, a backslash quotes the next character.
 * `; | & > < $ ` ( )` and backquotes are refused outside single quotes, `$` and backquotes also in double
 * ones, control characters everywhere.
 */
export function splitCommand(text: string): readonly string[] {
  if (text.length > MAX_LENGTH) refuse(`the command is longer than ${MAX_LENGTH} characters`);
  if (/(?!\t)[\p{Cc}\p{Zl}\p{Zp}]/u.test(text)) {
    refuse("the command has a line break or another control character");
  }
  if (!text.isWellFormed()) refuse("the command is not valid Unicode");
  const words: string[] = [];
  let word: string | undefined;
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at);
    if (character === " " || character === "\t") {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else if (character === "'") {
      const end = text.indexOf("'", at + 1);
      if (end < 0) refuse("a quote is not closed");
      word = (word ?? "") + text.slice(at + 1, end);
      at = end;
    } else if (character === '"') {
      const quoted = readDoubleQuotes(text, at + 1);
      word = (word ?? "") + quoted.value;
      at = quoted.end;
    } else if (character === "\\") {
      at++;
      if (at === text.length) refuse("the command ends in a backslash");
      word = (word ?? "") + text.charAt(at);
    } else if (/[;|&<>$`()]/.test(character)) {
      refuse(`there is no shell: ${character} is not possible here; give one program with its arguments`);
    } else {
      word = (word ?? "") + character;
    }
  }
  if (word !== undefined) words.push(word);
  if (words.length === 0) refuse("the command is empty");
  if (words.length > MAX_WORDS) refuse(`the command has more than ${MAX_WORDS} words`);
  return words;
}

function readDoubleQuotes(text: string, start: number): { readonly value: string; readonly end: number } {
  let value = "";
  for (let at = start; at < text.length; at++) {
    const character = text.charAt(at);
    if (character === '"') return { value, end: at };
    if (character === "$" || character === "`") {
      refuse(`there is no shell: ${character} is not possible here`);
    }
    if (character === "\\" && /["\\$`]/.test(text.charAt(at + 1))) at++;
    value += text.charAt(at);
  }
  return refuse("a quote is not closed");
}
