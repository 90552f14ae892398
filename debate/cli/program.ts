import { AppError } from "@gateway/shared/errors";
import { Command, CommanderError, Option } from "commander";
import { RUN_MODES } from "../engine/ports.ts";
import { dirname, resolve } from "node:path";
import { loadRun, parseCases } from "../benchmark/cases.ts";
import { type CaseResult, createReport, formatReport, judgeCase } from "../benchmark/metrics.ts";
import { BUILTIN_TEXTS, listTemplates, loadTemplates } from "../prompts/templates.ts";
import { writersFrom } from "../settings/config.ts";
import { startDebateServer } from "../web/serve.ts";
import * as world from "./environment.ts";
import * as help from "./help.ts";
import * as options from "./options.ts";
import { EXIT_CODES, type ExitCode, once, usageError } from "./options.ts";
import { readFile, runCommand, type RunFlags } from "./run_command.ts";
import { addRuns } from "./runs_commands.ts";
import { safeLine, safeText } from "./terminal.ts";

type Environment = world.Environment;

/** Runs `debate` or another program and returns the exit code. It writes to the given terminal only. */
export async function runProgram(
  args: readonly string[],
  environment: Environment,
  create: typeof createProgram = createProgram,
): Promise<ExitCode> {
  let exitCode: ExitCode = EXIT_CODES.ok;
  const program = create(environment, args, (code) => exitCode = code);
  try {
    await program.parseAsync([...args], { from: "user" });
    return exitCode;
  } catch (error) {
    // The reader closed the output, for example `| head`.
    if (error instanceof Deno.errors.BrokenPipe) return EXIT_CODES.failed;
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT_CODES.ok;
    const isUsage = error instanceof CommanderError;
    const shown = isUsage ? options.toUsageError(error, nameOf(program, args)) : error;
    options.writeFailure(environment.terminal, shown, { json: args.includes("--json") });
    return environment.signal.aborted ? EXIT_CODES.interrupted : options.exitCodeOf(shown);
  }
}

function nameOf(command: Command, [first, ...rest]: readonly string[]): string {
  const next = command.commands.find((each) => each.name() === first);
  return next === undefined ? command.name() : `${command.name()} ${nameOf(next, rest)}`;
}

/** Defines the commands. A command reports its exit code to `end`. */
export function createProgram(
  environment: Environment,
  args: readonly string[],
  end: (code: ExitCode) => void,
): Command {
  const program = newProgram(
    "debate",
    "Diagnose an incident by a debate: a diagnostic agent proposes causes and runs tools, a skeptic tries to refute them, a moderator decides.",
    environment,
  ).helpCommand("help [command]", "show help")
    .addHelpText("after", help.EXAMPLES);

  const act = options.actions(end);
  act(addRun(program), (words: readonly string[], flags: RunFlags) => {
    refuseSlip(words, args);
    return runCommand(words, flags, environment);
  });
  act(
    program.command("serve")
      .description("Serve the web page and its API.")
      .option("--host <address>", "listen address (default: WEB_HOST or 127.0.0.1)", once)
      .option("--port <number>", "listen port (default: WEB_PORT or 8000)", options.countOf(1, 65_535))
      .addHelpText("after", help.SERVE_EXAMPLES),
    (flags: Parameters<typeof serveCommand>[0]) => serveCommand(flags, environment),
  );
  act(
    program.command("login")
      .description("Log in to the provider assist and store its token.")
      .addHelpText("after", help.LOGIN_EXAMPLES),
    () => loginCommand(environment),
  );
  act(
    options.addJson(
      program.command("benchmark")
        .description("Score stored runs against known causes.")
        .requiredOption("--cases <file>", "JSON file with the cases", once)
        .option("--threshold <number>", "similarity that counts as a match, 0 to 1", options.shareOf, 0.5)
        .option("--output <file>", "JSON file for the full report", once),
      "the report",
    ).addHelpText("after", help.BENCHMARK_EXAMPLES),
    (flags: Parameters<typeof benchmarkCommand>[0]) => benchmarkCommand(flags, environment),
  );
  addRuns(program, environment, act);
  act(
    options.addJson(
      program.command("prompts")
        .description("List and check the prompt templates.")
        .option("--show <name.lang>", "print a built-in template", once),
      "the list",
    ).addHelpText("after", help.PROMPTS_EXAMPLES),
    (flags: Parameters<typeof promptsCommand>[0]) => promptsCommand(flags, environment),
  );
  return program;
}

/** The command writes to the given terminal and never exits the process. */
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
    .helpOption("-h, --help", "show help");
}

function addRun(program: Command): Command {
  const command = program.command("run [topic...]", { isDefault: true })
    .description("Debate one incident (the default command).")
    .option("-f, --file <file>", "text file with the incident", once)
    .option("--base-context <file>", "text file with background (repeatable)", options.repeated)
    .option("--no-redact-context", "send secrets in the context to the models")
    .option("--project <directory>", "project to read, in ALLOWED_PROJECT_ROOTS", once)
    .option(
      "--include <glob>",
      "project files (repeatable; default: README, manifests, src, tests)",
      options.repeated,
    )
    .option("--max-files <n>", "maximum number of project files", options.countOf(1, 10_000), 20)
    .option(
      "--max-chars-per-file <n>",
      "maximum characters of a file",
      options.countOf(1, 10_000_000),
      12_000,
    )
    .option("--model <provider/name>", "model of all roles (default: DIAGNOSTIC_MODEL, …)", once)
    .option("--skeptic-model <provider/name>", "model of the skeptic, if it is not --model", once)
    .option("--moderator-model <provider/name>", "model of the moderator, if it is not --model", once)
    .option("--template <name>", "prompt template (default: PROMPT_TEMPLATE)", once)
    .option("--language <code>", "template language (default: PROMPT_LANGUAGE)", once)
    .addOption(new Option("--mode <mode>", "kind of debate (default: DEBATE_MODE)").choices(RUN_MODES))
    .option(
      "--early-out-threshold <n>",
      "confidence for an early end (default: EARLY_OUT_THRESHOLD)",
      options.shareOf,
    )
    .option("--no-compress-history", "send the full history to every agent")
    .option("--show-history", "print the debate before the result");
  return options.addJson(command, "the record of the run").addHelpText("after", help.RUN_EXAMPLES);
}

/**
 * Rejects a misspelled command, which must not become the topic of a debate, because a debate costs money.
 */
function refuseSlip(words: readonly string[], args: readonly string[]): void {
  const [topic = ""] = words;
  if (words.length !== 1 || /\s/.test(topic) || args.includes("run")) return;
  const text = `Unknown command ${JSON.stringify(topic)}; a topic of one word needs "run"`;
  throw usageError(`${text}\nfix: debate run ${topic}`);
}

async function loginCommand(environment: Environment): Promise<ExitCode | void> {
  const { terminal, signal } = environment;
  const settings = await world.readSettings(environment);
  const { deviceFlows } = await world.openProviders(settings, environment);
  const started = await deviceFlows.start(signal);
  terminal.err(
    `Open  ${safeLine(started.verification_uri, 2048)}\n` +
      `Enter ${safeLine(started.user_code, 64)}\n\n` +
      `Waiting up to ${started.expires_in} seconds for your approval. Press Ctrl-C to stop.\n`,
  );
  try {
    const ended = await deviceFlows.wait(started.device_code, signal);
    if (ended?.status !== "authorized") {
      const why = ended?.last_error ?? "the login is unknown";
      throw new AppError("upstream_failure", `Cannot log in: ${why}`);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    terminal.err("Stopped. No token was stored.\n");
    return EXIT_CODES.interrupted;
  }
  terminal.out(`Logged in. The token is stored in ${safeText(settings.ASSIST_TOKEN_FILE)}.\n`);
  if (settings.ASSIST_TOKEN !== "") {
    terminal.err("note: ASSIST_TOKEN is set and takes precedence over the stored token\n");
  }
}

const MAX_DESCRIPTION = 200;

async function promptsCommand(
  { show, json = false }: { readonly show?: string; readonly json?: boolean },
  environment: Environment,
): Promise<ExitCode | void> {
  const { terminal } = environment;
  if (show !== undefined) return terminal.out(findBuiltin(show));
  const { PROMPTS_DIR } = await world.readSettings(environment);
  const set = await loadTemplates(PROMPTS_DIR);
  const templates = listTemplates(set);
  if (json) {
    terminal.out(`${JSON.stringify({ templates, problems: set.problems.map(({ message }) => message) })}\n`);
  } else {
    const width = Math.max(...templates.map(({ name }) => name.length));
    terminal.out(`${"Name".padEnd(width)}  Lang  Source   Version  Description\n`);
    for (const { name, language, source, version, description } of templates) {
      const cells = [name.padEnd(width), language.padEnd(4), source.padEnd(7), String(version).padEnd(7)];
      terminal.out(`${cells.join("  ")}  ${safeLine(description, MAX_DESCRIPTION)}\n`);
    }
    terminal.err(`\nYour templates are read from ${safeText(PROMPTS_DIR)}\n`);
  }
  for (const { message } of set.problems) terminal.err(`error: ${safeText(message)}\n`);
  if (set.problems.length > 0) return EXIT_CODES.usage;
}

function findBuiltin(id: string): string {
  const text = Object.hasOwn(BUILTIN_TEXTS, `${id}.yaml`) ? BUILTIN_TEXTS[`${id}.yaml`] : undefined;
  if (text !== undefined) return text;
  const known = Object.keys(BUILTIN_TEXTS).map((name) => name.replace(/\.yaml$/, "")).join(", ");
  throw usageError(`Unknown template ${JSON.stringify(id)}, use one of ${known}`);
}

async function serveCommand(
  { host, port }: { readonly host?: string; readonly port?: number },
  environment: Environment,
): Promise<void> {
  const { terminal, clock, signal } = environment;
  const settings = await world.readSettings(environment, { WEB_HOST: host, WEB_PORT: port?.toString() });
  const { LOG_LEVEL } = settings;
  const write = (message: string) =>
    terminal.err(`${new Date(clock.now()).toISOString()} ${safeText(message)}\n`);
  const server = await startDebateServer(settings, environment, writersFrom(LOG_LEVEL, write));
  writersFrom(LOG_LEVEL, terminal.err).INFO(
    `The debate service is at ${server.url}\nPress Ctrl-C to stop.\n`,
  );
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
  await server.close();
}

/** Low scores are a result, not a failure. */
async function benchmarkCommand(
  { cases: file, output, threshold, json = false }: {
    readonly cases: string;
    readonly output?: string;
    readonly threshold: number;
    readonly json?: boolean;
  },
  environment: Environment,
): Promise<void> {
  const { terminal, clock, workingFolder } = environment;
  const path = resolve(workingFolder, file);
  const results: CaseResult[] = [];
  for (const each of parseCases(new TextDecoder().decode((await readFile(path, file)).bytes), file)) {
    // Records can be large, so only one is in memory.
    const judged = await loadRun(each, (name) => Deno.readTextFile(resolve(dirname(path), name)));
    results.push(judgeCase(judged, threshold));
  }
  const report = createReport(results, { threshold, now: clock.now() });
  const text = `${JSON.stringify(report, null, 2)}\n`;
  if (output !== undefined) await world.writeOutput(output, text, environment);
  terminal.out(json ? text : `${formatReport(report).map(safeText).join("\n")}\n`);
  if (output !== undefined) terminal.err(`\nThe full report is in ${safeText(output)}\n`);
}
