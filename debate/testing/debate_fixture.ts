import { FakeClock } from "@gateway/shared/testing";
import type {
  AuditLine,
  DebateOutcome,
  DebatePorts,
  DebateSetup,
  Tool,
  ToolResult,
} from "../engine/ports.ts";
import { NO_INPUT } from "../engine/graph/hypotheses.ts";
import { conductDebate } from "../engine/agents/conduct_debate.ts";
import type { RunEvent, RunEventType } from "../engine/events.ts";
import { sampleDecision } from "./sample_state.ts";
import { type Script, ScriptedModel } from "./scripted_model.ts";

/** A decision that ends the debate, as a moderator writes it. */
export const CLOSING = JSON.stringify(sampleDecision({ status: "final_diagnosis", confidence: 0.9 }));

/** A decision to continue. */
export const CONTINUE = JSON.stringify(sampleDecision());

/** One hypothesis in the required form. */
export const DIAGNOSIS = "### HYPOTHESIS-1 [P=0.6]\nText: The connection pool is exhausted";

/** A debate of one round, unless the script contains more. */
export const SHORT_SCRIPT: Script = {
  diagnostic_agent: [DIAGNOSIS],
  skeptic_agent: ["[hypothesis:1] needs_evidence [P=0.5]"],
  diagnostic_rebuttal_agent: ["Measure the pool."],
  moderator_agent: [CLOSING],
  summarize_history: ["So far: the pool."],
};

/** A tool that returns the same result every time. */
export class FixedTool implements Tool {
  readonly name: string;
  readonly description = "gives a fixed result";
  readonly parameters = { type: "object" };
  /** The arguments of the runs so far. */
  readonly runs: unknown[] = [];
  readonly #result: ToolResult | ((signal: AbortSignal) => Promise<ToolResult>);

  constructor(
    name = "http_get",
    result: ToolResult | ((signal: AbortSignal) => Promise<ToolResult>) = { ok: true, text: "200 OK" },
  ) {
    this.name = name;
    this.#result = result;
  }

  run(args: unknown, { signal }: { readonly signal: AbortSignal }): Promise<ToolResult> {
    this.runs.push(args);
    return typeof this.#result === "function" ? this.#result(signal) : Promise.resolve(this.#result);
  }
}

/** A debate under test. */
export class DebateFixture {
  readonly clock = new FakeClock();
  readonly model: ScriptedModel;
  readonly events: RunEvent[] = [];
  readonly audit: AuditLine[] = [];
  readonly warnings: string[] = [];
  readonly cancel = new AbortController();
  readonly setup: DebateSetup;
  readonly ports: DebatePorts;
  #ids = 0;

  constructor(script: Script = {}, setup: Partial<DebateSetup> = {}, ports: Partial<DebatePorts> = {}) {
    this.model = new ScriptedModel({ ...SHORT_SCRIPT, ...script });
    const { model } = this;
    this.setup = {
      runId: "0123456789abcdef0123456789abcdef",
      topic: "checkout answers slowly",
      context: "",
      models: { diagnostic: model, skeptic: model, moderator: model, summary: model },
      efforts: { diagnostic: "none", skeptic: "none", moderator: "none" },
      maxRounds: 4,
      confidenceThreshold: 0.8,
      earlyOut: { enabled: true, threshold: 0.9 },
      compressHistory: true,
      template: {
        name: "default",
        language: "en",
        version: 1,
        description: "",
        source: "builtin",
        diagnosticSystem: "You diagnose.",
        skepticSystem: "You doubt.",
        moderatorSystem: "You decide.",
      },
      language: "en",
      toolBudget: 8,
      maxConsecutiveErrors: 3,
      ...setup,
    };
    this.ports = {
      emit: (event) => this.events.push(event),
      tools: [],
      approve: () => Promise.resolve("auto"),
      isPaused: () => false,
      waitForComment: () => Promise.resolve(NO_INPUT),
      audit: (line) => {
        this.audit.push(line);
      },
      warn: (message) => this.warnings.push(message),
      clock: this.clock,
      newId: () => (++this.#ids).toString(16).padStart(12, "0"),
      signal: this.cancel.signal,
      ...ports,
    };
  }

  run(): Promise<DebateOutcome> {
    return conductDebate(this.setup, this.ports);
  }

  /** Returns the fixture after its run, for tests that ignore the outcome. */
  async ran(): Promise<this> {
    await this.run();
    return this;
  }

  /** Runs until an event arrives, does something then, and continues to the end. */
  async runUntil(type: RunEventType, act: () => void | Promise<void>): Promise<DebateOutcome> {
    const reached = Promise.withResolvers<void>();
    const emit = (event: RunEvent) => {
      this.events.push(event);
      if (event.type === type) reached.resolve();
    };
    const running = conductDebate(this.setup, { ...this.ports, emit });
    await reached.promise;
    await act();
    return await running;
  }

  types(): readonly RunEventType[] {
    return this.events.map(({ type }) => type).filter((type) => type !== "agent_delta");
  }

  of<T extends RunEventType>(type: T): readonly Extract<RunEvent, { type: T }>[] {
    return this.events.filter((event): event is Extract<RunEvent, { type: T }> => event.type === type);
  }
}
