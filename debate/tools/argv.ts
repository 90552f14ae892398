/**
 * Checks arguments against an allowlist of options. What passes is rewritten in one form, so that the program
 * reads it exactly as it was checked: without abbreviations, bundles, or options that are not in the rule.
 *
 * @module
 */

/** The form of an operand or of an option's value. `path` is checked by the code that runs the program. */
type ValueRule = RegExp | "path" | "text";

/** The arguments that a program, or one of its subcommands, accepts. */
export interface ArgumentRule {
  /** Options without a value: their names without dashes, separated by blanks. */
  readonly flags?: string;
  readonly values?: Readonly<Record<string, ValueRule>>;
  readonly operands?: readonly ValueRule[];
  /** Operands after those; if absent, no more are allowed. */
  readonly rest?: ValueRule;
  readonly min?: number;
  /** Arguments that are put before all others. */
  readonly always?: readonly string[];
  /** Arguments that are put before all others unless one of these options is given. */
  readonly unless?: { readonly options: readonly string[]; readonly add: readonly string[] };
  /** Arguments that are put after all options if one of these is given, so that they take precedence. */
  readonly with?: { readonly options: readonly string[]; readonly add: readonly string[] };
  /** The option that `-20` stands for. */
  readonly dashNumber?: string;
  /** Whether options have one dash even if they are long, and come after the operands, as with `find`. */
  readonly style?: "find" | "one-dash";
  /** A final check of all operands: the reason for a refusal, or `undefined`. */
  readonly check?: (operands: readonly string[]) => string | undefined;
}

/** A word of the command that is run. */
export interface Argument {
  readonly kind: "word" | "path";
  readonly text: string;
}

/** The arguments to run a program with. */
type CheckedArguments =
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
      // A single letter has only one dash.
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

  /** `-abc`, where the last option may have its value attached or in the next word. */
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
    // The program would read it as an option.
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
