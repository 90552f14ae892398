import type { Command } from "commander";
import { createProgram as createBrokerCtl } from "../../ctl/program.ts";
import { createProgram as createDebate } from "../../debate/cli/program.ts";

const NOTHING = () => {};
let written = "";
const out = (text: string) => void (written += text);
const ENVIRONMENT = { workingFolder: "/nowhere", variables: {} };

/** Our programs with subcommands, by the names that documents use; what is asked of them here is not done. */
export const PROGRAMS: Readonly<Record<string, Command>> = {
  "broker-ctl": createBrokerCtl({
    ...ENVIRONMENT,
    terminal: { out, err: NOTHING },
    run: () => Promise.resolve(),
  }),
  debate: createDebate(
    {
      ...ENVIRONMENT,
      terminal: { out, err: NOTHING, isLive: false, outColour: false, errColour: false, width: 100 },
      clock: { now: () => 0, sleep: () => Promise.resolve() },
      randomBytes: (length) => new Uint8Array(length),
      signal: new AbortController().signal,
    },
    [],
    NOTHING,
  ),
};

/** What `--help` prints, command by command. */
export const EXAMPLES: readonly { readonly command: string; readonly help: string }[] = Object.values(
  PROGRAMS,
)
  .flatMap(withCommands).map((command) => ({ command: command.name(), help: helpOf(command) }));

/** What `--help` prints for a command of these programs. */
export function helpOf(command: Command): string {
  written = "";
  command.outputHelp();
  return written;
}

function withCommands(command: Command): readonly Command[] {
  return [command, ...command.commands.flatMap(withCommands)];
}

/** All options of a program and its commands, such as `--json`. */
export function optionsOf(program: Command): string[] {
  return withCommands(program).flatMap(({ options }) => options.map(({ long }) => long)).filter((long) =>
    long != null
  );
}

/** What does not exist of a command line's subcommands, options and arguments; undefined when all of it does. */
export function findMistake(program: Command, words: readonly string[]): string | undefined {
  const [first = ""] = words;
  // A topic, or an option, in place of a command.
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
