import type { CommandOptions } from "../kit/arguments.ts";
import { Argument } from "commander";
import type { AddCommand } from "../kit/context.ts";

/** The shells that there is a completion for. */
const COMPLETION_SHELLS = ["bash", "zsh", "fish"] as const;

/** One of {@linkcode COMPLETION_SHELLS}. */
type CompletionShell = (typeof COMPLETION_SHELLS)[number];

/** What of a command tree can be completed. */
interface CompletableCommand extends CommandOptions {
  readonly commands: readonly (CompletableCommand & { name(): string; aliases(): readonly string[] })[];
  readonly options: readonly {
    readonly long?: string | undefined;
    readonly required: boolean;
    readonly argChoices?: readonly string[] | undefined;
    isBoolean(): boolean;
  }[];
}

/** What may follow at one place. */
interface Place {
  /** The words of the command so far, with blanks between; of an option that wants a value, that option behind it. */
  readonly path: string;
  readonly words: readonly string[];
}

/** A program of a shell that completes commands, options and values of a program; files where nothing else is known. */
function formatCompletion(
  shell: CompletionShell,
  program: CompletableCommand,
  name: string,
): readonly string[] {
  const places = listPlaces(program, "", []);
  const commands = listCommands(program, "");
  switch (shell) {
    case "bash":
      return formatBash(name, places, commands);
    case "zsh":
      return formatZsh(name, places, commands);
    case "fish":
      return formatFish(name, places, commands);
    default:
      return shell satisfies never;
  }
}

/** The paths of all commands: what a word may lead to. */
function listCommands(command: CompletableCommand, path: string): readonly string[] {
  return command.commands.flatMap((inner) =>
    [inner.name(), ...inner.aliases()].flatMap((name) => {
      const next = join(path, name);
      return [next, ...listCommands(inner, next)];
    })
  );
}

type Option = CompletableCommand["options"][number];

function listPlaces(command: CompletableCommand, path: string, outer: readonly Option[]): readonly Place[] {
  const options = [...command.options, ...outer].filter(({ long }) => long !== undefined);
  const values = options.filter(({ required }) => required)
    .map(({ long = "", argChoices = [] }) => ({ path: join(path, long), words: argChoices }));
  const words = [
    ...command.commands.map((inner) => inner.name()),
    ...options.map(({ long = "" }) => long),
    "--help",
  ];
  return [
    { path, words },
    ...values,
    ...command.commands.flatMap((inner) =>
      [inner.name(), ...inner.aliases()].flatMap((name) => listPlaces(inner, join(path, name), options))
    ),
  ];
}

function join(path: string, word: string): string {
  return path === "" ? word : `${path} ${word}`;
}

/** A case statement of sh: commands and options hold nothing that a shell would read. */
function formatCases(
  places: readonly Place[],
  then: (words: readonly string[]) => string,
): readonly string[] {
  return places.map(({ path, words }) => `    "${path}") ${then(words)} ;;`);
}

function formatBash(name: string, places: readonly Place[], commands: readonly string[]): readonly string[] {
  const fn = `_${name.replaceAll("-", "_")}`;
  return [
    `# Completion of ${name} for bash: source <(${name} completion bash)`,
    `${fn}() {`,
    '  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} path="" words="" i',
    "  for ((i = 1; i < COMP_CWORD; i++)); do",
    '    case "${path:+$path }${COMP_WORDS[i]}" in',
    `    ${commands.map((path) => `"${path}"`).join("|")}) path="\${path:+$path }\${COMP_WORDS[i]}" ;;`,
    "    esac",
    "  done",
    '  case "${path:+$path }$prev" in',
    ...formatCases(
      places.filter(isValue),
      (words) =>
        words.length === 0
          ? 'COMPREPLY=($(compgen -f -- "$cur")); return'
          : `COMPREPLY=($(compgen -W "${words.join(" ")}" -- "$cur")); return`,
    ),
    "  esac",
    '  case "$path" in',
    ...formatCases(places.filter((place) => !isValue(place)), (words) => `words="${words.join(" ")}"`),
    "  esac",
    '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
    "}",
    `complete -o default -F ${fn} ${name}`,
  ];
}

function formatZsh(name: string, places: readonly Place[], commands: readonly string[]): readonly string[] {
  const fn = `_${name.replaceAll("-", "_")}`;
  return [
    `#compdef ${name}`,
    `# Completion of ${name} for zsh: source <(${name} completion zsh), after compinit`,
    `${fn}() {`,
    '  local at="" word prev=${words[CURRENT-1]}',
    "  for word in ${words[2,CURRENT-1]}; do",
    '    case "${at:+$at }$word" in',
    `    ${commands.map((path) => `"${path}"`).join("|")}) at="\${at:+$at }$word" ;;`,
    "    esac",
    "  done",
    '  case "${at:+$at }$prev" in',
    ...formatCases(
      places.filter(isValue),
      (words) => words.length === 0 ? "_files; return" : `compadd -- ${words.join(" ")}; return`,
    ),
    "  esac",
    '  case "$at" in',
    ...formatCases(places.filter((place) => !isValue(place)), (words) => `compadd -- ${words.join(" ")}`),
    "  esac",
    "}",
    `compdef ${fn} ${name}`,
  ];
}

function formatFish(name: string, places: readonly Place[], commands: readonly string[]): readonly string[] {
  const fn = `__${name.replaceAll("-", "_")}`;
  const cases = (chosen: readonly Place[], then: (words: readonly string[]) => readonly string[]) =>
    chosen.flatMap((
      { path, words },
    ) => [`    case "${path}"`, ...then(words).map((line) => `      ${line}`)]);
  return [
    `# Completion of ${name} for fish: ${name} completion fish | source`,
    `function ${fn}`,
    '  set -l at ""',
    "  set -l words (commandline -opc)",
    "  for word in $words[2..-1]",
    '    switch (string trim -- "$at $word")',
    `    case ${commands.map((path) => `"${path}"`).join(" ")}`,
    '      set at (string trim -- "$at $word")',
    "    end",
    "  end",
    '  switch (string trim -- "$at $words[-1]")',
    ...cases(
      places.filter(isValue),
      (words) =>
        words.length === 0
          ? ["__fish_complete_path (commandline -ct)", "return"]
          : [`printf '%s\\n' ${words.join(" ")}`, "return"],
    ),
    "  end",
    '  switch "$at"',
    ...cases(places.filter((place) => !isValue(place)), (words) => [`printf '%s\\n' ${words.join(" ")}`]),
    "  end",
    "end",
    `complete -c ${name} -f -a "(${fn})"`,
  ];
}

function isValue({ path }: Place): boolean {
  return /(?:^| )--[^ ]+$/.test(path);
}

const EXAMPLES = `
Examples:
  source <(broker-ctl completion bash)
  broker-ctl completion zsh > "\${fpath[1]}/_broker-ctl"
  broker-ctl completion fish > ~/.config/fish/completions/broker-ctl.fish
`;

export const addCompletion: AddCommand = (program, context) => {
  program.command("completion")
    .description("Print a program for a shell that completes commands and options.")
    .addArgument(new Argument("<shell>", "which").choices(COMPLETION_SHELLS))
    .addHelpText("after", EXAMPLES)
    .action((shell: CompletionShell, _flags, command) =>
      context.run(command, [], () => {
        const lines = formatCompletion(shell, program, program.name());
        return Promise.resolve({ json: { shell, script: lines.join("\n") }, lines });
      })
    );
};
