/**
 * A command line against the programs that may be run.
 *
 * @module
 */
import { type Argument, checkArguments } from "./argv.ts";
import { splitCommand } from "./command_words.ts";
import { PROGRAM_RULES } from "./program_rules.ts";

/** A command that may be run once its paths are checked. */
export type CheckedCommand =
  | { readonly kind: "command"; readonly program: string; readonly args: readonly Argument[] }
  | { readonly kind: "refused"; readonly reason: string };

/** Checks a command line of the model's making. */
export function checkCommand(text: string): CheckedCommand {
  const split = splitCommand(text);
  if (split.kind === "refused") return split;
  const [program = "", ...words] = split.words;
  if (!Object.hasOwn(PROGRAM_RULES, program)) {
    return refused(
      `${JSON.stringify(program)} is not among the programs: ${Object.keys(PROGRAM_RULES).join(", ")}`,
    );
  }
  const rule = PROGRAM_RULES[program] ?? {};
  if (!("commands" in rule)) return prefixed(program, [], checkArguments(words, rule));
  const [command = "", ...others] = words;
  if (!Object.hasOwn(rule.commands, command)) {
    return refused(`${program} needs one of: ${Object.keys(rule.commands).join(", ")}`);
  }
  const checked = checkArguments(others, rule.commands[command] ?? {});
  return prefixed(program, [{ kind: "word", text: command }], checked);
}

function prefixed(
  program: string,
  first: readonly Argument[],
  checked: ReturnType<typeof checkArguments>,
): CheckedCommand {
  if (checked.kind === "refused") return refused(`${program}: ${checked.reason}`);
  return { kind: "command", program, args: [...first, ...checked.args] };
}

function refused(reason: string): CheckedCommand {
  return { kind: "refused", reason };
}
