import type { Clock } from "@gateway/shared/clock";
import type { RunEnd, RunEvent, TokenTotals, ToolArgs } from "./events.ts";
import type {
  AgentNode,
  AgentRole,
  DebateState,
  DebateTask,
  HistoryEntry,
  ToolLogEntry,
} from "./graph/state.ts";
import type { OperatorWord } from "./graph/hypotheses.ts";
import type { Model, ReasoningEffort, ToolSchema } from "./model.ts";
import type { PromptTemplate } from "../prompts/parse_template.ts";

type ByRole<T> = Readonly<Record<"diagnostic" | "skeptic" | "moderator", T>>;

type DebateEfforts = ByRole<ReasoningEffort | "none">;

export interface PriorRun {
  readonly history: readonly Omit<HistoryEntry, "round">[];
  readonly hypotheses: DebateState["hypotheses"];
}

export interface DebateSetup extends DebateTask {
  readonly runId: string;
  /** `sample` gives the independent diagnoses; by default it is the model of the diagnostic agent. */
  readonly models: ByRole<Model> & { readonly summary: Model; readonly sample?: Model };
  readonly efforts: DebateEfforts;
  readonly template: PromptTemplate;
  readonly toolBudget: number;
  /** After this many consecutive batches of tool calls with an error, an agent has to answer without tools. */
  readonly maxConsecutiveErrors: number;
  /** In milliseconds, in addition to the timeouts of models and tools. */
  readonly timeouts?: { readonly modelMs?: number; readonly runMs?: number };
  /** A resumed run has none: its diagnoses would not be independent of what it inherits. */
  readonly initial?: PriorRun;
  /** Independent diagnoses, then a debate about where they differ, or only a vote. */
  readonly sampling?: { readonly count: number; readonly then: "debate" | "vote" };
}

export interface ApprovalCall extends Pick<ToolLogEntry, "call_id" | "tool_name" | "args"> {
  readonly agent_node: AgentNode;
  readonly agent_role: AgentRole;
  /** Aborted when the run is cancelled, so that nobody waits any longer. */
  readonly signal: AbortSignal;
}

export type ApprovalAnswer = Exclude<ToolLogEntry["approval"], "cached">;

/** An approval of other arguments than those that were asked for. */
export interface EditedApproval {
  readonly answer: "approved";
  readonly args: ToolArgs;
  /** The same with secrets masked, for everybody but the tool. */
  readonly shown: ToolArgs;
}

export interface AuditLine extends Omit<ToolLogEntry, "call_id" | "tool_name"> {
  readonly timestamp: string;
  readonly run_id: string;
  readonly tool: string;
  /** The arguments that the agent requested, if the operator approved others. */
  readonly proposed_args?: ToolArgs;
}

export interface DebatePorts {
  /** Receives events in order. Must not throw. */
  readonly emit: (event: RunEvent) => void;
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
export interface DebateOutcome extends Pick<DebateState, "decision" | "hypotheses" | "history" | "roundLog"> {
  readonly status: RunEnd;
  readonly finalText: string;
  readonly toolLog: readonly ToolLogEntry[];
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

export interface Tool extends ToolSchema {
  /**
   * Runs the tool. An expected failure is a result with `ok: false`; an exception is a defect, shown to the
   * model only as such.
   *
   * @param args a JSON object that the model wrote, not checked yet
   */
  run(args: unknown, context: ToolContext): Promise<ToolResult>;
}
