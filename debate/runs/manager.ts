/**
 * Starts runs, keeps track of those in progress, and stores their results.
 *
 * @module
 */
import type { Clock } from "@gateway/shared/clock";
import { AppError, errorName, errorText } from "@gateway/shared/errors";
import { holdDebate } from "../engine/agents/hold_debate.ts";
import type { DebateOutcome, DebatePorts, DebateSetup, PriorRun } from "../engine/ports.ts";
import type { CollectedContext } from "../context/collect.ts";
import type { Settings } from "../settings/config.ts";
import type { CostEstimate, RunEnd, RunEvent, TokenTotals } from "../engine/events.ts";
import type { OperatorWord } from "../engine/graph/operator.ts";
import { type Model, ModelError } from "../engine/model.ts";
import type { PromptTemplate } from "../prompts/template.ts";
import type { RunMode } from "../engine/run_mode.ts";
import type { Tool } from "../engine/tool.ts";
import { recordOf } from "./fold.ts";
import { beginHeader } from "./header.ts";
import { LiveRun, type RunOptions } from "./live_run.ts";
import {
  beginRecord,
  type RunEfforts,
  type RunHeader,
  type RunModels,
  type RunRecord,
  type StoredEvent,
} from "./record.ts";
import type { RunStore } from "./store.ts";

/** The models of a run, by id. */
interface RoleModels extends RunModels {
  readonly summary: string;
  /** Gives the independent diagnoses before a debate. */
  readonly sample: string;
}

/** What the manager needs for runs. */
interface RunPorts {
  readonly store: RunStore;
  readonly clock: Clock;
  /** A fresh id of 32 hexadecimal digits. */
  readonly newRunId: () => string;
  /** A fresh id of 12 hexadecimal digits. */
  readonly newCallId: () => string;
  /** @throws {ModelError | AppError} when there is no such model */
  readonly openModel: (id: string) => Model | Promise<Model>;
  readonly openTools: () => readonly Tool[];
  readonly audit: DebatePorts["audit"];
  /** Masks secrets in what the operator writes. */
  readonly redact: (text: string) => string;
  readonly estimateCost: (totals: TokenTotals, models: RoleModels) => CostEstimate | null;
  readonly warn: (message: string) => void;
  /** Tells what went wrong for good. */
  readonly fail: (message: string) => void;
}

interface RunRequest {
  readonly topic: string;
  readonly context: CollectedContext;
  readonly models: RunModels;
  readonly efforts: RunEfforts;
  /** The name of the template that was requested. */
  readonly templateName: string;
  readonly language: string;
  readonly template: PromptTemplate;
  readonly options: RunOptions;
  readonly mode: RunMode;
  readonly parent?: { readonly runId: string; readonly topic: string; readonly prior: PriorRun };
}

const MAX_LIVE = 200;
const MS = 1000;

export class RunManager {
  readonly #ports: RunPorts;
  readonly #settings: Settings;
  readonly #live = new Map<string, LiveRun>();
  readonly #held = new Set<Promise<void>>();
  #starting = 0;
  #isClosing = false;

  constructor(settings: Settings, ports: RunPorts) {
    this.#settings = settings;
    this.#ports = ports;
  }

  find(runId: string): LiveRun | undefined {
    return this.#live.get(runId);
  }

  /**
   * Starts a run, and returns its id as soon as its record is stored.
   *
   * @throws {AppError} `rate_limited` when too many are in progress, `canceled` when the server is stopping,
   * `internal` when the record cannot be written
   */
  async start(request: RunRequest): Promise<string> {
    if (this.#isClosing) throw new AppError("canceled", "The server is stopping");
    if (this.#live.size + this.#starting >= MAX_LIVE) {
      throw new AppError(
        "rate_limited",
        `There are ${MAX_LIVE} runs in progress, which is the most at a time`,
        {
          retryAfterSeconds: 60,
        },
      );
    }
    this.#starting += 1;
    try {
      const run = await this.#open(request);
      const { run_id } = run.header;
      this.#live.set(run_id, run);
      if (this.#isClosing) run.cancel();
      const held = this.#hold(run, request).finally(() => this.#held.delete(held));
      this.#held.add(held);
      return run_id;
    } finally {
      this.#starting -= 1;
    }
  }

  /** Stops everything. The records remain marked as running; the next start marks them as interrupted. */
  async close(): Promise<void> {
    this.#isClosing = true;
    for (const run of this.#live.values()) run.cancel();
    await Promise.all(this.#held);
  }

  async #open(request: RunRequest): Promise<LiveRun> {
    const { clock, store, newRunId, redact } = this.#ports;
    const { APPROVAL_REQUIRED_TOOLS, APPROVAL_TIMEOUT_SECONDS, COMMENT_TIMEOUT_SECONDS } = this.#settings;
    const header = toHeader(request, newRunId(), clock.now());
    const { context, options } = request;
    const journal = await begin(store, beginRecord(header, context));
    return new LiveRun({
      header,
      context,
      options,
      journal,
      clock,
      approvalTools: new Set(APPROVAL_REQUIRED_TOOLS),
      approvalTimeoutMs: APPROVAL_TIMEOUT_SECONDS * MS,
      commentTimeoutMs: COMMENT_TIMEOUT_SECONDS * MS,
      redact,
    });
  }

  async #hold(run: LiveRun, request: RunRequest): Promise<void> {
    const { parent } = request;
    if (parent !== undefined) {
      run.emit({ type: "run_resumed", parent_run_id: parent.runId, parent_topic: parent.topic });
    }
    const outcome = await this.#debate(run, request);
    if (outcome.status === "error") {
      this.#ports.fail(`run ${run.header.run_id} failed: ${outcome.error ?? ""}`);
    }
    await run.settle();
    // Stopped by the server, not by an operator.
    if (this.#isClosing && outcome.status === "cancelled") return run.log.end();
    const ending = await this.#store(run, request, outcome);
    // In one turn, so that a client that has the last event finds the run ended.
    this.#live.delete(run.header.run_id);
    run.conclude(ending);
  }

  async #debate(run: LiveRun, request: RunRequest): Promise<Outcome> {
    const { openTools, audit, redact, clock, newCallId, warn, fail } = this.#ports;
    try {
      const setup = await this.#toSetup(run.header.run_id, request);
      return await holdDebate(setup, {
        emit: (event) => run.emit(event),
        tools: openTools(),
        approve: (call) => run.approve(call),
        isPaused: () => run.options.pauseBetweenRounds,
        waitForComment: async () => maskWord(await run.waitForComment(), redact),
        audit,
        warn,
        fail,
        clock,
        newId: newCallId,
        signal: run.signal,
      });
    } catch (error) {
      if (run.signal.aborted) return { status: "cancelled" };
      const isKnown = error instanceof ModelError || error instanceof AppError;
      if (!isKnown) {
        fail(`run ${run.header.run_id} failed: ${errorName(error)}`);
      }
      return { status: "error", error: isKnown ? error.message : "The run failed unexpectedly" };
    }
  }

  async #toSetup(runId: string, request: RunRequest): Promise<DebateSetup> {
    const { openModel } = this.#ports;
    const settings = this.#settings;
    const ids = modelIds(request, settings);
    const { parent } = request;
    return {
      runId,
      topic: request.topic,
      context: request.context.text,
      models: {
        diagnostic: await openModel(ids.diagnostic),
        skeptic: await openModel(ids.skeptic),
        moderator: await openModel(ids.moderator),
        summary: await openModel(ids.summary),
        sample: await openModel(ids.sample),
      },
      ...(request.mode === "sample_then_debate" && {
        sampling: { count: settings.SAMPLES, then: "debate" as const },
      }),
      efforts: request.efforts,
      maxRounds: settings.MAX_ROUNDS,
      confidenceThreshold: settings.CONFIDENCE_THRESHOLD,
      earlyOut: { enabled: settings.EARLY_OUT_ENABLED, threshold: settings.EARLY_OUT_THRESHOLD },
      compressHistory: settings.COMPRESS_HISTORY,
      template: request.template,
      language: request.language,
      toolBudget: settings.MAX_TOOL_CALLS_PER_AGENT,
      maxConsecutiveErrors: settings.MAX_CONSECUTIVE_ERRORS,
      timeouts: {
        modelMs: settings.MODEL_TIMEOUT_SECONDS * MS,
        ...(settings.RUN_TIMEOUT_SECONDS > 0 && { runMs: settings.RUN_TIMEOUT_SECONDS * MS }),
      },
      ...(parent !== undefined && { initial: parent.prior }),
    };
  }

  /** Stores the record with its last events, and returns these events. */
  async #store(run: LiveRun, request: RunRequest, outcome: Outcome): Promise<readonly StoredEvent[]> {
    const { store, fail } = this.#ports;
    const record = this.#conclude(run, request, outcome);
    try {
      await store.finish(record);
      return record.events.slice(run.events.length);
    } catch (error) {
      fail(
        `cannot store run ${run.header.run_id}: ${errorText(error)}`,
      );
      const told: RunEvent = { type: "error", message: UNSAVED };
      return [run.stamp(told), ...record.events.slice(run.events.length)];
    }
  }

  #conclude(run: LiveRun, request: RunRequest, outcome: Outcome): RunRecord {
    const { estimateCost } = this.#ports;
    const usage = outcome.usage ?? NO_TOKENS;
    const cost = estimateCost(usage, modelIds(request, this.#settings));
    const ending: RunEvent[] = [];
    if (outcome.status === "cancelled") ending.push({ type: "run_cancelled" });
    if (outcome.status === "error") {
      ending.push({ type: "error", message: outcome.error ?? "The run failed" });
    }
    ending.push({ type: "run_finished", status: outcome.status, token_totals: usage, cost_estimate: cost });
    return recordOf(
      beginRecord(run.header, run.context),
      [...run.events, ...ending.map((event) => run.stamp(event))],
    );
  }
}

function maskWord({ comment, changes }: OperatorWord, redact: (text: string) => string): OperatorWord {
  const masked = changes.map((each) => each.kind === "add" ? { ...each, text: redact(each.text) } : each);
  return { comment: redact(comment), changes: masked };
}

/** The outcome of a run; only its status if it did not get as far as a debate. */
type Outcome = { readonly status: RunEnd } & Partial<DebateOutcome>;

const NO_TOKENS: TokenTotals = {
  by_node: {},
  total: { input_tokens: 0, output_tokens: 0, total_tokens: 0 },
};

const UNSAVED = "The record of this run could not be stored: export its report before the server stops";

async function begin(store: RunStore, record: RunRecord) {
  try {
    return await store.begin(record);
  } catch (cause) {
    throw new AppError("internal", "The record of the run cannot be written: is DATA_DIR full?", { cause });
  }
}

function toHeader(request: RunRequest, runId: string, startedAt: number): RunHeader {
  const { templateName: template, mode, parent } = request;
  return beginHeader({
    ...request,
    parent,
    runId,
    startedAt,
    template,
    isSampled: mode === "sample_then_debate",
  });
}

function modelIds({ models }: RunRequest, { SUMMARY_MODEL, SAMPLE_MODEL }: Settings): RoleModels {
  return {
    ...models,
    summary: SUMMARY_MODEL || models.moderator,
    sample: SAMPLE_MODEL || models.diagnostic,
  };
}
