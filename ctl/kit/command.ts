import { Argument, type Command, Option } from "commander";
import { CONNECTION, countOf, once, repeated } from "./arguments.ts";
import { adviseOnFiles, findFiles } from "./contexts.ts";
import {
  type CommandContext,
  type CommandResult,
  type Environment,
  type GlobalOptions,
  invalid,
  type Use,
  withHint,
} from "./output.ts";
import type { RemoteFlags } from "./client_config.ts";

/** The value of an option or argument that is not a single text. */
interface Value<T> {
  readonly text: string;
  readonly read?: (value: string, previous: never) => T;
  readonly choices?: readonly (T & string)[];
  readonly isRequired?: boolean;
  /** The command accepts the value also as its first argument. */
  readonly isPositional?: boolean;
  readonly isHidden?: boolean;
  /** The value without the option; help shows it. */
  readonly fallback?: T;
}

/** Arguments (`<name>`) and options (`--addr <addr>`), each with its help. */
export type Takes = Readonly<Record<string, string | Value<unknown>>>;

export const repeat = (text: string): Value<readonly string[]> => ({ text, read: repeated });

export const count = (text: string, min: number, max: number): Value<number> => ({
  text,
  read: countOf(min, max),
});

export const oneOf = <const T extends string>(choices: readonly T[], text: string): Value<T> => ({
  text,
  choices,
});

type Required<T> = Value<T> & { readonly isRequired: true };

/** Declares a required option. */
export function required(text: string): Required<string>;
export function required<T>(value: Value<T>): Required<T>;
export function required(value: string | Value<unknown>): Required<unknown> {
  return { ...typeof value === "string" ? { text: value } : value, isRequired: true };
}

/** Declares a required value that is an argument or an option, such as `host add web01` or `host add --name web01`. */
export const named = (text: string): Required<string> => ({ text, isRequired: true, isPositional: true });

/** The option of a name in {@linkcode Given}: `--end-user` of `endUser`. */
export function optionOf(name: string): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

type Camel<S extends string> = S extends `${infer First}-${infer Rest}` ? `${First}${Capitalize<Camel<Rest>>}`
  : S;
type NameOf<F> = F extends `-${string}, ${infer Long}` ? NameOf<Long>
  : F extends `${infer Flag} ${string}` ? NameOf<Flag>
  : F extends `--no-${infer Name}` | `--${infer Name}` ? Camel<Name>
  : F extends `<${infer Name}...>` | `[${infer Name}...]` | `<${infer Name}>` | `[${infer Name}]` ? Name
  : never;
type IsAlways<F, V> = F extends `<${string}` | `--no-${string}` | `[${string}...]` ? true
  : V extends { readonly isRequired: true } ? true
  : false;
type Taken<F, V> = V extends Value<infer T> ? T
  : F extends `<${string}...>` | `[${string}...]` ? readonly string[]
  : F extends `${string}<${string}` | `[${string}` ? string
  : F extends `${string}[${string}` ? string | true
  : boolean;

/** The arguments and options of a command line by their names, and the options of every command. */
export type Given<T> =
  & { readonly [F in keyof T as IsAlways<F, T[F]> extends true ? NameOf<F> : never]: Taken<F, T[F]> }
  & { readonly [F in keyof T as IsAlways<F, T[F]> extends true ? never : NameOf<F>]?: Taken<F, T[F]> }
  & GlobalOptions;

/** The environment of a command, its name such as `policy add`, and the flags that find a service. */
export interface Call extends Environment {
  /** All commands. */
  readonly program: Command;
  readonly name: string;
  readonly flags: RemoteFlags;
}

/** A command as its table entry declares it. */
export interface CommandSpec<T> {
  readonly name: string;
  readonly aliases?: readonly string[];
  readonly summary: string;
  readonly takes?: T;
  readonly help?: string;
  /** The rights of the command; absent: to read the file of `--config`. */
  readonly uses?: (given: Given<T>) => readonly Use[];
  /** @returns the result to write; nothing if the command has already written its output */
  readonly run: (given: Given<T>, call: Call) => Promise<CommandResult | void>;
}

/** A command as data. Help, reference page, completion and permissions are derived from it. */
export interface CommandData extends Omit<CommandSpec<Takes>, "uses" | "run"> {
  /** Commands that follow the name of this command, such as `freeze list`. */
  readonly commands?: readonly CommandEntry[];
  /** An earlier name of a command: help does not list it. */
  readonly isHidden?: boolean;
  readonly uses?: (given: never) => readonly Use[];
  readonly run: (given: never, call: Call) => Promise<CommandResult | void>;
}

/** Commands with a common first word, such as `audit verify`. */
export interface CommandGroup extends Pick<CommandData, "name" | "summary" | "help"> {
  readonly commands: readonly CommandEntry[];
}

export type CommandEntry = CommandData | CommandGroup;

/** Declares a command; the types that `run` gets come from its arguments and options. */
export function command<const T extends Takes>(spec: CommandSpec<T>): CommandData {
  return spec;
}

const VERB_ALIASES: Readonly<Record<string, readonly string[]>> = {
  list: ["ls"],
  remove: ["rm"],
  enroll: ["enrol"],
  unenroll: ["unenrol"],
};

/** Other spellings of a command: singular or plural of a group, and short forms of verbs. */
function aliasesOf({ name, commands }: { readonly name: string; readonly commands?: unknown }) {
  if (commands === undefined) return VERB_ALIASES[name] ?? [];
  return [/s$/.test(name) ? name.slice(0, -1) : /y$/.test(name) ? `${name.slice(0, -1)}ies` : `${name}s`];
}

/** Adds a command, or a group of them, to the program. */
export function addEntry(
  parent: Command,
  context: CommandContext,
  entry: CommandEntry,
  program = parent,
): void {
  const isLeaf = "run" in entry;
  const { isHidden: hidden = false, aliases: others = [] } = isLeaf ? entry : {};
  const command = parent.command(entry.name, { hidden }).description(entry.summary)
    .aliases([...new Set([...others, ...aliasesOf(entry)])]);
  if (entry.help !== undefined) command.addHelpText("after", entry.help);
  for (const each of entry.commands ?? []) addEntry(command, context, each, program);
  if (!isLeaf) return;
  const { takes = {}, uses = () => ["config"], run } = entry;
  for (const [flags, value] of Object.entries({ ...CONNECTION, ...takes })) {
    addValue(command, flags, value);
  }
  const margin = entry.help === undefined ? "\n" : "";
  command.addHelpText("after", `${margin}Options of all commands: broker-ctl help connection`);
  const name = parent.parent === null ? entry.name : `${parent.name()} ${entry.name}`;
  command.action(() => {
    const given = readGiven(command, takes, name);
    const used = uses(given as never);
    return context.run(command, used, async () => {
      const isFound = used.includes("config") || used.includes("clientConfig");
      const files = isFound ? await findFiles(given, used, context) : {};
      // The check for expired certificates reads these options too.
      for (const option of ["config", "clientConfig", "context"] as const) {
        if (files[option] !== undefined) command.setOptionValue(option, files[option]);
      }
      const flags = { ...given, ...command.optsWithGlobals() };
      if (flags["output"] === "json") flags["json"] = true;
      return withHint(adviseOnFiles(files), () => run(flags as never, { ...context, program, name, flags }));
    });
  });
}

/** The options and arguments of a command line by their names. */
function readGiven(command: Command, takes: Takes, name: string): Readonly<Record<string, unknown>> {
  const given = command.optsWithGlobals();
  for (const [index, argument] of command.registeredArguments.entries()) {
    const [key, value] = [argument.name(), command.processedArgs[index]];
    if (value === undefined) continue;
    if (given[key] !== undefined && given[key] !== value) {
      throw invalid(`Cannot use ${key} "${value}" with --${key} "${given[key]}": pass one of them`);
    }
    given[key] = value;
  }
  const missing = Object.entries(takes).find(([flags, value]) =>
    typeof value !== "string" && value.isPositional === true &&
    given[/\w+/.exec(flags)?.[0] ?? ""] === undefined
  );
  if (missing === undefined) return given;
  throw invalid("Missing required argument 'name'", undefined, `broker-ctl ${name} --help`);
}

function addValue(command: Command, flags: string, value: string | Value<unknown>): void {
  const { text, read, choices, isRequired, isPositional, isHidden = false, fallback } =
    typeof value === "string" ? { text: value } as Value<unknown> : value;
  const isOption = flags.startsWith("-");
  const added = isOption ? new Option(flags, text) : new Argument(flags, text);
  const parse = read ?? (isOption && flags.includes("<") ? once : undefined);
  if (choices !== undefined) added.choices(choices);
  else if (parse !== undefined) added.argParser(parse as (value: string) => unknown);
  if (fallback !== undefined) added.default(fallback);
  if (added instanceof Argument) command.addArgument(added);
  else {command.addOption(
      added.makeOptionMandatory(isRequired === true && isPositional !== true).hideHelp(isHidden),
    );}
  if (isPositional === true) command.argument(flags.replace(/--(\w+) .*/, "[$1]"), text);
}
