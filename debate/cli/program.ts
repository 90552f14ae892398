/**
 * The command line.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import { Command, CommanderError, Option } from "commander";
import { benchmarkCommand, type BenchmarkFlags } from "./benchmark_command.ts";
import type { Environment } from "./environment.ts";
import { EXIT_CODES, type ExitCode, exitCodeOf, toUsageError, writeFailure } from "./failure.ts";
import {
  BENCHMARK_EXAMPLES,
  EXAMPLES,
  LOGIN_EXAMPLES,
  PROMPTS_EXAMPLES,
  RUN_EXAMPLES,
  SERVE_EXAMPLES,
} from "./help.ts";
import { loginCommand } from "./login_command.ts";
import { addJson, countOf, once, repeated, shareOf } from "./options.ts";
import { promptsCommand, type PromptsFlags } from "./prompts_command.ts";
import { runCommand, type RunFlags } from "./run_command.ts";
import { RUN_MODES } from "../engine/run_mode.ts";
import { addRuns } from "./runs_commands.ts";
import { serveCommand, type ServeFlags } from "./serve_command.ts";

/** Builds a command tree. A command reports its exit code to `end`. */
type CreateProgram = (
  environment: Environment,
  args: readonly string[],
  end: (code: ExitCode) => void,
) => Command;

/** Runs `debate`, or another command tree, and returns the exit code. It writes to the environment's terminal only. */
export async function runProgram(
  args: readonly string[],
  environment: Environment,
  create: CreateProgram = createProgram,
): Promise<ExitCode> {
  let exitCode: ExitCode = EXIT_CODES.ok;
  const program = create(environment, args, (code) => exitCode = code);
  try {
    await program.parseAsync([...args], { from: "user" });
    return exitCode;
  } catch (error) {
    // The reader of the output has closed it, as `| head` does.
    if (error instanceof Deno.errors.BrokenPipe) return EXIT_CODES.failed;
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT_CODES.ok;
    const shown = error instanceof CommanderError ? toUsageError(error, nameOf(program, args)) : error;
    writeFailure(environment.terminal, shown, { json: args.includes("--json") });
    return environment.signal.aborted ? EXIT_CODES.interrupted : exitCodeOf(shown);
  }
}

/** The command that was meant, as it is typed. */
function nameOf(program: Command, args: readonly string[]): string {
  const names = [program.name()];
  let { commands } = program;
  for (const arg of args) {
    const next = commands.find((each) => each.name() === arg);
    if (next === undefined) break;
    names.push(arg);
    commands = next.commands;
  }
  return names.join(" ");
}

export function createProgram(
  environment: Environment,
  args: readonly string[],
  end: (code: ExitCode) => void,
): Command {
  const program = newProgram(
    "debate",
    "Diagnose a technical incident by a debate: one agent proposes causes and runs tools, a skeptic tries to prove it wrong, a moderator decides.",
    environment,
  ).helpCommand("help [command]", "explain the program or a command")
    .addHelpText("after", EXAMPLES);

  addRun(program).action(async (words: readonly string[], flags: RunFlags) => {
    refuseSlip(words, args);
    end(await runCommand(words, flags, environment));
  });
  program.command("serve")
    .description("Serve the web page and its API, until Ctrl-C.")
    .option("--host <address>", "address to listen on (WEB_HOST, 127.0.0.1)", once)
    .option("--port <number>", "port to listen on (WEB_PORT, 8000)", countOf(1, 65_535))
    .addHelpText("after", SERVE_EXAMPLES)
    .action(async (flags: ServeFlags) => end(await serveCommand(flags, environment)));
  program.command("login")
    .description("Get an access token of provider B in your browser, and keep it.")
    .addHelpText("after", LOGIN_EXAMPLES)
    .action(async () => end(await loginCommand(environment)));
  addJson(
    program.command("benchmark")
      .description("Compare stored runs with known causes, without any model.")
      .requiredOption("--cases <file>", "JSON array of {id, ground_truth, run or run_file}", once)
      .option("--threshold <number>", "similarity that is a match, 0 to 1", shareOf, 0.5)
      .option("--output <file>", "write the whole report there, as JSON", once),
    "the report",
  )
    .addHelpText("after", BENCHMARK_EXAMPLES)
    .action(async (flags: BenchmarkFlags) => end(await benchmarkCommand(flags, environment)));
  addRuns(program, environment, end);
  addJson(
    program.command("prompts")
      .description("List the prompt templates, and what is wrong with your own.")
      .option("--show <name.lang>", "print a built-in one, to start from", once),
    "the list",
  )
    .addHelpText("after", PROMPTS_EXAMPLES)
    .action(async (flags: PromptsFlags) => end(await promptsCommand(flags, environment)));
  return program;
}

/** A command that writes to the environment's terminal and never ends the process. */
export function newProgram(name: string, description: string, { terminal }: Environment): Command {
  return new Command(name)
    .description(description)
    .exitOverride()
    .configureOutput({
      writeOut: terminal.out,
      writeErr: terminal.err,
      outputError: () => {},
      getOutHasColors: () => false,
      getErrHasColors: () => false,
      getOutHelpWidth: () => terminal.width,
      getErrHelpWidth: () => terminal.width,
    })
    .helpOption("-h, --help", "explain the program or a command");
}

function addRun(program: Command): Command {
  const command = program.command("run [topic...]", { isDefault: true })
    .description("Hold one debate and print its result; a topic without a command does the same.")
    .option("-f, --file <file>", "the incident, a text file", once)
    .option("--base-context <file>", "general background, a text file (repeatable)", repeated)
    .option("--no-redact-context", "send secrets in these files to the models")
    .option("--project <folder>", "add files of a project, within ALLOWED_PROJECT_ROOTS", once)
    .option(
      "--include <glob>",
      "which files of the project (repeatable; default: README, manifests, src, tests)",
      repeated,
    )
    .option("--max-files <n>", "how many files of the project", countOf(1, 10_000), 20)
    .option("--max-chars-per-file <n>", "how many characters of each file", countOf(1, 10_000_000), 12_000)
    .option("--template <name>", "prompt template (PROMPT_TEMPLATE, default)", once)
    .option("--language <code>", "its language (PROMPT_LANGUAGE, en)", once)
    .addOption(
      new Option("--mode <mode>", "how to hold it (DEBATE_MODE, debate)").choices(RUN_MODES),
    )
    .option(
      "--early-out-threshold <n>",
      "confidence to end early, 0 to 1 (EARLY_OUT_THRESHOLD, 0.9)",
      shareOf,
    )
    .option("--no-compress-history", "give every agent the whole history")
    .option("--show-history", "print the whole debate before the result");
  return addJson(command, "the whole record of the run").addHelpText("after", RUN_EXAMPLES);
}

/** A misspelt command must not become the topic of a debate, which costs money. */
function refuseSlip(words: readonly string[], args: readonly string[]): void {
  const [topic = ""] = words;
  if (words.length !== 1 || /\s/.test(topic) || args.includes("run")) return;
  throw new AppError(
    "invalid_request",
    `There is no command ${JSON.stringify(topic)}; for a topic of one word: debate run ${topic}`,
  );
}
