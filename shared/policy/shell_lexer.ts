// A strict lexer for the part of the shell language on which all shells agree: words, quotes, `;`, `&&`,
// `||`, `|`, comments and the duplication of a file descriptor. It rejects, with the name of the construct,
// everything that a shell would expand, run separately, or read differently from another shell. Each rule was
// tried in dash, bash, bash --posix and busybox ash. Examples of differences: `$'…'` (dash keeps the `$`),
// `10>&1` (dash passes the word `10`), `a=~` (bash expands it), `"$[1]"` (bash computes it), `2>&1>&2` (dash
// reads the second `1` as a descriptor), `"漢\""` (in Big5 the `\` is half of a letter).
import { isUnsafe } from "../text.ts";

/** An operator between two commands. */
export type CommandOperator = ";" | "&&" | "||" | "|";

/** One simple command without quotes. */
interface SimpleCommand {
  /** The words of the command, at least one. The first is the name of the command. */
  readonly words: readonly string[];
  /** The number of its descriptor duplications (`2>&1`, `>&-`). */
  readonly duplications: number;
}

/** A text that consists of simple commands only. */
export interface LexedShell {
  readonly kind: "lexed";
  /** In source order, at least one. */
  readonly commands: readonly SimpleCommand[];
  /** `operators[i]` is between `commands[i]` and `commands[i + 1]`. A trailing `;` is omitted. */
  readonly operators: readonly CommandOperator[];
}

/** A rejected construct. */
export interface LexRefusal {
  readonly kind: "refused";
  /** The name of the construct, a few words in lower case. */
  readonly reason: string;
}

/** Builds a {@linkcode LexRefusal}. */
export function refuse(reason: string): LexRefusal {
  return { kind: "refused", reason };
}

// The last line: zsh's.
const RESERVED: ReadonlySet<string> = new Set(
  ("! case coproc do done elif else esac fi for function if in namespace select then time until while " +
    "[[ ]] end foreach nocorrect repeat").split(" "),
);

/** Whether a shell reads this unquoted word as syntax in the place of a command's name. */
export function isReservedWord(word: string): boolean {
  return RESERVED.has(word);
}

// `name=`, `name+=`, in ksh93, yash and zsh also `é=`, `a.b=` and `1=`. The decoded word is checked, so a
// quoted one is rejected as well: sudo and env would read it as an assignment, and no program has such a
// name.
const ASSIGNMENT = /^[^/]+=/;

// The maximum number of commands in a text. Each simple command is matched against all rules, so thousands of
// short commands would multiply the work.
const MAX_COMMANDS = 64;

/** Splits a text into simple commands, or names the construct that is none. Linear in the length of the text. */
export function lexShell(text: string): LexedShell | LexRefusal {
  const commands: SimpleCommand[] = [];
  const operators: CommandOperator[] = [];
  let words: string[] = [];
  let duplications = 0;
  let at = 0;
  while (true) {
    const atName = words.length === 0;
    const token = nextToken(text, at, atName);
    switch (token.kind) {
      case "refused":
        return token;
      case "word":
        if (commands.length === MAX_COMMANDS) return refuse(`more than ${MAX_COMMANDS} simple commands`);
        if (atName && !token.quoted && isReservedWord(token.text)) {
          return refuse(token.text === "!" ? "negation" : `reserved word "${token.text}"`);
        }
        if (atName && ASSIGNMENT.test(token.text)) return refuse("environment assignment");
        if (atName && /.:$/.test(token.text)) return refuse("label, which shells read differently");
        words.push(token.text);
        break;
      case "duplication":
        duplications += 1;
        break;
      case "operator":
        if (atName) return refuse(duplications > 0 ? "no command found" : "syntax error");
        commands.push({ words, duplications });
        operators.push(token.operator);
        words = [];
        duplications = 0;
        break;
      case "end":
        if (!atName) return { kind: "lexed", commands: [...commands, { words, duplications }], operators };
        if (commands.length === 0 || duplications > 0) return refuse("no command found");
        if (operators.at(-1) !== ";") return refuse("syntax error");
        return { kind: "lexed", commands, operators: operators.slice(0, -1) };
      default:
        token satisfies never;
    }
    at = token.next;
  }
}

/** A token; `next` is the offset after it. A word with a quoted part is never a reserved word. */
type Token =
  | LexRefusal
  | { readonly kind: "end" | "duplication"; readonly next: number }
  | { readonly kind: "operator"; readonly operator: CommandOperator; readonly next: number }
  | { readonly kind: "word"; readonly text: string; readonly quoted: boolean; readonly next: number };

/** A decoded part of a word. */
interface Part {
  readonly kind: "part";
  readonly text: string;
  readonly next: number;
}

/** Reads the next token; `atName`: the command has no word yet. */
function nextToken(text: string, at: number, atName: boolean): Token {
  while (isBlank(text[at])) at += 1;
  switch (text[at]) {
    case undefined:
      return { kind: "end", next: at };
    case "#":
      // The text has one line, so the comment ends it.
      return { kind: "end", next: text.length };
    case "|":
      if (text.startsWith("|&", at)) return refuse("pipe of standard error");
      if (mayBeHalfALetter(text, at)) return refuse(LOCALES_DIFFER);
      return text.startsWith("||", at) ? operator("||", at) : operator("|", at);
    case "&":
      if (text.startsWith("&&", at)) return operator("&&", at);
      return refuse(text.startsWith("&>", at) ? "file redirect" : "background job");
    case ";":
      return text[at + 1] === ";" || text[at + 1] === "&" ? refuse("syntax error") : operator(";", at);
    case "(":
    case ")":
      return refuse(nameParenthesis(text, at, atName));
    case "<":
    case ">":
      return readRedirect(text, at);
    default:
      return readDescriptor(text, at) ?? readWord(text, at, atName);
  }
}

function operator(operator: CommandOperator, at: number): Token {
  return { kind: "operator", operator, next: at + operator.length };
}

function nameParenthesis(text: string, at: number, atName: boolean): string {
  if (text[at] === ")") return "unquoted parenthesis";
  if (atName) return text.startsWith("((", at) ? "arithmetic command" : "subshell";
  let behind = at + 1;
  while (isBlank(text[behind])) behind += 1;
  return text[behind] === ")" ? "function definition" : "unquoted parenthesis";
}

/** A descriptor number and its redirect, or undefined if a word begins here. */
function readDescriptor(text: string, at: number): Token | undefined {
  let behind = at;
  while (isDigit(text[behind])) behind += 1;
  if (behind === at || (text[behind] !== "<" && text[behind] !== ">")) return undefined;
  const redirect = readRedirect(text, behind);
  if (redirect.kind === "refused" || behind === at + 1) return redirect;
  return refuse("file descriptor of several digits");
}

function readRedirect(text: string, at: number): Token {
  const construct = nameOf(text, at, [["<<<", "here-string"], ["<<", "here-document"]]) ??
    nameOf(text, at + 1, [["(", "process substitution"]]);
  if (construct !== undefined || text[at + 1] !== "&") return refuse(construct ?? "file redirect");
  let target = at + 2;
  while (isBlank(text[target])) target += 1;
  const isDescriptor = isDigit(text[target]) || text[target] === "-";
  // A character directly after it makes it a file name, a longer number or bash's `1-`.
  if (!isDescriptor || !isWordEnd(text[target + 1])) return refuse("file redirect");
  return { kind: "duplication", next: target + 1 };
}

function readWord(text: string, start: number, atName: boolean): Token {
  if (atName && text.startsWith("[[", start)) return refuse('reserved word "[["');
  let at = start;
  let word = "";
  let quoted = false;
  let hasEqualsSign = false;
  while (!endsWord(text[at])) {
    const part = readPart(text, at, word === "" || hasEqualsSign);
    if (part.kind === "refused") {
      return part.reason === "brace expansion" && atName && at === start ? refuse("brace group") : part;
    }
    // zsh replaces `=ls` by the path of the program `ls`, even after empty quotes.
    if (word === "" && text[at] === "=" && !endsWord(text[at + 1])) {
      return refuse("leading =, which shells read differently");
    }
    quoted ||= text[at] === "'" || text[at] === '"';
    hasEqualsSign ||= part.text.includes("=");
    word += part.text;
    at = part.next;
  }
  return { kind: "word", text: word, quoted, next: at };
}

/** A quoted part, or one unquoted character; `tilde`: some shell would expand a `~` here. */
function readPart(text: string, at: number, tilde: boolean): Part | LexRefusal {
  const character = String.fromCodePoint(text.codePointAt(at) ?? 0);
  if (character === '"') return readDoubleQuoted(text, at + 1);
  if (character === "'") {
    const end = text.indexOf("'", at + 1);
    if (end < 0) return refuse("unterminated quote");
    return { kind: "part", text: text.slice(at + 1, end), next: end + 1 };
  }
  const refused = UNQUOTED.get(character);
  if (refused !== undefined) return refuse(refused);
  if (character === "$" && !isWordEnd(text[at + 1])) return refuse(nameExpansion(text, at));
  if (character === "~" && tilde) return refuse("tilde expansion");
  // Some locales treat such a character as a space, and a person does not see it.
  if (isUnsafe(character)) return refuse("unquoted invisible character");
  return { kind: "part", text: character, next: at + character.length };
}

const UNQUOTED: ReadonlyMap<string, string> = new Map([
  ["`", "command substitution"],
  ["\\", "unquoted backslash, quote the word instead"],
  ...[..."*?["].map((character) => [character, "pathname expansion"] as const),
  ...[..."{}"].map((character) => [character, "brace expansion"] as const),
]);

/** `at` is after the opening quote. */
function readDoubleQuoted(text: string, at: number): Part | LexRefusal {
  let decoded = "";
  while (at < text.length) {
    const character = text.charAt(at);
    const following = text[at + 1];
    if (character === '"') return { kind: "part", text: decoded, next: at + 1 };
    if (character === "`") return refuse("command substitution");
    if (character === "$" && !isLiteralDollar(following)) return refuse(nameExpansion(text, at));
    if (character === "\\" && following !== undefined && '`"$\\'.includes(following)) {
      if (mayBeHalfALetter(text, at)) return refuse(LOCALES_DIFFER);
      decoded += following;
      at += 2;
    } else {
      decoded += character;
      at += 1;
    }
  }
  return refuse("unterminated quote");
}

const LOCALES_DIFFER = "letter beyond ASCII before a sign, which locales read differently";

/**
 * Whether a shell may read the `\` or `|` here as the second half of a letter. In GBK, GB18030 and Big5, letters have
 * two bytes, the second from 0x40 on, and the last byte of a UTF-8 letter may be the first of two. Clients can choose
 * the locale if sshd has `AcceptEnv LC_*`, as in Debian. Quotes, `;` and `&` are below 0x40.
 */
function mayBeHalfALetter(text: string, at: number): boolean {
  return text.charCodeAt(at - 1) > 0x7f;
}

/** Whether a `$` inside double quotes stays a `$` in every shell if this character follows it. */
function isLiteralDollar(following: string | undefined): boolean {
  return following !== undefined && " \t\"/|).,:;]}<>&%'\\".includes(following);
}

function nameExpansion(text: string, at: number): string {
  return nameOf(text, at, [
    ["$((", "arithmetic expansion"],
    ["$[", "arithmetic expansion"],
    ["$(", "command substitution"],
    ["$'", "quoting with $'…', which shells read differently"],
    ['$"', 'quoting with $"…", which shells read differently'],
  ]) ?? "parameter expansion";
}

/** The name of the first construct that begins here. */
function nameOf(text: string, at: number, names: readonly (readonly [start: string, name: string])[]) {
  return names.find(([start]) => text.startsWith(start, at))?.[1];
}

function isBlank(character: string | undefined): boolean {
  return character === " " || character === "\t";
}

function isDigit(character: string | undefined): boolean {
  return character !== undefined && character >= "0" && character <= "9";
}

/** Whether a word ends at this character. The next construct may still be rejected. */
function endsWord(character: string | undefined): boolean {
  return isWordEnd(character) || (character !== undefined && "<>()".includes(character));
}

/** Whether a word ends here with a character that cannot change its meaning. */
function isWordEnd(character: string | undefined): boolean {
  return character === undefined || " \t|&;".includes(character);
}
