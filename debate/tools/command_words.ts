/**
 * Splits a command line into words. There is no shell: what a shell would act upon is refused, so that nobody
 * takes the command for more than it is.
 *
 * @module
 */

/** At least one word, or the reason for a refusal. */
type SplitCommand =
  | { readonly kind: "words"; readonly words: readonly string[] }
  | { readonly kind: "refused"; readonly reason: string };

const MAX_LENGTH = 4000;
const MAX_WORDS = 100;

/**
 * Splits at blanks. Quotes group as in a POSIX shell, a backslash quotes the next character.
 * `; | & > < $ ` ( )` and backquotes are refused outside single quotes, `$` and backquotes also in double
 * ones, control characters everywhere.
 */
export function splitCommand(text: string): SplitCommand {
  if (text.length > MAX_LENGTH) return refused(`the command is longer than ${MAX_LENGTH} characters`);
  if (/(?!\t)[\p{Cc}\p{Zl}\p{Zp}]/u.test(text)) {
    return refused("the command has a line break or another control character");
  }
  if (!text.isWellFormed()) return refused("the command is not valid Unicode");
  const words: string[] = [];
  let word: string | undefined;
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at);
    if (character === " " || character === "\t") {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else if (character === "'") {
      const end = text.indexOf("'", at + 1);
      if (end < 0) return refused("a quote is not closed");
      word = (word ?? "") + text.slice(at + 1, end);
      at = end;
    } else if (character === '"') {
      const quoted = readDoubleQuotes(text, at + 1);
      if (quoted.kind === "refused") return quoted;
      word = (word ?? "") + quoted.value;
      at = quoted.end;
    } else if (character === "\\") {
      at++;
      if (at === text.length) return refused("the command ends in a backslash");
      word = (word ?? "") + text.charAt(at);
    } else if (/[;|&<>$`()]/.test(character)) {
      return refused(
        `there is no shell: ${character} is not possible here; give one program with its arguments`,
      );
    } else {
      word = (word ?? "") + character;
    }
  }
  if (word !== undefined) words.push(word);
  if (words.length === 0) return refused("the command is empty");
  return words.length > MAX_WORDS
    ? refused(`the command has more than ${MAX_WORDS} words`)
    : { kind: "words", words };
}

type Quoted =
  | { readonly kind: "quoted"; readonly value: string; readonly end: number }
  | { readonly kind: "refused"; readonly reason: string };

function readDoubleQuotes(text: string, start: number): Quoted {
  let value = "";
  for (let at = start; at < text.length; at++) {
    const character = text.charAt(at);
    if (character === '"') return { kind: "quoted", value, end: at };
    if (character === "$" || character === "`") {
      return refused(`there is no shell: ${character} is not possible here`);
    }
    if (character === "\\" && /["\\$`]/.test(text.charAt(at + 1))) at++;
    value += text.charAt(at);
  }
  return refused("a quote is not closed");
}

function refused(reason: string): { readonly kind: "refused"; readonly reason: string } {
  return { kind: "refused", reason };
}
