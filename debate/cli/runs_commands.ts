import { AppError } from "@gateway/shared/errors";
import { describeReadFailure } from "@gateway/shared/files";
import type { Command } from "commander";
import { addEvidence } from "../context/collect.ts";
import { createContextRedactor, ownSecrets } from "../context/redact_context.ts";
import { renderHtml } from "../report/html.ts";
import { renderReport } from "../report/report.ts";
import { readRunDirectory } from "../runs/run_directory.ts";
import { needsEvidence, priorRun } from "../runs/imported.ts";
import { byTime, type RunListItem } from "../runs/record.ts";
import { readListItem, readStoredRun, type StoredRun } from "../runs/store.ts";
import { type Environment, readSettings, writeOutput } from "./environment.ts";
import { RUNS_EXAMPLES } from "./help.ts";
import { type actions, addJson, countOf, type ExitCode, once, repeated, usageError } from "./options.ts";
import { debateOnTerminal, readFile } from "./run_command.ts";
import { formatRun, formatRuns } from "./runs_text.ts";
import { safeText } from "./terminal.ts";

type Flags = Readonly<Partial<Record<"json" | "html", boolean> & Record<"output" | "search", string>>>;

export function addRuns(program: Command, environment: Environment, add: ReturnType<typeof actions>): void {
  const { terminal } = environment;
  const find = async (id: string) => await readRun((await readSettings(environment)).DATA_DIR, id);
  const put = async (text: string, output?: string) => {
    if (output === undefined) return terminal.out(text);
    await writeOutput(output, text, environment);
    terminal.err(`Written to ${safeText(output)}\n`);
  };

  const runs = program.command("runs")
    .description("Manage stored runs.")
    .addHelpText("after", RUNS_EXAMPLES);
  add(
    addJson(runs.command("list").description("List runs, newest first."), "the list")
      .option("--limit <n>", "maximum number of runs", countOf(1, 100_000), 20)
      .option("--search <text>", "text in the topic, title or cause", once),
    async ({ limit, search = "", json }: Flags & { readonly limit: number }) => {
      const { DATA_DIR } = await readSettings(environment);
      const all = (await readRuns(DATA_DIR)).filter(({ run_id, title, topic, conclusion }) =>
        [run_id, title, topic, conclusion?.cause].some((each) =>
          each?.toLowerCase().includes(search.toLowerCase())
        )
      );
      const runs = all.slice(0, limit);
      if (json === true) return terminal.out(`${JSON.stringify({ runs })}\n`);
      if (runs.length > 0) terminal.out(formatRuns(runs, terminal));
      const more = all.length - runs.length;
      if (more > 0) {
        terminal.err(`\n${more} older runs are not shown: debate runs list --limit ${all.length}\n`);
      }
      if (all.length === 0) terminal.err(`No runs in ${safeText(DATA_DIR)}\n`);
    },
  );
  add(
    addJson(runs.command("show <id>").description("Show the result of a run."), "the record"),
    async (id: string, { json }: Flags) => {
      const { text, record } = await find(id);
      await put(json === true ? withLineEnd(text) : formatRun(record, terminal));
    },
  );
  add(
    runs.command("report <id>").description("Print the report of a run as Markdown.")
      .option("--html", "print one HTML page instead")
      .option("--output <file>", "output file", once),
    async (id: string, { html, output }: Flags) => {
      const { record } = await find(id);
      const report = html === true ? renderHtml(record) : renderReport(record);
      // Escape the report for a terminal, which would execute escape sequences. A file is opened by a
      // Markdown viewer.
      await put(html === true || output !== undefined ? report : safeText(report), output);
    },
  );
  add(
    addJson(
      runs.command("resume <id>").description(
        "Start a new run from a failed run, or from a run and new evidence.",
      ),
      "the record of the new run",
    )
      .option("--evidence <text>", "new evidence", once)
      .option("-f, --file <file>", "text file with new evidence (repeatable)", repeated),
    async (id: string, flags: Parameters<typeof resumeRun>[1]) =>
      await resumeRun(() => find(id), flags, environment),
  );
}

async function resumeRun(
  find: () => Promise<StoredRun>,
  { evidence = "", file = [], json = false }: Pick<Flags, "json"> & {
    readonly evidence?: string;
    readonly file?: readonly string[];
  },
  environment: Environment,
): Promise<ExitCode> {
  const { record } = await find();
  if (evidence.trim() === "" && file.length === 0 && needsEvidence(record)) {
    throw usageError("Cannot resume the run: new evidence is missing\nfix: pass --evidence or --file");
  }
  if (record.status === "running") throw usageError("Cannot resume the run: it is still in progress");
  const { models, run_id: runId, context } = record;
  const settings = await readSettings(environment, {
    DIAGNOSTIC_MODEL: models?.diagnostic || undefined,
    SKEPTIC_MODEL: models?.skeptic || undefined,
    MODERATOR_MODEL: models?.moderator || undefined,
    PROMPT_TEMPLATE: record.template ?? undefined,
    PROMPT_LANGUAGE: record.language ?? undefined,
    // Run a debate: independent diagnoses would already know the first run.
    DEBATE_MODE: "debate",
  });
  const files = await Promise.all(file.map((path) => readFile(path)));
  const rules = { redact: createContextRedactor(ownSecrets(settings)), clock: environment.clock };
  const topic = record.topic ?? "";
  return await debateOnTerminal({
    topic,
    context: await addEvidence(context, { text: evidence, files }, rules),
    settings,
    flags: { redactContext: true, json },
    isMasked: false,
    parent: { runId, topic, prior: priorRun(record) },
  }, environment);
}

function withLineEnd(text: string): string {
  return text.endsWith("\n") ? text : `${text}\n`;
}

const RECORD = /^([0-9a-f]{32})\.json$/;
/** A shorter prefix could select a wrong run by a typing error. */
const MIN_PREFIX = 4;

async function listIds(directory: string): Promise<readonly string[]> {
  try {
    const names = await readRunDirectory(directory).names();
    return names.flatMap((name) => RECORD.exec(name)?.[1] ?? []).sort();
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return [];
    const text = `Cannot read DATA_DIR ${JSON.stringify(directory)}: ${describeReadFailure(cause)}`;
    throw new AppError("invalid_config", text, { cause });
  }
}

export async function readRuns(directory: string): Promise<readonly RunListItem[]> {
  const items: RunListItem[] = [];
  for (const id of await listIds(directory)) {
    const item = await readListItem(readRunDirectory(directory), id).catch(() => undefined);
    if (item !== undefined && item !== "missing") items.push(item);
  }
  return items.sort(byTime);
}

async function readRun(directory: string, prefix: string): Promise<StoredRun> {
  const shown = JSON.stringify(prefix.slice(0, 40));
  if (!/^[0-9a-f]+$/.test(prefix) || prefix.length < MIN_PREFIX) {
    const form = `expected at least ${MIN_PREFIX} hexadecimal digits`;
    throw usageError(`Invalid run ID ${shown}: ${form}`);
  }
  const [id, other] = (await listIds(directory)).filter((each) => each.startsWith(prefix));
  if (id === undefined) throw new AppError("not_found", `Cannot find run ${shown}\nfix: debate runs list`);
  if (other !== undefined) {
    throw new AppError("not_found", `Cannot select run ${shown}: several IDs begin with it`);
  }
  const text = await Deno.readTextFile(`${directory}/${id}.json`).catch(() => "");
  const stored = readStoredRun(id, text);
  if (stored !== undefined) return stored;
  throw new AppError("not_found", `Cannot read run ${shown}: its record is damaged`);
}
