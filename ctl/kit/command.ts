import { Argument, type Command, Option } from "commander";
import { countOf, once, repeated } from "./arguments.ts";
import type { AddCommand, CommandContext, CommandResult, Environment, Use } from "./output.ts";
import type { RemoteFlags } from "./client_config.ts";

/** The value of an option or argument that is not a single text. */
interface Value<T> {
  readonly text: string;
  readonly read?: (value: string, previous: never) => T;
  readonly choices?: readonly (T & string)[];
  readonly isRequired?: boolean;
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
  & { readonly config?: string; readonly clientConfig?: string; readonly json?: boolean };

/** The environment of a command, its name such as `policy add`, and the flags that find a service. */
export interface Call extends Environment {
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
  readonly uses?: (given: never) => readonly Use[];
  readonly run: (given: never, call: Call) => Promise<CommandResult | void>;
}

/** Commands with a common first word, such as `audit verify`. */
export interface CommandGroup extends Pick<CommandData, "name" | "summary" | "help"> {
  readonly commands: readonly CommandEntry[];
}

export type CommandEntry = CommandData | CommandGroup | AddCommand;

/** Declares a command; the types that `run` gets come from its arguments and options. */
export function command<const T extends Takes>(spec: CommandSpec<T>): CommandData {
  return spec;
}

/** Adds a command, or a group of them, to the program. */
export function addEntry(parent: Command, context: CommandContext, entry: CommandEntry): void {
  if (typeof entry === "function") return entry(parent, context);
  const command = parent.command(entry.name).description(entry.summary);
  if (entry.help !== undefined) command.addHelpText("after", entry.help);
  if ("commands" in entry) return entry.commands.forEach((each) => addEntry(command, context, each));
  const { aliases = [], takes = {}, uses = () => ["config"], run } = entry;
  command.aliases([...aliases]);
  for (const [flags, value] of Object.entries(takes)) addValue(command, flags, value);
  command.action(() => {
    const args = command.registeredArguments.map((argument, index) => [
      argument.name(),
      command.processedArgs[index],
    ]);
    const given = { ...command.optsWithGlobals(), ...Object.fromEntries(args) };
    const name = parent.parent === null ? entry.name : `${parent.name()} ${entry.name}`;
    return context.run(
      command,
      uses(given as never),
      () => run(given as never, { ...context, name, flags: given }),
    );
  });
}

function addValue(command: Command, flags: string, value: string | Value<unknown>): void {
  const { text, read, choices, isRequired, fallback } = typeof value === "string"
    ? { text: value } as Value<unknown>
    : value;
  const isOption = flags.startsWith("-");
  const added = isOption ? new Option(flags, text) : new Argument(flags, text);
  const parse = read ?? (isOption && flags.includes("<") ? once : undefined);
  if (choices !== undefined) added.choices(choices);
  else if (parse !== undefined) added.argParser(parse as (value: string) => unknown);
  if (fallback !== undefined) added.default(fallback);
  if (added instanceof Argument) command.addArgument(added);
  else command.addOption(added.makeOptionMandatory(isRequired === true));
}
