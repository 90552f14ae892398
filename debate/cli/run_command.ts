import type { Clock } from "@gateway/shared/clock";
import { AppError, errorName, errorText } from "@gateway/shared/errors";
import { describeReadFailure, writeFileAtomic } from "@gateway/shared/files";
import { collectContext, type CollectedContext, type GivenFile } from "../context/collect.ts";
import { type ContextRedactor, createContextRedactor, ownSecrets } from "../context/redact_context.ts";
import { conductDebate } from "../engine/agents/conduct_debate.ts";
import { type RunEvent, UNRECORDED_EVENTS } from "../engine/events.ts";
import { NO_INPUT } from "../engine/graph/hypotheses.ts";
import { labelLanguage } from "../engine/graph/labels.ts";
import { ROLES } from "../engine/graph/state.ts";
import type { DebateOutcome, DebateSetup } from "../engine/ports.ts";
import { estimateCost } from "../models/prices.ts";
import type { PromptTemplate } from "../engine/ports.ts";
import { loadTemplates, selectTemplate } from "../prompts/templates.ts";
import { openDebateParts } from "../runs/debate_parts.ts";
import { recordOf } from "../runs/fold.ts";
import { formatRecord, type StoredEvent } from "../runs/record.ts";
import { endingEvents, modelIds, type RunRequest, toHeader, toSetup } from "../runs/setup.ts";
import { forDebaters, type Settings, writersFrom } from "../settings/config.ts";
import type { Toolset } from "../tools/catalogue.ts";
import * as world from "./environment.ts";
import { EXIT_CODES, type ExitCode, usageError, writeFailure } from "./options.ts";
import { count } from "../engine/graph/text.ts";
import { RunView } from "./run_view.ts";
import { createPaint, safeText, type Terminal, wrap } from "./terminal.ts";

type Environment = world.Environment;

export interface RunFlags {
  readonly file?: string;
  readonly baseContext?: readonly string[];
  readonly redactContext: boolean;
  readonly project?: string;
  readonly include?: readonly string[];
  readonly maxFiles: number;
  readonly maxCharsPerFile: number;
  readonly model?: string;
  readonly skepticModel?: string;
  readonly moderatorModel?: string;
  readonly template?: string;
  readonly language?: string;
  readonly mode?: string;
  readonly earlyOutThreshold?: number;
  readonly compressHistory: boolean;
  readonly showHistory?: boolean;
  readonly json?: boolean;
}

export async function runCommand(
  words: readonly string[],
  flags: RunFlags,
  environment: Environment,
): Promise<ExitCode> {
  const settings = await world.readSettings(environment, {
    DIAGNOSTIC_MODEL: flags.model,
    SKEPTIC_MODEL: flags.skepticModel ?? flags.model,
    MODERATOR_MODEL: flags.moderatorModel ?? flags.model,
    PROMPT_TEMPLATE: flags.template,
    PROMPT_LANGUAGE: flags.language,
    DEBATE_MODE: flags.mode,
    EARLY_OUT_THRESHOLD: flags.earlyOutThreshold?.toString(),
    COMPRESS_HISTORY: flags.compressHistory ? undefined : "false",
  });
  const { clock } = environment;
  const said = readTopic(words, flags, settings.PROMPT_LANGUAGE);
  const redact = createContextRedactor(ownSecrets(settings));
  const topic = flags.redactContext ? redact(said).text : said;
  const context = await readContext(flags, settings, { redact, clock });
  return await debateOnTerminal({ topic, context, settings, flags, isMasked: topic !== said }, environment);
}

export async function debateOnTerminal(
  { topic, context, settings, flags, isMasked, parent }: Pick<RunRequest, "topic" | "context" | "parent"> & {
    readonly settings: Settings;
    readonly flags: Pick<RunFlags, "redactContext" | "showHistory" | "json">;
    readonly isMasked: boolean;
  },
  environment: Environment,
): Promise<ExitCode> {
  const { terminal, clock, randomBytes, signal } = environment;
  const note = (text: string) => world.note(environment, text);
  const template = await readTemplate(settings, note);
  const view = new RunView(terminal);
  const { WARNING: warn, ERROR: fail } = writersFrom(settings.LOG_LEVEL, view.note);
  const process = { ...environment, warn, isWatched: terminal.isLive };
  // Nobody approves calls, so a tool that needs approval for each call is off.
  const own = { ...settings, TOOL_APPROVAL_REQUIRED: false };
  const { toolset, audit, prices, providers } = await openDebateParts(own, process);
  await Deno.mkdir(settings.DATA_DIR, { recursive: true, mode: 0o700 }).catch((cause) => {
    const text = `Cannot create DATA_DIR ${JSON.stringify(settings.DATA_DIR)}: ${errorText(cause)}`;
    throw new AppError("invalid_config", text, { cause });
  });
  const request: RunRequest = {
    topic,
    context,
    models: forDebaters((_, prefix) => settings[`${prefix}_MODEL`]),
    efforts: forDebaters((_, prefix) => settings[`${prefix}_REASONING_EFFORT`]),
    templateName: template.name,
    language: settings.PROMPT_LANGUAGE,
    template,
    mode: settings.DEBATE_MODE,
    ...(parent !== undefined && { parent }),
  };
  const { tools, statuses } = await toolset();
  const runId = randomBytes(16).toHex();
  const setup = await toSetup(runId, request, settings, providers.model);
  terminal.err(formatBanner(setup, { isRedacted: flags.redactContext, tools, statuses }, terminal));
  if (isMasked) note("a possible secret was masked in the topic");
  for (const text of context.notes) note(text);
  const masked = Object.values(context.redactions).reduce((sum, count) => sum + count, 0);
  if (masked > 0) note(`${masked} ${masked === 1 ? "secret was" : "secrets were"} masked in the context`);

  const events: StoredEvent[] = [];
  const emit = (event: RunEvent) => {
    if (!UNRECORDED_EVENTS.has(event.type)) {
      events.push({ ...event, timestamp: new Date(clock.now()).toISOString() });
    }
    view.show(event);
  };
  const startedAt = clock.now();
  if (parent !== undefined) {
    emit({ type: "run_resumed", parent_run_id: parent.runId, parent_topic: parent.topic });
  }
  const outcome = await conductDebate(setup, {
    emit,
    tools,
    // The user watches the run and can stop it.
    approve: () => Promise.resolve("auto"),
    isPaused: () => false,
    waitForComment: () => Promise.resolve(NO_INPUT),
    audit: (line) => audit.append(line),
    warn,
    fail,
    clock,
    newId: () => randomBytes(6).toHex(),
    signal,
  });
  view.close();
  await audit.close();
  const finishedAt = clock.now();
  const cost = estimateCost(outcome.usage, modelIds(request, settings), prices);
  const { input_tokens, output_tokens, total_tokens } = outcome.usage.total;
  if (total_tokens > 0) {
    const rounds = count(Math.max(0, ...outcome.history.map(({ round }) => round)), "round");
    const seconds = `${((finishedAt - startedAt) / 1000).toFixed(1)} s`;
    const tokens = `${input_tokens} tokens in and ${output_tokens} out`;
    const price = cost.total_usd === null ? "cost unknown" : `about $${cost.total_usd.toFixed(4)}`;
    terminal.err(`\n${[rounds, seconds, tokens, price].join(", ")}\n`);
  }
  for (const event of endingEvents(outcome, cost)) emit(event);
  const record = recordOf(toHeader(request, runId, startedAt), context, events);
  await storeRecord(settings.DATA_DIR, record, note);
  if (flags.json === true) {
    terminal.out(`${JSON.stringify(record, null, 2)}\n`);
  } else if (flags.showHistory === true || outcome.status === "completed") {
    terminal.err("\n");
    if (flags.showHistory === true) terminal.out(formatHistory(outcome, terminal));
    if (outcome.status === "completed") terminal.out(formatResult(outcome, terminal));
  }
  switch (outcome.status) {
    case "completed":
      return EXIT_CODES.ok;
    case "cancelled":
      terminal.err("Stopped without a result.\n");
      return EXIT_CODES.interrupted;
    case "error":
      writeFailure(terminal, new AppError("upstream_failure", outcome.error ?? "The run failed"), flags);
      return EXIT_CODES.failed;
  }
}

/** Stores a record. The result is printed even if the disk is full. */
async function storeRecord(
  folder: string,
  record: { readonly run_id: string },
  note: (text: string) => void,
): Promise<void> {
  const [path, bytes] = [`${folder}/${record.run_id}.json`, new TextEncoder().encode(formatRecord(record))];
  const shown = record.run_id.slice(0, 8);
  try {
    await writeFileAtomic(path, bytes, { mode: 0o600 });
    note(`stored as ${shown}, see debate runs show ${shown}`);
  } catch (error) {
    note(`cannot store the record: ${errorName(error)}`);
  }
}

async function readTemplate(
  { PROMPT_TEMPLATE: name, PROMPT_LANGUAGE: language, PROMPTS_DIR }: Settings,
  note: (text: string) => void,
): Promise<PromptTemplate> {
  const template = selectTemplate(await loadTemplates(PROMPTS_DIR), name, language);
  if (template.name !== name || template.language !== language) {
    const used = `"${template.name}" (${template.language})`;
    note(`template "${name}" (${language}) does not exist, using ${used}`);
  }
  return template;
}

function formatBanner(
  { topic, context, models, maxRounds, confidenceThreshold, earlyOut, compressHistory, template }:
    DebateSetup,
  { isRedacted, tools, statuses }: Pick<Toolset, "tools" | "statuses"> & { readonly isRedacted: boolean },
  { errColor, width }: Terminal,
): string {
  const paint = createPaint(errColor);
  const off = Map.groupBy(statuses.filter(({ available }) => !available), ({ why }) => why ?? "");
  const secrets = isRedacted ? "masked" : "NOT masked";
  const history = compressHistory ? "summarized from round 3" : "in full";
  const early = earlyOut.enabled ? `early end from ${earlyOut.threshold}` : "no early end";
  const names = tools.map(({ name }) => name).join(", ");
  const rows: readonly (readonly [string, string])[] = [
    ["Topic", topic],
    ["Diagnostic", models.diagnostic.id],
    ["Skeptic", models.skeptic.id],
    ["Moderator", models.moderator.id],
    ["Rounds", `at most ${maxRounds}, history ${history}`],
    ["Confidence", `${confidenceThreshold} required, ${early}`],
    ["Template", `${template.name} (${template.language})`],
    ["Context", context === "" ? "none" : `${context.length} characters, secrets ${secrets}`],
    ["Tools", names === "" ? "none" : `${names}; they run without approval`],
    ...off.size === 0 ? [] : [
      [
        "Off",
        [...off].map(([why, each]) => `${each.map(({ name }) => name).join(", ")} (${why})`).join("; "),
      ] as const,
    ],
  ];
  return rows.map(([name, value]) => {
    const [first = "", ...rest] = wrap(safeText(value).replace(/\s+/g, " "), Math.max(30, width - 14));
    return [`${paint("dim", name.padEnd(14))}${first}\n`, ...rest.map((line) => `${" ".repeat(14)}${line}\n`)]
      .join("");
  }).join("");
}

function formatHistory({ history }: DebateOutcome, terminal: Terminal): string {
  const roles = {
    ...ROLES,
    diagnostic_rebuttal: ROLES.diagnostic_rebuttal_agent,
    moderator: ROLES.moderator_agent,
  };
  return history.map(({ role, round, content }) => {
    const name = role === "user" ? "Operator" : roles[role];
    return `${title(`Round ${round}: ${name}`, terminal)}\n${safeText(content).trim()}\n\n`;
  }).join("");
}

function formatResult({ finalText }: DebateOutcome, terminal: Terminal): string {
  const lines = wrap(safeText(finalText), terminal.width);
  return `${title("Final result", terminal)}\n${lines.join("\n")}\n`;
}

function title(text: string, terminal: Terminal): string {
  return `${createPaint(terminal.outColor)("bold", text)}\n${"-".repeat(text.length)}`;
}

const DEFAULT_TOPICS = {
  en: "Diagnose the technical problem that the context describes.",
  es: "Diagnostica el problema técnico que describe el contexto.",
} as const;

const MAX_TOPIC = 20_000;

function readTopic(words: readonly string[], flags: RunFlags, language: string): string {
  const topic = words.join(" ").trim();
  if (topic.length > MAX_TOPIC) {
    const fix = "write the details to a file and pass it with --file";
    throw usageError(`The topic is longer than ${MAX_TOPIC} characters\nfix: ${fix}`);
  }
  if (topic !== "") return topic;
  const { file, baseContext = [], project } = flags;
  if (file === undefined && baseContext.length === 0 && project === undefined) {
    const fix = 'debate "The API has been slow since noon", or pass --file, --base-context or --project';
    throw usageError(`Cannot start a debate: there is no topic\nfix: ${fix}`);
  }
  return DEFAULT_TOPICS[labelLanguage(language)];
}

async function readContext(
  flags: RunFlags,
  settings: Settings,
  { redact, clock }: { readonly redact: ContextRedactor; readonly clock: Clock },
): Promise<CollectedContext> {
  const { file, baseContext = [], project, include = [], maxFiles, maxCharsPerFile } = flags;
  if (project === undefined && include.length > 0) {
    throw usageError("--include has no effect without --project");
  }
  return await collectContext({
    baseContext: await Promise.all(baseContext.map((path) => readFile(path))),
    incident: file === undefined ? undefined : await readFile(file),
    project: project === undefined
      ? undefined
      : { path: project, patterns: include, maxFiles, maxCharsPerFile },
  }, {
    redact: flags.redactContext ? redact : undefined,
    clock,
    allowedRoots: settings.ALLOWED_PROJECT_ROOTS,
  });
}

/** Reads a file that the user names. @throws {AppError} `invalid_request` if it is not readable */
export async function readFile(path: string, name = path): Promise<GivenFile> {
  try {
    return { name, bytes: await Deno.readFile(path) };
  } catch (cause) {
    const text = `Cannot read ${JSON.stringify(name)}: ${describeReadFailure(cause)}`;
    throw new AppError("invalid_request", text, { cause });
  }
}
