/**
 * `debate prompts`: lists the prompt templates.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import { BUILTIN_TEXTS } from "../prompts/builtin.ts";
import { listTemplates, loadTemplates } from "../prompts/templates.ts";
import { type Environment, readSettings } from "./environment.ts";
import { EXIT_CODES, type ExitCode } from "./failure.ts";
import { safeLine, safeText } from "./terminal.ts";

export interface PromptsFlags {
  readonly show?: string;
  readonly json?: boolean;
}

const MAX_DESCRIPTION = 200;

/** Lists the templates and what is wrong with files that cannot be used; or prints a built-in one to start from. */
export async function promptsCommand(flags: PromptsFlags, environment: Environment): Promise<ExitCode> {
  const { terminal } = environment;
  if (flags.show !== undefined) {
    terminal.out(findBuiltin(flags.show));
    return EXIT_CODES.ok;
  }
  const { PROMPTS_DIR } = await readSettings(environment);
  const set = await loadTemplates(PROMPTS_DIR);
  const templates = listTemplates(set);
  if (flags.json === true) {
    terminal.out(`${JSON.stringify({ templates, problems: set.problems.map(({ message }) => message) })}\n`);
  } else {
    const width = Math.max(...templates.map(({ name }) => name.length));
    terminal.out(`${"Name".padEnd(width)}  Lang  Source   Version  Description\n`);
    for (const { name, language, source, version, description } of templates) {
      const cells = [name.padEnd(width), language.padEnd(4), source.padEnd(7), String(version).padEnd(7)];
      terminal.out(`${cells.join("  ")}  ${safeLine(description, MAX_DESCRIPTION)}\n`);
    }
    terminal.err(`\nYour own are read from ${safeText(PROMPTS_DIR)}\n`);
  }
  for (const { message } of set.problems) terminal.err(`error: ${safeText(message)}\n`);
  return set.problems.length === 0 ? EXIT_CODES.ok : EXIT_CODES.usage;
}

function findBuiltin(id: string): string {
  const text = Object.hasOwn(BUILTIN_TEXTS, `${id}.yaml`) ? BUILTIN_TEXTS[`${id}.yaml`] : undefined;
  if (text !== undefined) return text;
  const known = Object.keys(BUILTIN_TEXTS).map((name) => name.replace(/\.yaml$/, "")).join(", ");
  throw new AppError(
    "invalid_request",
    `There is no built-in template ${JSON.stringify(id)}; there are ${known}`,
  );
}
