import type { Command } from "commander";
import { type Environment, readSettings, writeOutput } from "./environment.ts";
import { EXIT_CODES, type ExitCode } from "./failure.ts";
import { RUNS_EXAMPLES } from "./help.ts";
import { addJson, countOf, once, repeated } from "./options.ts";
import { AppError } from "@gateway/shared/errors";
import { addEvidence } from "../context/collect.ts";
import { renderHtml } from "../report/html.ts";
import { renderReport } from "../report/report.ts";
import { priorRun } from "../runs/foreign.ts";
import type { RunListItem } from "../runs/record.ts";
import { openRedactor } from "./machine.ts";
import { holdOnTerminal, readFile } from "./run_command.ts";
import { formatRun, formatRunPair, formatRuns, toComparable } from "./runs_text.ts";
import { readRun, readRuns } from "./stored_runs.ts";
import { safeText } from "./terminal.ts";

export function addRuns(program: Command, environment: Environment, end: (code: ExitCode) => void): void {
  const runs = program.command("runs")
    .description("Stored runs: list, show, compare, report, export, resume.")
    .addHelpText("after", RUNS_EXAMPLES);
  addJson(runs.command("list").description("List them, newest first."), "the list")
    .option("--limit <n>", "how many", countOf(1, 100_000), 20)
    .option("--search <text>", "only those with this in topic, title or cause", once)
    .action(async (flags: ListFlags) => end(await listRuns(flags, environment)));
  addJson(runs.command("show <id>").description("Show what a run came to."), "the whole record")
    .action(async (id: string, flags: { readonly json?: boolean }) =>
      end(await showRun(id, flags, environment))
    );
  addJson(runs.command("compare <id> <other>").description("Show two runs side by side."), "both")
    .action(async (id: string, other: string, flags: { readonly json?: boolean }) =>
      end(await compareRuns([id, other], flags, environment))
    );
  runs.command("report <id>").description("Print the report of a run, as Markdown.")
    .option("--html", "as one HTML file instead")
    .option("--output <file>", "write it there", once)
    .action(async (id: string, flags: OutputFlags & { readonly html?: boolean }) =>
      end(await reportRun(id, flags, environment))
    );
  runs.command("export <id>").description("Print the record of a run, to import it elsewhere.")
    .option("--output <file>", "write it there", once)
    .action(async (id: string, flags: OutputFlags) => end(await exportRun(id, flags, environment)));
  addJson(
    runs.command("resume <id>").description("Continue a run with new evidence, as a new run."),
    "the whole record of the new run",
  )
    .option("--evidence <text>", "what is new", once)
    .option("-f, --file <file>", "what is new, a text file (repeatable)", repeated)
    .action(async (id: string, flags: ResumeFlags) => end(await resumeRun(id, flags, environment)));
}

interface ListFlags {
  readonly limit: number;
  readonly search?: string;
  readonly json?: boolean;
}

async function listRuns(flags: ListFlags, environment: Environment): Promise<ExitCode> {
  const { terminal } = environment;
  const { DATA_DIR } = await readSettings(environment);
  const all = (await readRuns(DATA_DIR)).filter((record) => isFound(record, flags.search));
  const shown = all.slice(0, flags.limit);
  if (flags.json === true) {
    terminal.out(`${JSON.stringify({ runs: shown })}\n`);
    return EXIT_CODES.ok;
  }
  if (shown.length > 0) terminal.out(formatRuns(shown, terminal));
  const more = all.length - shown.length;
  if (more > 0) terminal.err(`\n${more} older ones: --limit ${all.length}\n`);
  if (all.length === 0) terminal.err(`No runs in ${safeText(DATA_DIR)}\n`);
  return EXIT_CODES.ok;
}

function isFound({ run_id, title, topic, conclusion }: RunListItem, search: string | undefined): boolean {
  const wanted = search?.toLowerCase() ?? "";
  return [run_id, title, topic, conclusion?.cause].some((each) =>
    each?.toLowerCase().includes(wanted) === true
  );
}

async function showRun(
  id: string,
  flags: { readonly json?: boolean },
  environment: Environment,
): Promise<ExitCode> {
  const { text, record } = await find(id, environment);
  environment.terminal.out(flags.json === true ? withLineEnd(text) : formatRun(record, environment.terminal));
  return EXIT_CODES.ok;
}

async function exportRun(id: string, flags: OutputFlags, environment: Environment): Promise<ExitCode> {
  const { text } = await find(id, environment);
  return await put(withLineEnd(text), flags, environment);
}

/** Where a result goes; absent: standard output. */
interface OutputFlags {
  readonly output?: string;
}

async function reportRun(
  id: string,
  flags: OutputFlags & { readonly html?: boolean },
  environment: Environment,
): Promise<ExitCode> {
  const { record } = await find(id, environment);
  if (flags.html === true) return await put(renderHtml(record), flags, environment);
  // A file is read by a viewer of Markdown, a terminal obeys its escape sequences.
  const report = renderReport(record);
  return await put(flags.output === undefined ? safeText(report) : report, flags, environment);
}

async function compareRuns(
  ids: readonly [string, string],
  flags: { readonly json?: boolean },
  environment: Environment,
): Promise<ExitCode> {
  const { terminal } = environment;
  const [{ record: one }, { record: two }] = [
    await find(ids[0], environment),
    await find(ids[1], environment),
  ];
  terminal.out(
    flags.json === true
      ? `${JSON.stringify({ runs: [toComparable(one), toComparable(two)] }, null, 2)}\n`
      : formatRunPair([one, two], terminal),
  );
  return EXIT_CODES.ok;
}

interface ResumeFlags {
  readonly evidence?: string;
  readonly file?: readonly string[];
  readonly json?: boolean;
}

/** `debate runs resume`: a new run from the history of another one and new evidence. */
async function resumeRun(id: string, flags: ResumeFlags, environment: Environment): Promise<ExitCode> {
  const { evidence = "", file = [] } = flags;
  if (evidence.trim() === "" && file.length === 0) {
    throw new AppError("invalid_request", "Nothing is new: give --evidence or --file");
  }
  const { record } = await find(id, environment);
  if (record.status === "running") {
    throw new AppError("invalid_request", "The run is still in progress: wait until it ends");
  }
  const { models } = record;
  const settings = await readSettings(environment, {
    DIAGNOSTIC_MODEL: models?.diagnostic || undefined,
    SKEPTIC_MODEL: models?.skeptic || undefined,
    MODERATOR_MODEL: models?.moderator || undefined,
    PROMPT_TEMPLATE: record.template ?? undefined,
    PROMPT_LANGUAGE: record.language ?? undefined,
    // Diagnoses would not be independent of what is inherited.
    DEBATE_MODE: "debate",
  });
  const files = await Promise.all(file.map((path) => readFile(path)));
  const redact = openRedactor(settings);
  const topic = record.topic ?? "";
  return await holdOnTerminal({
    topic,
    context: await addEvidence(record.context, { text: evidence, files }, {
      redact,
      clock: environment.clock,
    }),
    settings,
    flags: { redactContext: true, ...(flags.json !== undefined && { json: flags.json }) },
    isMasked: false,
    parent: { runId: record.run_id, topic, prior: priorRun(record) },
  }, environment);
}

async function find(id: string, environment: Environment) {
  const { DATA_DIR } = await readSettings(environment);
  return await readRun(DATA_DIR, id);
}

async function put(text: string, { output }: OutputFlags, environment: Environment): Promise<ExitCode> {
  const { terminal } = environment;
  if (output === undefined) {
    terminal.out(text);
    return EXIT_CODES.ok;
  }
  await writeOutput(output, text, environment);
  terminal.err(`Written to ${safeText(output)}\n`);
  return EXIT_CODES.ok;
}

function withLineEnd(text: string): string {
  return text.endsWith("\n") ? text : `${text}\n`;
}
