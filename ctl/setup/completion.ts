import type { Command, Option } from "commander";
import { command, oneOf } from "../kit/command.ts";

/** A place in a command line, and the words that may follow there. */
interface Place {
  /** The words of the command, followed by an option that needs a value. */
  readonly path: string;
  readonly words: readonly string[];
}

interface Places {
  readonly commands: readonly Place[];
  /** Places after an option that needs a value; without words, the value is a file. */
  readonly values: readonly Place[];
  /** The paths of all commands. */
  readonly paths: readonly string[];
}

function findPlaces(program: Command): Places {
  const places = listPlaces(program, "", []);
  const isValue = ({ path }: Place) => /(?:^| )--[^ ]+$/.test(path);
  const commands = places.filter((place) => !isValue(place));
  return { commands, values: places.filter(isValue), paths: commands.slice(1).map(({ path }) => path) };
}

function listPlaces(command: Command, path: string, outer: readonly Option[]): readonly Place[] {
  const at = (word: string) => path === "" ? word : `${path} ${word}`;
  const options = [...command.options, ...outer].filter(({ long, hidden }) => long !== undefined && !hidden);
  const longs = options.map(({ long }) => long ?? "");
  return [
    { path, words: [...command.commands.map((inner) => inner.name()), ...longs, "--help"] },
    ...options.filter(({ required }) => required)
      .map(({ long, argChoices = [] }) => ({ path: at(long ?? ""), words: argChoices })),
    // The plurals of groups would double the script.
    ...command.commands.flatMap((inner) =>
      [inner.name(), ...inner.commands.length > 0 ? [] : inner.aliases()]
        .flatMap((name) => listPlaces(inner, at(name), options))
    ),
  ];
}

/** Cases of a shell's case statement. Commands and options hold no character that a shell interprets. */
function formatCases(places: readonly Place[], then: (words: string) => string): readonly string[] {
  return places.map(({ path, words }) => `    "${path}") ${then(words.join(" "))} ;;`);
}

function formatBash(name: string, { commands, values, paths }: Places): readonly string[] {
  const fn = `_${name.replaceAll("-", "_")}`;
  return [
    `# Completion of ${name} for bash: source <(${name} completion bash)`,
    `${fn}() {`,
    '  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} path="" words="" i',
    "  for ((i = 1; i < COMP_CWORD; i++)); do",
    '    case "${path:+$path }${COMP_WORDS[i]}" in',
    `    ${paths.map((path) => `"${path}"`).join("|")}) path="\${path:+$path }\${COMP_WORDS[i]}" ;;`,
    "    esac",
    "  done",
    '  case "${path:+$path }$prev" in',
    ...formatCases(
      values,
      (words) => `COMPREPLY=($(compgen ${words === "" ? "-f" : `-W "${words}"`} -- "$cur")); return`,
    ),
    "  esac",
    '  case "$path" in',
    ...formatCases(commands, (words) => `words="${words}"`),
    "  esac",
    '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
    "}",
    `complete -o default -F ${fn} ${name}`,
  ];
}

function formatZsh(name: string, { commands, values, paths }: Places): readonly string[] {
  const fn = `_${name.replaceAll("-", "_")}`;
  return [
    `#compdef ${name}`,
    `# Completion of ${name} for zsh: source <(${name} completion zsh), after compinit`,
    `${fn}() {`,
    '  local at="" word prev=${words[CURRENT-1]}',
    "  for word in ${words[2,CURRENT-1]}; do",
    '    case "${at:+$at }$word" in',
    `    ${paths.map((path) => `"${path}"`).join("|")}) at="\${at:+$at }$word" ;;`,
    "    esac",
    "  done",
    '  case "${at:+$at }$prev" in',
    ...formatCases(values, (words) => words === "" ? "_files; return" : `compadd -- ${words}; return`),
    "  esac",
    '  case "$at" in',
    ...formatCases(commands, (words) => `compadd -- ${words}`),
    "  esac",
    "}",
    `compdef ${fn} ${name}`,
  ];
}

function formatFish(name: string, { commands, values, paths }: Places): readonly string[] {
  const fn = `__${name.replaceAll("-", "_")}`;
  const cases = (places: readonly Place[], then: (words: string) => readonly string[]) =>
    places.flatMap(({ path, words }) => [
      `    case "${path}"`,
      ...then(words.join(" ")).map((line) => `      ${line}`),
    ]);
  return [
    `# Completion of ${name} for fish: ${name} completion fish | source`,
    `function ${fn}`,
    '  set -l at ""',
    "  set -l words (commandline -opc)",
    "  for word in $words[2..-1]",
    '    switch (string trim -- "$at $word")',
    `    case ${paths.map((path) => `"${path}"`).join(" ")}`,
    '      set at (string trim -- "$at $word")',
    "    end",
    "  end",
    '  switch (string trim -- "$at $words[-1]")',
    ...cases(values, (words) => [
      words === "" ? "__fish_complete_path (commandline -ct)" : `printf '%s\\n' ${words}`,
      "return",
    ]),
    "  end",
    '  switch "$at"',
    ...cases(commands, (words) => [`printf '%s\\n' ${words}`]),
    "  end",
    "end",
    `complete -c ${name} -f -a "(${fn})"`,
  ];
}

const FORMATS = { bash: formatBash, zsh: formatZsh, fish: formatFish };

const EXAMPLES = `
Examples:
  source <(broker-ctl completion bash)
  broker-ctl completion zsh > "\${fpath[1]}/_broker-ctl"
  broker-ctl completion fish > ~/.config/fish/completions/broker-ctl.fish
`;

export const COMPLETION = command({
  name: "completion",
  summary: "Print a completion script for a shell.",
  takes: { "<shell>": oneOf(["bash", "zsh", "fish"], "shell") },
  help: EXAMPLES,
  uses: () => [],
  run({ shell }, { program }) {
    const lines = FORMATS[shell](program.name(), findPlaces(program));
    return Promise.resolve({ json: { shell, script: lines.join("\n") }, lines });
  },
});
