import type { CollectedContext } from "../context/collect.ts";
import type { CostEstimate, RunEvent, TokenTotals } from "../engine/events.ts";
import type { DebateOutcome, DebateSetup, Model, PriorRun, RunMode } from "../engine/ports.ts";
import type { PromptTemplate } from "../engine/ports.ts";
import type { Settings } from "../settings/config.ts";
import type { RunEfforts, RunHeader, RunModels } from "./record.ts";

export interface RunRequest {
  readonly title?: string;
  readonly topic: string;
  readonly context: CollectedContext;
  readonly models: RunModels;
  readonly efforts: RunEfforts;
  /** The name of the requested template. {@linkcode RunRequest.template} may be a fallback. */
  readonly templateName: string;
  readonly language: string;
  readonly template: PromptTemplate;
  readonly mode: RunMode;
  readonly parent?: { readonly runId: string; readonly topic: string; readonly prior: PriorRun };
}

export function modelIds({ models }: Pick<RunRequest, "models">, { SUMMARY_MODEL, SAMPLE_MODEL }: Settings) {
  return { ...models, summary: SUMMARY_MODEL || models.moderator, sample: SAMPLE_MODEL || models.diagnostic };
}

export function rulesFrom(settings: Settings) {
  return {
    maxRounds: settings.MAX_ROUNDS,
    confidenceThreshold: settings.CONFIDENCE_THRESHOLD,
    earlyOut: { enabled: settings.EARLY_OUT_ENABLED, threshold: settings.EARLY_OUT_THRESHOLD },
    compressHistory: settings.COMPRESS_HISTORY,
  };
}

export async function toSetup(
  runId: string,
  request: RunRequest,
  settings: Settings,
  openModel: (id: string) => Model | Promise<Model>,
): Promise<DebateSetup> {
  const { topic, context, efforts, template, language, mode, parent } = request;
  const ids = modelIds(request, settings);
  const runMs = settings.RUN_TIMEOUT_SECONDS * 1000;
  return {
    runId,
    topic,
    context: context.text,
    models: {
      diagnostic: await openModel(ids.diagnostic),
      skeptic: await openModel(ids.skeptic),
      moderator: await openModel(ids.moderator),
      summary: await openModel(ids.summary),
      sample: await openModel(ids.sample),
    },
    ...(mode === "sample_then_debate" && { sampling: { count: settings.SAMPLES, then: "debate" as const } }),
    efforts,
    ...rulesFrom(settings),
    template,
    language,
    toolBudget: settings.MAX_TOOL_CALLS_PER_AGENT,
    maxConsecutiveErrors: settings.MAX_CONSECUTIVE_ERRORS,
    timeouts: { modelMs: settings.MODEL_TIMEOUT_SECONDS * 1000, ...(runMs > 0 && { runMs }) },
    ...(parent !== undefined && { initial: parent.prior }),
  };
}

export function toHeader(request: RunRequest, runId: string, startedAt: number): RunHeader {
  const { title, topic, models, efforts, templateName, language, mode, parent } = request;
  return {
    run_id: runId,
    ...(title !== undefined && { title }),
    topic,
    timestamp: new Date(startedAt).toISOString(),
    models,
    reasoning_effort: efforts,
    template: templateName,
    language,
    ...(mode === "sample_then_debate" && { mode }),
    parent_run_id: parent?.runId ?? null,
    ...(parent !== undefined && { parent_topic: parent.topic }),
    status: "running",
    schema_version: 1,
  };
}

export const NO_TOKENS: TokenTotals = {
  by_node: {},
  total: { input_tokens: 0, output_tokens: 0, total_tokens: 0 },
};

export function endingEvents(
  { status, error, usage = NO_TOKENS }: Pick<DebateOutcome, "status"> & Partial<DebateOutcome>,
  cost: CostEstimate | null,
): readonly RunEvent[] {
  return [
    ...(status === "cancelled" ? [{ type: "run_cancelled" } as const] : []),
    ...(status === "error" ? [{ type: "error", message: error ?? "The run failed" } as const] : []),
    { type: "run_finished", status, token_totals: usage, cost_estimate: cost },
  ];
}
