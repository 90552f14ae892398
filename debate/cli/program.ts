import { AppError } from "@gateway/shared/errors";
import { Command, CommanderError, Option } from "commander";
import { RUN_MODES } from "../engine/model.ts";
import { dirname, resolve } from "node:path";
import { loadRun, parseCases } from "../benchmark/cases.ts";
import { type CaseResult, judgeCase } from "../benchmark/metrics.ts";
import { createReport, formatReport } from "../benchmark/report.ts";
import { BUILTIN_TEXTS, listTemplates, loadTemplates } from "../prompts/templates.ts";
import { writersFrom } from "../settings/config.ts";
import { startDebateServer } from "../web/serve.ts";
import * as world from "./environment.ts";
import * as help from "./help.ts";
import * as options from "./options.ts";
import { EXIT_CODES, type ExitCode, once } from "./options.ts";
import { readFile, runCommand, type RunFlags } from "./run_command.ts";
import { addRuns } from "./runs_commands.ts";
import { safeLine, safeText } from "./terminal.ts";

type Environment = world.Environment;

/** Runs `debate`, or another command tree, and returns the exit code. It writes to the environment's terminal only. */
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
    // The reader of the output has closed it, as `| head` does.
    if (error instanceof Deno.errors.BrokenPipe) return EXIT_CODES.failed;
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT_CODES.ok;
    const shown = error instanceof CommanderError
      ? options.toUsageError(error, nameOf(program, args))
      : error;
    options.writeFailure(environment.terminal, shown, { json: args.includes("--json") });
    return environment.signal.aborted ? EXIT_CODES.interrupted : options.exitCodeOf(shown);
  }
}

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

/** Builds the commands. A command reports its exit code to `end`. */
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
    .addHelpText("after", help.EXAMPLES);

  const act = options.actions(end);
  act(addRun(program), (words: readonly string[], flags: RunFlags) => {
    refuseSlip(words, args);
    return runCommand(words, flags, environment);
  });
  act(
    program.command("serve")
      .description("Serve the web page and its API, until Ctrl-C.")
      .option("--host <address>", "address to listen on (WEB_HOST, 127.0.0.1)", once)
      .option("--port <number>", "port to listen on (WEB_PORT, 8000)", options.countOf(1, 65_535))
      .addHelpText("after", help.SERVE_EXAMPLES),
    (flags: Parameters<typeof serveCommand>[0]) => serveCommand(flags, environment),
  );
  act(
    program.command("login")
      .description("Get an access token of provider B in your browser, and keep it.")
      .addHelpText("after", help.LOGIN_EXAMPLES),
    () => loginCommand(environment),
  );
  act(
    options.addJson(
      program.command("benchmark")
        .description("Compare stored runs with known causes, without any model.")
        .requiredOption("--cases <file>", "JSON array of {id, ground_truth, run or run_file}", once)
        .option("--threshold <number>", "similarity that is a match, 0 to 1", options.shareOf, 0.5)
        .option("--output <file>", "write the whole report there, as JSON", once),
      "the report",
    ).addHelpText("after", help.BENCHMARK_EXAMPLES),
    (flags: Parameters<typeof benchmarkCommand>[0]) => benchmarkCommand(flags, environment),
  );
  addRuns(program, environment, act);
  act(
    options.addJson(
      program.command("prompts")
        .description("List the prompt templates, and what is wrong with your own.")
        .option("--show <name.lang>", "print a built-in one, to start from", once),
      "the list",
    ).addHelpText("after", help.PROMPTS_EXAMPLES),
    (flags: Parameters<typeof promptsCommand>[0]) => promptsCommand(flags, environment),
  );
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
    .option("--base-context <file>", "general background, a text file (repeatable)", options.repeated)
    .option("--no-redact-context", "send secrets in these files to the models")
    .option("--project <folder>", "add files of a project, within ALLOWED_PROJECT_ROOTS", once)
    .option(
      "--include <glob>",
      "which files of the project (repeatable; default: README, manifests, src, tests)",
      options.repeated,
    )
    .option("--max-files <n>", "how many files of the project", options.countOf(1, 10_000), 20)
    .option(
      "--max-chars-per-file <n>",
      "how many characters of each file",
      options.countOf(1, 10_000_000),
      12_000,
    )
    .option("--template <name>", "prompt template (PROMPT_TEMPLATE, default)", once)
    .option("--language <code>", "its language (PROMPT_LANGUAGE, en)", once)
    .addOption(
      new Option("--mode <mode>", "how to hold it (DEBATE_MODE, debate)").choices(RUN_MODES),
    )
    .option(
      "--early-out-threshold <n>",
      "confidence to end early, 0 to 1 (EARLY_OUT_THRESHOLD, 0.9)",
      options.shareOf,
    )
    .option("--no-compress-history", "give every agent the whole history")
    .option("--show-history", "print the whole debate before the result");
  return options.addJson(command, "the whole record of the run").addHelpText("after", help.RUN_EXAMPLES);
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

async function loginCommand(environment: Environment): Promise<ExitCode | void> {
  const { terminal, signal } = environment;
  const settings = await world.readSettings(environment);
  const { ASSIST_DEVICE_CODE_URL, ASSIST_DEVICE_TOKEN_URL, ASSIST_CLIENT_ID } = settings;
  const missing = Object.entries({ ASSIST_DEVICE_CODE_URL, ASSIST_DEVICE_TOKEN_URL, ASSIST_CLIENT_ID })
    .filter(([, value]) => value === "").map(([name]) => name);
  if (missing.length > 0) {
    const advice = "debate login --help explains. Or put a token into ASSIST_TOKEN";
    throw new AppError("invalid_config", `Cannot log in: set ${missing.join(", ")}; ${advice}`);
  }
  const { deviceFlows } = await world.openProviders(settings, environment);
  const started = await deviceFlows.start(signal);
  const minutes = Math.round(started.expires_in / 60);
  terminal.err(
    `Open  ${safeLine(started.verification_uri, 2048)}\n` +
      `Enter ${safeLine(started.user_code, 64)}\n\n` +
      `Waiting for you to grant access, ${minutes} minutes at most; Ctrl-C gives up.\n`,
  );
  try {
    const ended = await deviceFlows.wait(started.device_code, signal);
    if (ended?.status !== "authorized") {
      const why = ended?.last_error ?? "the login was forgotten";
      throw new AppError("upstream_failure", `Not logged in: ${why}`);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    terminal.err("Stopped; nothing was stored.\n");
    return EXIT_CODES.interrupted;
  }
  terminal.out(`Logged in. The token is in ${safeText(settings.ASSIST_TOKEN_FILE)}, for you alone.\n`);
  if (settings.ASSIST_TOKEN !== "") terminal.err("note: ASSIST_TOKEN is set and takes precedence over it\n");
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
    terminal.err(`\nYour own are read from ${safeText(PROMPTS_DIR)}\n`);
  }
  for (const { message } of set.problems) terminal.err(`error: ${safeText(message)}\n`);
  if (set.problems.length > 0) return EXIT_CODES.usage;
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
  writersFrom(LOG_LEVEL, terminal.err).INFO(`The debate service is at ${server.url}\nCtrl-C stops it.\n`);
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
  await server.close();
}

/** Bad diagnoses are a result, not a failure. */
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
    // One at a time, because records can be large.
    const judged = await loadRun(each, (name) => Deno.readTextFile(resolve(dirname(path), name)));
    results.push(judgeCase(judged, threshold));
  }
  const report = createReport(results, { threshold, now: clock.now() });
  const text = `${JSON.stringify(report, null, 2)}\n`;
  if (output !== undefined) await world.writeOutput(output, text, environment);
  terminal.out(json ? text : `${formatReport(report).map(safeText).join("\n")}\n`);
  if (output !== undefined) terminal.err(`\nThe whole report is in ${safeText(output)}\n`);
}
