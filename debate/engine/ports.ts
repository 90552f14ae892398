/**
 * What a debate needs and what it returns.
 *
 * @module
 */
import type { Clock } from "@gateway/shared/clock";
import type { Emit, RunEnd, TokenTotals, ToolArgs } from "./events.ts";
import type {
  AgentNode,
  AgentRole,
  CallApproval,
  Decision,
  EarlyOutRule,
  HistoryEntry,
  Hypothesis,
  PriorEntry,
  RoundLogEntry,
  ToolLogEntry,
} from "./graph/state.ts";
import type { OperatorWord } from "./graph/operator.ts";
import type { Model, ReasoningEffort } from "./model.ts";
import type { PromptTemplate } from "../prompts/template.ts";
import type { Tool } from "./tool.ts";

/** The models by role; `summary` is the moderator's model unless configured. */
export interface DebateModels {
  readonly diagnostic: Model;
  readonly skeptic: Model;
  readonly moderator: Model;
  readonly summary: Model;
  /** Gives the independent diagnoses; absent: the diagnostic agent's model. */
  readonly sample?: Model;
}

export interface Sampling {
  readonly count: number;
  /** What follows: a debate about where they differ, or only a vote. */
  readonly then: "debate" | "vote";
}

/** How hard each role is asked to think. */
export interface DebateEfforts {
  readonly diagnostic: ReasoningEffort | "none";
  readonly skeptic: ReasoningEffort | "none";
  readonly moderator: ReasoningEffort | "none";
}

/** Time limits in milliseconds, in addition to those of models and tools. */
interface DebateTimeouts {
  /** For one model call; by default 10 minutes. */
  readonly modelMs?: number;
  /** For one tool call, without the wait for approval; by default 5 minutes. */
  readonly toolMs?: number;
  /** For the whole run, including all waits; by default unlimited. */
  readonly runMs?: number;
}

/** What a resumed run knows about the previous run. */
export interface PriorRun {
  readonly history: readonly PriorEntry[];
  readonly hypotheses: readonly Hypothesis[];
}

export interface DebateSetup {
  readonly runId: string;
  readonly topic: string;
  /** Empty if there is none. Already redacted. */
  readonly context: string;
  readonly models: DebateModels;
  readonly efforts: DebateEfforts;
  readonly maxRounds: number;
  readonly confidenceThreshold: number;
  readonly earlyOut: EarlyOutRule;
  readonly compressHistory: boolean;
  readonly template: PromptTemplate;
  /** The language of labels and instructions: Spanish for `es`, otherwise English. */
  readonly language: string;
  /** The most tool calls of one agent in one round. */
  readonly toolBudget: number;
  /** After this many consecutive batches of tool calls with an error, an agent has to answer without tools. */
  readonly maxConsecutiveErrors: number;
  readonly timeouts?: DebateTimeouts;
  /** A resumed run has none: its diagnoses would not be independent of what it inherits. */
  readonly initial?: PriorRun;
  readonly sampling?: Sampling;
}

/** A tool call that waits for permission to run. */
export interface ApprovalCall {
  /** The id of the call in all of its events. */
  readonly call_id: string;
  readonly tool_name: string;
  readonly args: ToolArgs;
  readonly agent_node: AgentNode;
  readonly agent_role: AgentRole;
  /** Aborted when the run is cancelled, so that nobody waits any longer. */
  readonly signal: AbortSignal;
}

/** `auto`: no approval was needed. */
export type ApprovalAnswer = Exclude<CallApproval, "cached">;

/** An approval of other arguments than those that were asked for. */
export interface EditedApproval {
  readonly answer: "approved";
  readonly args: ToolArgs;
  /** The same with secrets masked, for everybody but the tool. */
  readonly shown: ToolArgs;
}

/** One line of the audit log. */
export interface AuditLine {
  /** ISO 8601, UTC. */
  readonly timestamp: string;
  readonly run_id: string;
  readonly agent: AgentNode;
  readonly tool: string;
  readonly args: ToolArgs;
  /** What the agent asked for, if the operator approved other arguments. */
  readonly proposed_args?: ToolArgs;
  /** The first 2000 characters. */
  readonly result: string;
  readonly error: boolean;
  readonly approval: CallApproval;
}

/** What gives a debate access to the outside world. */
export interface DebatePorts {
  readonly emit: Emit;
  readonly tools: readonly Tool[];
  /**
   * Asks for approval of a tool call if one is needed. Emits `tool_approval_request` and
   * `tool_approval_resolved` itself.
   */
  approve(call: ApprovalCall): Promise<ApprovalAnswer | EditedApproval>;
  /** Asked after each round: whether to wait for the operator. */
  isPaused(): boolean;
  /**
   * Waits for the operator's comment and changes of hypotheses; empty when there are none, or they did not arrive in time. The debate emits
   * `awaiting_user_input` right after the call, and `user_comment` with the answer.
   *
   * @param round the upcoming one
   */
  waitForComment(round: number): Promise<OperatorWord>;
  /** Called before a tool's result reaches anybody; when it throws, the run ends in an error. */
  audit(line: AuditLine): void | Promise<void>;
  /** Writes to the operator's log; is never given secrets. */
  warn?(message: string): void;
  /** The same, for what ends the run. */
  fail?(message: string): void;
  readonly clock: Clock;
  /** A fresh id of 12 hexadecimal digits, for tool calls. */
  newId(): string;
  readonly signal: AbortSignal;
}

/** The outcome of a debate; a debate that failed or was cancelled has what was reached by then. */
export interface DebateOutcome {
  readonly status: RunEnd;
  readonly decision: Decision | undefined;
  /** The content of `final_result`; empty unless completed. */
  readonly finalText: string;
  readonly hypotheses: readonly Hypothesis[];
  readonly history: readonly HistoryEntry[];
  readonly roundLog: readonly RoundLogEntry[];
  readonly toolLog: readonly ToolLogEntry[];
  readonly usage: TokenTotals;
  /** The reason for people; only with status `error`. */
  readonly error?: string;
}
