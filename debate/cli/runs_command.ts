/**
 * `debate runs`: stored runs on the command line.
 *
 * @module
 */
import { writeFileAtomic } from "@gateway/shared/files";
import { AppError } from "@gateway/shared/errors";
import { resolve } from "node:path";
import { addEvidence } from "../context/collect.ts";
import { renderHtml } from "../report/html.ts";
import { renderReport } from "../report/report.ts";
import { priorRun } from "../runs/prior_run.ts";
import type { RunListItem } from "../runs/record.ts";
import { type Environment, readSettings } from "./environment.ts";
import { EXIT_CODES, type ExitCode } from "./failure.ts";
import { openRedactor } from "./machine.ts";
import { holdOnTerminal } from "./run_command.ts";
import { readFile } from "./run_input.ts";
import { formatRun, formatRunPair, formatRuns, toComparable } from "./runs_text.ts";
import { readRun, readRuns } from "./stored_runs.ts";
import { safeText } from "./terminal.ts";

export interface ListFlags {
  readonly limit: number;
  readonly search?: string;
  readonly json?: boolean;
}

export async function listRuns(flags: ListFlags, environment: Environment): Promise<ExitCode> {
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

export async function showRun(
  id: string,
  flags: { readonly json?: boolean },
  environment: Environment,
): Promise<ExitCode> {
  const { text, record } = await find(id, environment);
  environment.terminal.out(flags.json === true ? withLineEnd(text) : formatRun(record, environment.terminal));
  return EXIT_CODES.ok;
}

/** `debate runs export`: the record as it is stored. */
export async function exportRun(id: string, flags: OutputFlags, environment: Environment): Promise<ExitCode> {
  const { text } = await find(id, environment);
  return await put(withLineEnd(text), flags, environment);
}

/** Where a result goes; absent: standard output. */
export interface OutputFlags {
  readonly output?: string;
}

export async function reportRun(
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

export async function compareRuns(
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

export interface ResumeFlags {
  readonly evidence?: string;
  readonly file?: readonly string[];
  readonly json?: boolean;
}

/** `debate runs resume`: a new run from the history of another one and new evidence. */
export async function resumeRun(id: string, flags: ResumeFlags, environment: Environment): Promise<ExitCode> {
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
  const { terminal, workingFolder } = environment;
  if (output === undefined) {
    terminal.out(text);
    return EXIT_CODES.ok;
  }
  try {
    await writeFileAtomic(resolve(workingFolder, output), new TextEncoder().encode(text), { mode: 0o600 });
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot write ${JSON.stringify(output)}`, { cause });
  }
  terminal.err(`Written to ${safeText(output)}\n`);
  return EXIT_CODES.ok;
}

function withLineEnd(text: string): string {
  return text.endsWith("\n") ? text : `${text}\n`;
}
