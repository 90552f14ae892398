import { type Command, InvalidArgumentError } from "commander";

const EXPLAINED = { text: "see broker-ctl help connection", isHidden: true };

/** The options that find a service. Every command accepts them, and `help connection` explains them. */
export const CONNECTION = {
  "--url <url>": EXPLAINED,
  "--cert <file>": EXPLAINED,
  "--key <file>": EXPLAINED,
  "--ca <file>": EXPLAINED,
};

const SINGLE_DASH_LONG = /^-[A-Za-z][A-Za-z0-9-]+(?:=|$)/;
const BOOLEAN = /^--(?<name>[a-z-]+)=(?<value>true|false)$/;

/** `-ojson` and `-o=json` of kubectl. */
const OUTPUT = /^-o=?(?=(?:table|wide|json|yaml|name)$)/;

interface ArgumentRules {
  /** The options without a value, of the program and of the command. An option with an optional value is not included. */
  readonly booleans: ReadonlySet<string>;
  /** All options of the program and of the command. */
  readonly known?: ReadonlySet<string>;
  /** The options with a value that can precede the command. */
  readonly valued?: ReadonlySet<string>;
}

export function findCommand(parent: Command | undefined, word: string): Command | undefined {
  return parent?.commands.find((command) => command.name() === word || command.aliases().includes(word));
}

/** The rules of the command in a command line, and the names in its path, such as `host add`. */
export function rulesOf(program: Command, args: readonly string[]) {
  const path = [program];
  const valued = new Set([
    ...program.options.flatMap(({ required, short, long }) =>
      required ? [short ?? long ?? "", long ?? ""] : []
    ),
    ...Object.keys(CONNECTION).map((flags) => flags.replace(/ .*/, "")),
  ]);
  const isValue = (before = "") => valued.has(before) || valued.has(`-${before}`);
  const words = args.filter((arg, index) => !arg.startsWith("-") && !isValue(args[index - 1]));
  for (const word of words) {
    const next = findCommand(path.at(-1), word);
    if (next !== undefined) path.push(next);
  }
  const options = path.flatMap(({ options }) => options);
  return {
    booleans: new Set([
      ...options.filter((option) => option.isBoolean()).map(({ long }) => (long ?? "").slice(2)),
      "help",
    ]),
    known: new Set(options.map(({ long }) => long ?? "")),
    valued,
    path: path.map((command) => command.name()).join(" "),
  };
}

/**
 * Rewrites spellings of other programs for commander: `-config f` of Go programs becomes `--config f`, `--force=true`
 * becomes `--force`, and `--force=false` disappears. An unknown `--group`
 * becomes `--groups` if the command has that option. Options before the command move behind it.
 */
export function normalizeArguments(
  args: readonly string[],
  { booleans, known = new Set(), valued }: ArgumentRules,
): string[] {
  const end = args.indexOf("--");
  const [flags, rest] = end === -1 ? [args, []] : [args.slice(0, end), args.slice(end)];
  const normalized = flags
    .map((arg) => arg.replace(OUTPUT, "--output="))
    .map((arg) => SINGLE_DASH_LONG.test(arg) ? `-${arg}` : arg)
    .map((arg) => arg.replace(/^--[^=]+/, (flag) => known.has(flag) ? flag : similarOption(flag, known)))
    .flatMap((arg) => {
      const { name, value } = BOOLEAN.exec(arg)?.groups ?? {};
      if (name === undefined || !booleans.has(name)) return [arg];
      return value === "true" ? [`--${name}`] : [];
    });
  return [...valued === undefined ? normalized : moveOptions(normalized, valued), ...rest];
}

/** The option of the command that differs only in its number, or in another way that users cannot know. */
function similarOption(flag: string, known: ReadonlySet<string>): string {
  const others = [`${flag}s`, flag.replace(/s$/, ""), flag === "--ca" ? "--ca-cert" : flag];
  return others.find((other) => known.has(other)) ?? (flag === "--ca-cert" ? "--ca" : flag);
}

/** Moves the options before the command behind it. Commander would report the options of the command as unknown. */
function moveOptions(args: readonly string[], valued: ReadonlySet<string>): readonly string[] {
  let start = 0;
  while (args[start]?.startsWith("-") === true) start += valued.has(args[start] ?? "") ? 2 : 1;
  return start < args.length ? [...args.slice(start), ...args.slice(0, start)] : args;
}

/**
 * Treats a value that looks like an option as a forgotten value: `--dir --force` must not create a directory
 * `--force`.
 */
export function once(value: string, previous: string | undefined): string {
  checkValue(value);
  if (previous !== undefined) throw new InvalidArgumentError("It was passed twice.");
  return value;
}

/** Reads an option that may be repeated. */
export function repeated(value: string, previous: readonly string[] | undefined): readonly string[] {
  checkValue(value);
  return [...previous ?? [], value];
}

/** Spaces divide the words of an audit record. */
export function asOneWord(text: string): string {
  return text.trim().replaceAll(/ +/g, "_");
}

/** Reads a whole number within bounds, given once. */
export function countOf(min: number, max: number): (value: string) => number {
  return (value) => {
    const count = /^\d{1,15}$/.test(value) ? Number(value) : NaN;
    if (count >= min && count <= max) return count;
    throw new InvalidArgumentError(`Expected a number from ${min} to ${max}.`);
  };
}

function checkValue(value: string): void {
  if (value.startsWith("-") && value !== "-") {
    throw new InvalidArgumentError(
      "The value before it is missing. For a file name that starts with a dash, write ./-name.",
    );
  }
}
