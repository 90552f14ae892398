import type { Command } from "commander";
import { createProgram as createBrokerCtl } from "../../ctl/program.ts";
import { createProgram as createDebate } from "../../debate/cli/program.ts";

const NOTHING = () => {};
let written = "";
const out = (text: string) => void (written += text);
const ENVIRONMENT = { workingFolder: "/nowhere", variables: {} };

/** The programs with subcommands, by the names that documents use. Their actions do nothing here. */
export const PROGRAMS: Readonly<Record<string, Command>> = {
  "broker-ctl": createBrokerCtl({
    ...ENVIRONMENT,
    terminal: { out, err: NOTHING },
    run: () => Promise.resolve(),
  }),
  debate: createDebate(
    {
      ...ENVIRONMENT,
      terminal: { out, err: NOTHING, isLive: false, outColor: false, errColor: false, width: 100 },
      clock: { now: () => 0, sleep: () => Promise.resolve() },
      randomBytes: (length) => new Uint8Array(length),
      signal: new AbortController().signal,
    },
    [],
    NOTHING,
  ),
};

/** The help of each command. */
export const EXAMPLES: readonly { readonly command: string; readonly help: string }[] = Object.values(
  PROGRAMS,
)
  .flatMap(withCommands).map((command) => ({ command: command.name(), help: helpOf(command) }));

/** Returns the output of `--help` for a command of these programs. */
export function helpOf(command: Command): string {
  written = "";
  command.outputHelp();
  return written;
}

function withCommands(command: Command): readonly Command[] {
  return [command, ...command.commands.flatMap(withCommands)];
}

/** Returns all options of a program and its commands, such as `--json`. */
export function optionsOf(program: Command): string[] {
  return withCommands(program).flatMap(({ options }) => options.map(({ long }) => long)).filter((long) =>
    long != null
  );
}

/** Returns the first subcommand, option or argument of a command line that does not exist; undefined if all exist. */
export function findMistake(program: Command, words: readonly string[]): string | undefined {
  const [first = ""] = words;
  // `debate` runs a topic if the first word is no command.
  if (program === PROGRAMS["debate"] && /^-|\s/.test(first)) return findMistake(program, ["run", ...words]);
  let command = program;
  let positionals = 0;
  const options = [...program.options];
  for (let index = 0; index < words.length; index++) {
    const word = words[index] ?? "";
    if (word === "--help" || word === "…" || word === "<command>") continue;
    if (word.startsWith("-")) {
      const [flag = ""] = word.split("=");
      const option = options.find(({ long, short }) => flag === long || flag === short);
      if (option === undefined) return `${command.name()} has no option ${flag}`;
      const mayFollow = option.required || (option.optional && words[index + 1]?.startsWith("-") === false);
      if (mayFollow && !word.includes("=")) index++;
      continue;
    }
    const next = command.commands.find((each) => each.name() === word || each.aliases().includes(word));
    if (next !== undefined) {
      command = next;
      options.push(...next.options);
    } else if (command.commands.length > 0 && /^[a-z][a-z-]*$/.test(word)) {
      return `${command.name()} has no command ${word}`;
    } else if (command.commands.length === 0) positionals++;
  }
  const takes = command.registeredArguments;
  const isTooMany = positionals > takes.length && takes.at(-1)?.variadic !== true;
  return isTooMany ? `${command.name()} takes no ${words.at(-1)}` : undefined;
}
