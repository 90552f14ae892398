/**
 * What a debate needs and what it gives.
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
import type { Model, ReasoningEffort } from "./models/model.ts";
import type { PromptTemplate } from "./prompts/template.ts";
import type { Tool } from "./tools/tool.ts";

/** Who thinks; `summary` is the moderator's model unless configured. */
export interface DebateModels {
  readonly diagnostic: Model;
  readonly skeptic: Model;
  readonly moderator: Model;
  readonly summary: Model;
}

/** How hard each role is asked to think. */
export interface DebateEfforts {
  readonly diagnostic: ReasoningEffort | "none";
  readonly skeptic: ReasoningEffort | "none";
  readonly moderator: ReasoningEffort | "none";
}

/** Bounds behind those that models and tools keep themselves, in milliseconds. */
export interface DebateTimeouts {
  /** For one call of a model; default 10 minutes. */
  readonly modelMs?: number;
  /** For one tool call, without the wait for approval; default 5 minutes. */
  readonly toolMs?: number;
  /** For the whole run, with all waits; default none. */
  readonly runMs?: number;
}

/** What a resumed run knows of the run before. */
export interface PriorRun {
  readonly history: readonly PriorEntry[];
  readonly hypotheses: readonly Hypothesis[];
}

/** A debate to be held. */
export interface DebateSetup {
  readonly runId: string;
  readonly topic: string;
  /** Empty when there is none. Redacted already. */
  readonly context: string;
  readonly models: DebateModels;
  readonly efforts: DebateEfforts;
  readonly maxRounds: number;
  readonly confidenceThreshold: number;
  readonly earlyOut: EarlyOutRule;
  readonly compressHistory: boolean;
  readonly template: PromptTemplate;
  /** Of labels and instructions: Spanish for `es`, otherwise English. */
  readonly language: string;
  /** Tool calls of one agent in one round. */
  readonly toolBudget: number;
  /** Batches of tool calls with an error, in a row, after which an agent has to answer without tools. */
  readonly maxConsecutiveErrors: number;
  readonly timeouts?: DebateTimeouts;
  readonly initial?: PriorRun;
}

/** A tool call that wants to run. */
export interface ApprovalCall {
  /** The one id of the call, in all of its events. */
  readonly call_id: string;
  readonly tool_name: string;
  readonly args: ToolArgs;
  readonly agent_node: AgentNode;
  readonly agent_role: AgentRole;
  /** Aborted when the run is cancelled: nobody waits any more. */
  readonly signal: AbortSignal;
}

/** `auto`: nobody had to be asked. */
export type ApprovalAnswer = Exclude<CallApproval, "cached">;

/** One line of the audit log. */
export interface AuditLine {
  /** ISO 8601, UTC. */
  readonly timestamp: string;
  readonly run_id: string;
  readonly agent: AgentNode;
  readonly tool: string;
  readonly args: ToolArgs;
  /** The first 2000 characters. */
  readonly result: string;
  readonly error: boolean;
  readonly approval: CallApproval;
}

/** What a debate reaches the world through. */
export interface DebatePorts {
  readonly emit: Emit;
  readonly tools: readonly Tool[];
  /** Asks for a tool call, where it must. Emits `tool_approval_request` and `tool_approval_resolved` itself. */
  approve(call: ApprovalCall): Promise<ApprovalAnswer>;
  /** Asked after each round: whether to wait for the operator. */
  isPaused(): boolean;
  /**
   * Waits for the operator's comment; empty when there is none, or nobody came in time. The debate emits
   * `awaiting_user_input` right after the call, and `user_comment` with the answer.
   *
   * @param round the upcoming one
   */
  waitForComment(round: number): Promise<string>;
  /** Called before a tool's result reaches anybody; when it throws, the run ends in an error. */
  audit(line: AuditLine): void | Promise<void>;
  /** For the operator's log; no secrets are passed in. */
  warn?(message: string): void;
  readonly clock: Clock;
  /** A fresh id of 12 hexadecimal digits, for tool calls. */
  newId(): string;
  /** Cancels the run. */
  readonly signal: AbortSignal;
}

/** How a debate went; what there is of it also when it did not end well. */
export interface DebateOutcome {
  readonly status: RunEnd;
  /** The last decision. */
  readonly decision: Decision | undefined;
  /** The content of `final_result`; empty unless completed. */
  readonly finalText: string;
  readonly hypotheses: readonly Hypothesis[];
  readonly history: readonly HistoryEntry[];
  readonly roundLog: readonly RoundLogEntry[];
  readonly toolLog: readonly ToolLogEntry[];
  readonly usage: TokenTotals;
  /** Why, for people; only with status `error`. */
  readonly error?: string;
}
