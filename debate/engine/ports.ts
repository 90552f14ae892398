import type { Clock } from "@gateway/shared/clock";
import type { Emit, RunEnd, TokenTotals, ToolArgs } from "./events.ts";
import type * as state from "./graph/state.ts";
import type { OperatorWord } from "./graph/hypotheses.ts";
import type { Model, ReasoningEffort } from "./model.ts";
import type { PromptTemplate } from "../prompts/parse_template.ts";

export interface Sampling {
  readonly count: number;
  /** What follows: a debate about where they differ, or only a vote. */
  readonly then: "debate" | "vote";
}

export type DebateEfforts = Readonly<
  Record<"diagnostic" | "skeptic" | "moderator", ReasoningEffort | "none">
>;

export interface PriorRun {
  readonly history: readonly state.PriorEntry[];
  readonly hypotheses: readonly state.Hypothesis[];
}

export interface DebateSetup extends state.DebateTask {
  readonly runId: string;
  /** The models by role; `sample` gives the independent diagnoses, by default it is the diagnostic agent's. */
  readonly models: Readonly<
    Record<"diagnostic" | "skeptic" | "moderator" | "summary", Model> & { sample?: Model }
  >;
  readonly efforts: DebateEfforts;
  readonly template: PromptTemplate;
  readonly toolBudget: number;
  /** After this many consecutive batches of tool calls with an error, an agent has to answer without tools. */
  readonly maxConsecutiveErrors: number;
  /** In milliseconds, in addition to those of models and tools; `toolMs` is without the wait for approval. */
  readonly timeouts?: { readonly modelMs?: number; readonly toolMs?: number; readonly runMs?: number };
  /** A resumed run has none: its diagnoses would not be independent of what it inherits. */
  readonly initial?: PriorRun;
  readonly sampling?: Sampling;
}

export interface ApprovalCall {
  readonly call_id: string;
  readonly tool_name: string;
  readonly args: ToolArgs;
  readonly agent_node: state.AgentNode;
  readonly agent_role: state.AgentRole;
  /** Aborted when the run is cancelled, so that nobody waits any longer. */
  readonly signal: AbortSignal;
}

export type ApprovalAnswer = Exclude<state.CallApproval, "cached">;

/** An approval of other arguments than those that were asked for. */
export interface EditedApproval {
  readonly answer: "approved";
  readonly args: ToolArgs;
  /** The same with secrets masked, for everybody but the tool. */
  readonly shown: ToolArgs;
}

export interface AuditLine {
  readonly timestamp: string;
  readonly run_id: string;
  readonly agent: state.AgentNode;
  readonly tool: string;
  readonly args: ToolArgs;
  /** What the agent asked for, if the operator approved other arguments. */
  readonly proposed_args?: ToolArgs;
  readonly result: string;
  readonly error: boolean;
  readonly approval: state.CallApproval;
}

export interface DebatePorts {
  readonly emit: Emit;
  readonly tools: readonly Tool[];
  /**
   * Asks for approval of a tool call if one is needed. Emits `tool_approval_request` and
   * `tool_approval_resolved` itself.
   */
  approve(call: ApprovalCall): Promise<ApprovalAnswer | EditedApproval>;
  isPaused(): boolean;
  /**
   * Waits for the operator's comment and changes of hypotheses; empty when there are none, or they did not
   * arrive in time. The debate emits `awaiting_user_input` right after the call, and `user_comment` with the
   * answer.
   *
   * @param round the upcoming one
   */
  waitForComment(round: number): Promise<OperatorWord>;
  /** Called before a tool's result reaches anybody; when it throws, the run ends in an error. */
  audit(line: AuditLine): void | Promise<void>;
  /** Writes to the operator's log; is never given secrets. */
  warn?(message: string): void;
  fail?(message: string): void;
  readonly clock: Clock;
  newId(): string;
  readonly signal: AbortSignal;
}

/** The outcome of a debate; a debate that failed or was cancelled has what was reached by then. */
export interface DebateOutcome {
  readonly status: RunEnd;
  readonly decision: state.Decision | undefined;
  readonly finalText: string;
  readonly hypotheses: readonly state.Hypothesis[];
  readonly history: readonly state.HistoryEntry[];
  readonly roundLog: readonly state.RoundLogEntry[];
  readonly toolLog: readonly state.ToolLogEntry[];
  readonly usage: TokenTotals;
  readonly error?: string;
}

export interface ToolResult {
  /** `false` for every failure, including those that the tool itself explains: refused, unreachable, timed out. */
  readonly ok: boolean;
  /** For the model and the operator; cut to 4000 characters and redacted by the tool. */
  readonly text: string;
}

export interface ToolContext {
  /** Aborted when the run is cancelled or the engine's own bound on tools has passed; stops whatever the tool started. */
  readonly signal: AbortSignal;
  readonly runId: string;
}

export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  /**
   * Runs the tool. An expected failure is a result with `ok: false`; an exception is a defect, shown to the
   * model only as such.
   *
   * @param args a JSON object that the model wrote, not checked yet
   */
  run(args: unknown, context: ToolContext): Promise<ToolResult>;
}
