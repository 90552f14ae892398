/**
 * `debate run`: one debate, from the command line.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import type { DebateOutcome, DebateSetup, PriorRun } from "../engine/ports.ts";
import { holdDebate } from "../engine/agents/hold_debate.ts";
import type { Settings } from "../settings/config.ts";
import type { CollectedContext } from "../context/collect.ts";
import { EPHEMERAL, type RunEvent } from "../engine/events.ts";
import type { StoredEvent } from "../runs/record.ts";
import { storeRecord } from "./stored_runs.ts";
import { NO_WORD } from "../engine/graph/operator.ts";
import { writersFrom } from "../settings/log_level.ts";
import { estimateCost, loadPrices } from "../models/prices.ts";
import type { Providers } from "../models/providers.ts";
import { loadTemplates, type PromptTemplate, selectTemplate } from "../prompts/templates.ts";
import { type Environment, readSettings } from "./environment.ts";
import { EXIT_CODES, type ExitCode, writeFailure } from "./failure.ts";
import { newCallId, openAudit, openProviders, openRedactor, openTools } from "./machine.ts";
import { type InputFlags, readContext, readTopic } from "./run_input.ts";
import { endingEvents, toRecord } from "./run_record.ts";
import { formatBanner, formatCosts, formatHistory, formatResult } from "./run_text.ts";
import { RunView } from "./run_view.ts";
import { safeText } from "./terminal.ts";

export interface RunFlags extends InputFlags {
  readonly template?: string;
  readonly language?: string;
  readonly mode?: string;
  readonly earlyOutThreshold?: number;
  /** `false` with `--no-compress-history`. */
  readonly compressHistory: boolean;
  readonly showHistory?: boolean;
  readonly json?: boolean;
}

const RUN_ID_BYTES = 16;

export async function runCommand(
  words: readonly string[],
  flags: RunFlags,
  environment: Environment,
): Promise<ExitCode> {
  const settings = await readSettings(environment, {
    PROMPT_TEMPLATE: flags.template,
    PROMPT_LANGUAGE: flags.language,
    DEBATE_MODE: flags.mode,
    EARLY_OUT_THRESHOLD: flags.earlyOutThreshold?.toString(),
    COMPRESS_HISTORY: flags.compressHistory ? undefined : "false",
  });
  const { clock } = environment;
  const said = readTopic(words, flags, settings.PROMPT_LANGUAGE);
  const redact = openRedactor(settings);
  const topic = flags.redactContext ? redact(said).text : said;
  const context = await readContext(flags, settings, { redact, clock });
  return await holdOnTerminal({ topic, context, settings, flags, isMasked: topic !== said }, environment);
}

/** A run to be held while somebody watches. */
interface WatchedRun {
  readonly topic: string;
  readonly context: CollectedContext;
  readonly settings: Settings;
  readonly flags: Pick<RunFlags, "redactContext" | "showHistory" | "json">;
  /** Whether something of the topic was masked. */
  readonly isMasked: boolean;
  readonly parent?: { readonly runId: string; readonly topic: string; readonly prior: PriorRun };
}

/** Holds a run, shows it, and stores its record. */
export async function holdOnTerminal(run: WatchedRun, environment: Environment): Promise<ExitCode> {
  const { topic, context, settings, flags, parent } = run;
  const { terminal, clock, randomBytes, signal } = environment;
  const template = await readTemplate(settings, environment);
  const redact = openRedactor(settings);
  const prices = await loadPrices(settings.MODEL_PRICES_FILE);
  const tools = await openTools(settings, environment, redact);
  const audit = await openAudit(settings, redact);
  const view = new RunView(terminal, settings.PROMPT_LANGUAGE);
  const { WARNING: warn, ERROR: fail } = writersFrom(settings.LOG_LEVEL, view.note);
  const setup: DebateSetup = {
    runId: randomBytes(RUN_ID_BYTES).toHex(),
    topic,
    context: context.text,
    models: await openModels(settings, await openProviders(settings, environment, warn)),
    ...toRules(settings),
    template,
    language: settings.PROMPT_LANGUAGE,
    ...(parent !== undefined && { initial: parent.prior }),
  };
  const note = (text: string) => terminal.err(`note: ${safeText(text)}\n`);
  terminal.err(formatBanner(setup, {
    contextCharacters: context.text.length,
    isRedacted: flags.redactContext,
    tools: tools.length,
  }, terminal));
  if (run.isMasked) note("what looks like a secret was masked in the topic");
  for (const text of [...context.notes, ...describeRedactions(context.redactions)]) note(text);

  const events: StoredEvent[] = [];
  const emit = (event: RunEvent) => {
    if (!EPHEMERAL.has(event.type)) {
      events.push({ ...event, timestamp: new Date(clock.now()).toISOString() });
    }
    view.show(event);
  };
  const startedAt = clock.now();
  if (parent !== undefined) {
    emit({ type: "run_resumed", parent_run_id: parent.runId, parent_topic: parent.topic });
  }
  const outcome = await holdDebate(setup, {
    emit,
    tools,
    // The user who started the run is watching it and can stop it.
    approve: () => Promise.resolve("auto"),
    isPaused: () => false,
    waitForComment: () => Promise.resolve(NO_WORD),
    audit: (line) => audit.append(line),
    warn,
    fail,
    clock,
    newId: () => newCallId(environment),
    signal,
  });
  view.close();
  await audit.close();
  const finishedAt = clock.now();
  const { diagnostic, skeptic, moderator, summary, sample = diagnostic } = setup.models;
  const ids = {
    diagnostic: diagnostic.id,
    skeptic: skeptic.id,
    moderator: moderator.id,
    summary: summary.id,
    sample: sample.id,
  };
  const cost = estimateCost(outcome.usage, ids, prices);
  if (outcome.usage.total.total_tokens > 0) {
    terminal.err(formatCosts(outcome, cost, finishedAt - startedAt, setup.language));
  }
  for (const event of endingEvents(outcome, cost)) emit(event);
  const record = toRecord({ setup, context, events, startedAt, parent });
  await storeRecord(settings.DATA_DIR, record, note);
  if (flags.json === true) {
    terminal.out(`${JSON.stringify(record, null, 2)}\n`);
  } else if (flags.showHistory === true || outcome.status === "completed") {
    terminal.err("\n");
    if (flags.showHistory === true) terminal.out(formatHistory(outcome, setup.language, terminal));
    if (outcome.status === "completed") terminal.out(formatResult(outcome, setup.language, terminal));
  }
  return conclude(outcome, flags, environment);
}

function conclude(
  outcome: DebateOutcome,
  flags: Pick<RunFlags, "json">,
  { terminal }: Environment,
): ExitCode {
  switch (outcome.status) {
    case "completed":
      return EXIT_CODES.ok;
    case "cancelled":
      terminal.err("Stopped; there is no result.\n");
      return EXIT_CODES.interrupted;
    case "error":
      writeFailure(terminal, new AppError("upstream_failure", outcome.error ?? "The run failed"), {
        json: flags.json === true,
      });
      return EXIT_CODES.failed;
  }
}

async function readTemplate(
  { PROMPT_TEMPLATE: name, PROMPT_LANGUAGE: language, PROMPTS_DIR }: Settings,
  { terminal }: Environment,
): Promise<PromptTemplate> {
  const template = selectTemplate(await loadTemplates(PROMPTS_DIR), name, language);
  if (template.name !== name || template.language !== language) {
    terminal.err(
      safeText(
        `note: there is no template "${name}" in "${language}"; "${template.name}" in "${template.language}" is used\n`,
      ),
    );
  }
  return template;
}

async function openModels(settings: Settings, providers: Providers): Promise<DebateSetup["models"]> {
  return {
    diagnostic: await providers.model(settings.DIAGNOSTIC_MODEL),
    skeptic: await providers.model(settings.SKEPTIC_MODEL),
    moderator: await providers.model(settings.MODERATOR_MODEL),
    summary: await providers.model(settings.SUMMARY_MODEL || settings.MODERATOR_MODEL),
    sample: await providers.model(settings.SAMPLE_MODEL || settings.DIAGNOSTIC_MODEL),
  };
}

/** The settings that decide how a debate is held. */
function toRules(settings: Settings) {
  return {
    efforts: {
      diagnostic: settings.DIAGNOSTIC_REASONING_EFFORT,
      skeptic: settings.SKEPTIC_REASONING_EFFORT,
      moderator: settings.MODERATOR_REASONING_EFFORT,
    },
    maxRounds: settings.MAX_ROUNDS,
    confidenceThreshold: settings.CONFIDENCE_THRESHOLD,
    earlyOut: { enabled: settings.EARLY_OUT_ENABLED, threshold: settings.EARLY_OUT_THRESHOLD },
    compressHistory: settings.COMPRESS_HISTORY,
    ...(settings.DEBATE_MODE === "sample_then_debate" && {
      sampling: { count: settings.SAMPLES, then: "debate" as const },
    }),
    toolBudget: settings.MAX_TOOL_CALLS_PER_AGENT,
    maxConsecutiveErrors: settings.MAX_CONSECUTIVE_ERRORS,
    timeouts: {
      modelMs: settings.MODEL_TIMEOUT_SECONDS * 1000,
      ...(settings.RUN_TIMEOUT_SECONDS > 0 && { runMs: settings.RUN_TIMEOUT_SECONDS * 1000 }),
    },
  };
}

function describeRedactions(counts: Readonly<Record<string, number>>): readonly string[] {
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  return total === 0 ? [] : [`${total} ${total === 1 ? "secret was" : "secrets were"} masked in the context`];
}
