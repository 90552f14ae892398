import type { Clock } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { conductDebate, describeFailure } from "../engine/agents/conduct_debate.ts";
import type { DebateOutcome, DebatePorts, Model, Tool } from "../engine/ports.ts";
import type { Settings } from "../settings/config.ts";
import type { CostEstimate, RunEnd, RunEvent, TokenTotals } from "../engine/events.ts";
import type { OperatorInput } from "../engine/graph/hypotheses.ts";
import { recordOf } from "./fold.ts";
import { LiveRun, type OperatorPlace, type RunOptions } from "./live_run.ts";
import type { StoredEvent } from "./record.ts";
import { endingEvents, modelIds, NO_TOKENS, type RunRequest, toHeader, toSetup } from "./setup.ts";
import type { RunStore } from "./store.ts";

interface RunPorts {
  readonly store: RunStore;
  readonly clock: Clock;
  readonly newId: (bytes: number) => string;
  readonly openModel: (id: string) => Model | Promise<Model>;
  readonly toolset: () => Promise<{ readonly tools: readonly Tool[] }>;
  readonly audit: DebatePorts["audit"];
  /** Masks secrets in the operator's texts. */
  readonly redact: (text: string) => string;
  /** Called with each event of a run that started at `startedAt`. */
  readonly observe?: (event: RunEvent, startedAt: number, now: number) => void;
  readonly estimateCost: (totals: TokenTotals, models: ReturnType<typeof modelIds>) => CostEstimate | null;
  readonly warn: (message: string) => void;
  readonly fail: (message: string) => void;
}

interface ServerRun extends RunRequest {
  readonly options: RunOptions;
  /** If `absent`, the run has no tools that need approval, whatever its options. */
  readonly operator?: OperatorPlace;
}

const MAX_LIVE = 200;

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

  /** The runs in progress. */
  get live(): readonly LiveRun[] {
    return [...this.#live.values()];
  }

  /** Starts a run. Returns its ID as soon as its record is stored. */
  async start(request: ServerRun): Promise<string> {
    if (this.#isClosing) throw new AppError("canceled", "The server is stopping");
    if (this.#live.size + this.#starting >= MAX_LIVE) {
      const text = `Cannot start a run: ${MAX_LIVE} runs are in progress, which is the limit`;
      throw new AppError("rate_limited", text, { retryAfterSeconds: 60 });
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

  /** Stops all runs. Their records stay marked as running, and the next start marks them as interrupted. */
  async close(): Promise<void> {
    this.#isClosing = true;
    for (const run of this.#live.values()) run.cancel();
    await Promise.all(this.#held);
  }

  async #open(request: ServerRun): Promise<LiveRun> {
    const { clock, store, newId, redact } = this.#ports;
    const header = toHeader(request, newId(16), clock.now());
    const { context, options, operator } = request;
    const journal = await store.begin(recordOf(header, context, [])).catch((cause) => {
      const text = "Cannot write the record of the run: check the free space of DATA_DIR";
      throw new AppError("internal", text, { cause });
    });
    const settings = this.#settings;
    return new LiveRun({ header, context, options, operator, journal, clock, settings, redact });
  }

  async #hold(run: LiveRun, request: ServerRun): Promise<void> {
    const { parent } = request;
    if (parent !== undefined) {
      run.emit({ type: "run_resumed", parent_run_id: parent.runId, parent_topic: parent.topic });
    }
    const outcome = await this.#debate(run, request);
    if (outcome.status === "error") {
      this.#ports.fail(`run ${run.header.run_id} failed: ${outcome.error ?? ""}`);
    }
    await run.settle();
    // The server stopped the run, not the operator.
    if (this.#isClosing && outcome.status === "cancelled") return run.log.end();
    const ending = await this.#store(run, request, outcome);
    // In one turn, so that a client that receives the last event no longer finds the run in progress.
    this.#live.delete(run.header.run_id);
    run.conclude(ending);
  }

  async #debate(run: LiveRun, request: ServerRun): Promise<Outcome> {
    const { openModel, toolset, audit, redact, clock, newId, warn, fail } = this.#ports;
    const { APPROVAL_REQUIRED_TOOLS: guarded } = this.#settings;
    try {
      const setup = await toSetup(run.header.run_id, request, this.#settings, openModel);
      const { tools } = await toolset();
      const free = tools.filter(({ name, needsApproval }) => !needsApproval && !guarded.includes(name));
      return await conductDebate(setup, {
        emit: (event) => {
          this.#observe(run, event);
          run.emit(event);
        },
        tools: request.operator === "absent" ? free : tools,
        approve: (call) => run.approve(call),
        isPaused: () => run.options.pauseBetweenRounds,
        waitForComment: async () => maskWord(await run.waitForComment(), redact),
        audit,
        warn,
        fail,
        clock,
        newId: () => newId(6),
        signal: run.signal,
      });
    } catch (error) {
      if (run.signal.aborted) return { status: "cancelled" };
      return { status: "error", error: describeFailure(error, run.header.run_id, this.#ports) };
    }
  }

  #observe(run: LiveRun, event: RunEvent): void {
    const { observe, clock } = this.#ports;
    observe?.(event, Date.parse(run.header.timestamp), clock.now());
  }

  /** Stores the record with its last events and returns these events. */
  async #store(run: LiveRun, request: ServerRun, outcome: Outcome): Promise<readonly StoredEvent[]> {
    const { store, fail, estimateCost } = this.#ports;
    const cost = estimateCost(outcome.usage ?? NO_TOKENS, modelIds(request, this.#settings));
    const last = endingEvents(outcome, cost);
    for (const event of last) this.#observe(run, event);
    const ending = last.map((event) => run.stamp(event));
    try {
      await store.finish(recordOf(run.header, run.context, [...run.events, ...ending]));
      return ending;
    } catch (error) {
      fail(`cannot store run ${run.header.run_id}: ${errorText(error)}`);
      return [run.stamp({ type: "error", message: UNSAVED }), ...ending];
    }
  }
}

function maskWord({ comment, changes }: OperatorInput, redact: (text: string) => string): OperatorInput {
  const masked = changes.map((each) => each.kind === "add" ? { ...each, text: redact(each.text) } : each);
  return { comment: redact(comment), changes: masked };
}

/** The outcome of a run. It has only a status and an error if no debate was started. */
type Outcome = { readonly status: RunEnd } & Partial<DebateOutcome>;

const UNSAVED = "Cannot store the record of this run: export its report before the server stops";
