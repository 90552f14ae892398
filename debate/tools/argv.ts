/**
 * Arguments against an allowlist of options. What passes is written anew, in one form, so that the program
 * reads it exactly as it was checked: no abbreviation, no bundle, no option that is not in the rule.
 *
 * @module
 */

/** How an operand or an option's value must look. `path` is checked by whoever runs the program. */
export type ValueRule = RegExp | "path" | "text";

/** What a program, or one of its subcommands, may be given. */
export interface ArgumentRule {
  /** Options without a value, by their names without dashes, with blanks between. */
  readonly flags?: string;
  /** Options with a value. */
  readonly values?: Readonly<Record<string, ValueRule>>;
  /** The first operands. */
  readonly operands?: readonly ValueRule[];
  /** Operands after those; absent: there are none. */
  readonly rest?: ValueRule;
  /** Operands at least. */
  readonly min?: number;
  /** Put before all else. */
  readonly always?: readonly string[];
  /** Put before all else unless one of these options is given. */
  readonly unless?: { readonly options: readonly string[]; readonly add: readonly string[] };
  /** Put behind all options when one of these is given: they have the last word. */
  readonly with?: { readonly options: readonly string[]; readonly add: readonly string[] };
  /** The option that `-20` stands for. */
  readonly dashNumber?: string;
  /** Options have one dash however long they are, and come after the operands, as with `find`. */
  readonly style?: "find" | "one-dash";
  /** A last word about all operands: why not, or `undefined`. */
  readonly check?: (operands: readonly string[]) => string | undefined;
}

/** A word of the command to run. */
export interface Argument {
  readonly kind: "word" | "path";
  readonly text: string;
}

/** The arguments to run a program with. */
export type CheckedArguments =
  | { readonly kind: "arguments"; readonly args: readonly Argument[] }
  | { readonly kind: "refused"; readonly reason: string };

/** Checks the words after a program's name. */
export function checkArguments(words: readonly string[], rule: ArgumentRule): CheckedArguments {
  const options: Argument[] = [];
  const operands: string[] = [];
  const seen = new Set<string>();
  const flags = new Set((rule.flags ?? "").split(" ").filter((name) => name !== ""));
  const rest = [...words];
  let onlyOperands = false;

  const addValue = (name: string, value: string | undefined): string | undefined => {
    const shape = Object.hasOwn(rule.values ?? {}, name) ? rule.values?.[name] : undefined;
    if (shape === undefined) return `${dashed(name, rule)} is not possible here`;
    if (value === undefined) return `${dashed(name, rule)} needs a value`;
    if (!fits(value, shape)) return `${JSON.stringify(value)} is not possible for ${dashed(name, rule)}`;
    seen.add(name);
    const isLong = name.length > 1 && rule.style === undefined;
    if (isLong) options.push(word(`--${name}=${value}`));
    else options.push(word(dashed(name, rule)), { kind: shape === "path" ? "path" : "word", text: value });
    return undefined;
  };
  const addFlag = (name: string): void => {
    seen.add(name);
    options.push(word(dashed(name, rule)));
  };

  for (let text = rest.shift(); text !== undefined; text = rest.shift()) {
    if (onlyOperands || text === "-" || !text.startsWith("-")) {
      operands.push(text);
      continue;
    }
    let problem: string | undefined;
    if (text === "--") {
      onlyOperands = true;
    } else if (rule.style !== undefined) {
      const name = text.slice(1);
      if (flags.has(name)) addFlag(name);
      else problem = addValue(name, rest.shift());
    } else if (text.startsWith("--")) {
      const [, name = "", value] = /^--([^=]*)(?:=(.*))?$/s.exec(text) ?? [];
      // A single letter has one dash only.
      if (name.length < 2) problem = `${text} is not possible here`;
      else if (flags.has(name) && value === undefined) addFlag(name);
      else problem = addValue(name, value ?? rest.shift());
    } else if (rule.dashNumber !== undefined && /^-\d+$/.test(text)) {
      problem = addValue(rule.dashNumber, text.slice(1));
    } else {
      problem = addBundle(text.slice(1));
    }
    if (problem !== undefined) return { kind: "refused", reason: problem };
  }
  return finish(rule, options, operands, seen);

  /** `-abc`, where the last one may have its value attached or in the next word. */
  function addBundle(letters: string): string | undefined {
    for (let at = 0; at < letters.length; at++) {
      const letter = letters.charAt(at);
      if (flags.has(letter)) {
        addFlag(letter);
        continue;
      }
      const attached = letters.slice(at + 1).replace(/^=/, "");
      return addValue(letter, attached === "" ? rest.shift() : attached);
    }
    return undefined;
  }
}

function finish(
  rule: ArgumentRule,
  options: readonly Argument[],
  operands: readonly string[],
  seen: ReadonlySet<string>,
): CheckedArguments {
  const refuse = (reason: string) => ({ kind: "refused", reason }) as const;
  const checked: Argument[] = [];
  for (const [index, operand] of operands.entries()) {
    const shape = rule.operands?.[index] ?? rule.rest;
    if (shape === undefined) return refuse(`${JSON.stringify(operand)} is one argument too many`);
    // It would be read as an option after all.
    if (operand.startsWith("-")) {
      return refuse(`${JSON.stringify(operand)}: an argument must not start with a dash`);
    }
    if (!fits(operand, shape)) return refuse(`${JSON.stringify(operand)} is not possible here`);
    checked.push({ kind: shape === "path" ? "path" : "word", text: operand });
  }
  if (operands.length < (rule.min ?? 0)) return refuse("an argument is missing");
  const problem = rule.check?.(operands);
  if (problem !== undefined) return refuse(problem);
  const { options: instead = [], add = [] } = rule.unless ?? {};
  const fixed = [...(rule.always ?? []), ...(instead.some((name) => seen.has(name)) ? [] : add)].map(word);
  const last = (rule.with?.options.some((name) => seen.has(name)) ? rule.with.add : []).map(word);
  const args = rule.style === "find"
    ? [...checked, ...fixed, ...options, ...last]
    : [...fixed, ...options, ...last, ...checked];
  return { kind: "arguments", args };
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
