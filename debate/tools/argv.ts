/**
 * Checks arguments against an allowlist of options. It rewrites them without abbreviations and bundles, so that
 * the program reads them exactly as they were checked.
 */
import { refuse } from "./run_program.ts";

/** The form of an operand or of an option's value. The code that runs the program checks a `path`. */
type ValueRule = RegExp | "path" | "text";

export interface ArgumentRule {
  /** Names of the options without a value, without dashes, separated by spaces. */
  readonly flags?: string;
  readonly values?: Readonly<Record<string, ValueRule>>;
  readonly operands?: readonly ValueRule[];
  /** The form of all operands after {@linkcode ArgumentRule.operands}; if absent, there may be none. */
  readonly rest?: ValueRule;
  readonly min?: number;
  readonly always?: readonly string[];
  /** Arguments to put before all others unless one of these options is given. */
  readonly unless?: { readonly options: readonly string[]; readonly add: readonly string[] };
  /** Arguments to put after all options if one of these is given, so that they take precedence. */
  readonly with?: { readonly options: readonly string[]; readonly add: readonly string[] };
  readonly dashNumber?: string;
  /** Long options have one dash too. With `find`, they come after the operands. */
  readonly style?: "find" | "one-dash";
  /** A final check of all operands, which throws to reject them. */
  readonly check?: (operands: readonly string[]) => void;
}

export interface Argument {
  readonly kind: "word" | "path";
  readonly text: string;
}

export function checkArguments(words: readonly string[], rule: ArgumentRule): readonly Argument[] {
  const options: Argument[] = [];
  const operands: string[] = [];
  const seen = new Set<string>();
  const flags = new Set((rule.flags ?? "").split(" ").filter((name) => name !== ""));
  const rest = [...words];
  let onlyOperands = false;

  const addValue = (name: string, value: string | undefined): void => {
    const shape = Object.hasOwn(rule.values ?? {}, name) ? rule.values?.[name] : undefined;
    if (shape === undefined) return refuse(`option ${dashed(name, rule)} is not allowed`);
    if (value === undefined) return refuse(`option ${dashed(name, rule)} needs a value`);
    if (!fits(value, shape)) {
      refuse(`value ${JSON.stringify(value)} is not allowed for option ${dashed(name, rule)}`);
    }
    seen.add(name);
    const isLong = name.length > 1 && rule.style === undefined;
    if (isLong) options.push(word(`--${name}=${value}`));
    else options.push(word(dashed(name, rule)), { kind: shape === "path" ? "path" : "word", text: value });
  };
  const addOption = (name: string, attached?: string): void => {
    if (!flags.has(name) || attached !== undefined) return addValue(name, attached ?? rest.shift());
    seen.add(name);
    options.push(word(dashed(name, rule)));
  };

  for (let text = rest.shift(); text !== undefined; text = rest.shift()) {
    if (onlyOperands || text === "-" || !text.startsWith("-")) operands.push(text);
    else if (text === "--") onlyOperands = true;
    else if (rule.style !== undefined) addOption(text.slice(1));
    else if (text.startsWith("--")) {
      const [, name = "", value] = /^--([^=]*)(?:=(.*))?$/s.exec(text) ?? [];
      // A single letter has only one dash.
      if (name.length < 2) refuse(`option ${text} is not allowed`);
      addOption(name, value);
    } else if (rule.dashNumber !== undefined && /^-\d+$/.test(text)) addValue(rule.dashNumber, text.slice(1));
    else addBundle(text.slice(1));
  }
  return finish(rule, options, operands, seen);

  /** Reads `-abc`. The value of the last option is attached to it or is the next word. */
  function addBundle(letters: string): void {
    for (let at = 0; at < letters.length; at++) {
      const letter = letters.charAt(at);
      if (flags.has(letter)) addOption(letter);
      else return addValue(letter, letters.slice(at + 1).replace(/^=/, "") || rest.shift());
    }
  }
}

function finish(
  rule: ArgumentRule,
  options: readonly Argument[],
  operands: readonly string[],
  seen: ReadonlySet<string>,
): readonly Argument[] {
  const checked: Argument[] = [];
  for (const [index, operand] of operands.entries()) {
    const shape = rule.operands?.[index] ?? rule.rest;
    if (shape === undefined) refuse(`argument ${JSON.stringify(operand)} is one too many`);
    // The program would read it as an option.
    if (operand.startsWith("-")) refuse(`argument ${JSON.stringify(operand)} starts with a dash`);
    if (!fits(operand, shape)) refuse(`argument ${JSON.stringify(operand)} is not allowed`);
    checked.push({ kind: shape === "path" ? "path" : "word", text: operand });
  }
  if (operands.length < (rule.min ?? 0)) refuse("an argument is missing");
  rule.check?.(operands);
  const { options: instead = [], add = [] } = rule.unless ?? {};
  const fixed = [...(rule.always ?? []), ...(instead.some((name) => seen.has(name)) ? [] : add)].map(word);
  const last = (rule.with?.options.some((name) => seen.has(name)) ? rule.with.add : []).map(word);
  return rule.style === "find"
    ? [...checked, ...fixed, ...options, ...last]
    : [...fixed, ...options, ...last, ...checked];
}

function fits(value: string, shape: ValueRule): boolean {
  if (shape === "path") return value !== "";
  return shape === "text" || shape.test(value);
}

function dashed(name: string, rule: ArgumentRule): string {
  return name.length > 1 && rule.style === undefined ? `--${name}` : `-${name}`;
}

function word(text: string): Argument {
  return { kind: "word", text };
}

/** The options with a value, in groups of one form. Names are separated by spaces. */
export function shapes(...groups: readonly (readonly [shape: ValueRule, names: string])[]) {
  return Object.fromEntries(
    groups.flatMap(([shape, names]) => names.split(" ").map((name) => [name, shape])),
  );
}

const MAX_LENGTH = 4000;
const MAX_WORDS = 100;

/**
 * Splits a command at spaces and tabs. Quotes group words as in a POSIX shell, and a backslash quotes the next
 * character. Because no shell runs, the characters `; | & > < $ ( )` and backquotes are rejected outside single
 * quotes (`$` and backquotes in double quotes as well), and control characters everywhere.
 */
export function splitCommand(text: string): readonly string[] {
  if (text.length > MAX_LENGTH) refuse(`the command is longer than ${MAX_LENGTH} characters`);
  if (/(?!\t)[\p{Cc}\p{Zl}\p{Zp}]/u.test(text)) {
    refuse("the command contains a line break or another control character");
  }
  if (!text.isWellFormed()) refuse("the command is not valid Unicode");
  const words: string[] = [];
  let word: string | undefined;
  for (let at = 0; at < text.length; at = PIECE.lastIndex) {
    PIECE.lastIndex = at;
    const groups = PIECE.exec(text)?.groups ?? refuse(problemAt(text, at));
    const { space, single, double, escaped, plain } = groups;
    if (space === undefined) {
      word = (word ?? "") + (single ?? double?.replace(/\\(["\\$`])/g, "$1") ?? escaped ?? plain);
    } else {
      if (word !== undefined) words.push(word);
      word = undefined;
    }
  }
  if (word !== undefined) words.push(word);
  if (words.length === 0) refuse("the command is empty");
  if (words.length > MAX_WORDS) refuse(`the command has more than ${MAX_WORDS} words`);
  return words;
}

const PIECE =
  /(?<space>[ \t]+)|'(?<single>[^']*)'|"(?<double>(?:\\[^]|[^"\\$`])*)"|\\(?<escaped>[^])|(?<plain>[^ \t'"\\;|&<>$`()]+)/y;

function problemAt(text: string, at: number): string {
  const character = text.charAt(at);
  if (character === "\\") return "the command ends in a backslash";
  const inside = character === '"' ? /^(?:\\[^]|[^"\\$`])*([$`])/.exec(text.slice(at + 1))?.[1] : undefined;
  if (inside !== undefined) return `there is no shell: remove ${inside}`;
  if (/['"]/.test(character)) return "a quote is not closed";
  return `there is no shell: remove ${character} and give one program with its arguments`;
}
