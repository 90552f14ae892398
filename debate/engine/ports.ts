import type { Clock } from "@gateway/shared/clock";
import type { Chart, ReasoningEffort, RunEnd, RunEvent, TokenTotals, ToolArgs, Usage } from "./events.ts";
import type {
  AgentNode,
  AgentRole,
  DebateState,
  DebateTask,
  HistoryEntry,
  NodeName,
  ToolLogEntry,
} from "./graph/state.ts";
import type { OperatorInput } from "./graph/hypotheses.ts";

export type ByRole<T> = Readonly<Record<"diagnostic" | "skeptic" | "moderator", T>>;

export interface PromptTemplate {
  readonly name: string;
  readonly language: string;
  readonly version: number;
  readonly description: string;
  readonly source: "builtin" | "custom";
  readonly diagnosticSystem: string;
  readonly skepticSystem: string;
  readonly moderatorSystem: string;
}

export interface PriorRun {
  readonly history: readonly Omit<HistoryEntry, "round">[];
  readonly hypotheses: DebateState["hypotheses"];
}

export interface DebateSetup extends DebateTask {
  readonly runId: string;
  /** `sample` writes the independent diagnoses. Default: the model of the diagnostic agent. */
  readonly models: ByRole<Model> & { readonly summary: Model; readonly sample?: Model };
  readonly efforts: ByRole<ReasoningEffort | "none">;
  readonly template: PromptTemplate;
  readonly toolBudget: number;
  /** The number of consecutive failed batches of tool calls after which an agent must answer without tools. */
  readonly maxConsecutiveErrors: number;
  /** Time limits in milliseconds, in addition to the timeouts of models and tools. */
  readonly timeouts?: { readonly modelMs?: number; readonly runMs?: number };
  /** The run that this one resumes. A resumed run takes no samples, because they would not be independent. */
  readonly initial?: PriorRun;
  /** Independent diagnoses, followed by a debate about their differences or by a vote. */
  readonly sampling?: { readonly count: number; readonly then: "debate" | "vote" };
}

export interface ApprovalCall extends Pick<ToolLogEntry, "call_id" | "tool_name" | "args"> {
  readonly agent_node: AgentNode;
  readonly agent_role: AgentRole;
  /** The result of {@linkcode Tool.needOf}. */
  readonly need: string | undefined;
  /** The text of the agent before the call; may be empty. */
  readonly reason: string;
  readonly needsApproval?: boolean | undefined;
  /** Aborted when the run is cancelled. */
  readonly signal: AbortSignal;
}

export type ApprovalAnswer = Exclude<ToolLogEntry["approval"], "cached">;

/** An approval with other arguments than the requested ones. */
export interface EditedApproval {
  readonly answer: "approved";
  readonly args: ToolArgs;
  /** The same arguments with masked secrets. Only the tool receives the unmasked ones. */
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
   * Requests the operator's approval of a tool call if it is required. Emits `tool_approval_request` and
   * `tool_approval_resolved`.
   */
  approve(call: ApprovalCall): Promise<ApprovalAnswer | EditedApproval>;
  isPaused(): boolean;
  /**
   * Waits for the operator's comment and changes of hypotheses; empty if none arrive in time. The debate emits
   * `awaiting_user_input` right after the call, and `user_comment` with the answer.
   *
   * @param round the next round
   */
  waitForComment(round: number): Promise<OperatorInput>;
  /** Called before a tool's result is used. If the call throws, the run ends in an error. */
  audit(line: AuditLine): void | Promise<void>;
  /** Writes to the operator's log. Messages contain no secrets. */
  warn?(message: string): void;
  fail?(message: string): void;
  readonly clock: Clock;
  newId(): string;
  readonly signal: AbortSignal;
}

/** The outcome of a debate. After a failure or a cancellation it contains the results so far. */
export interface DebateOutcome extends Pick<DebateState, "decision" | "hypotheses" | "history" | "roundLog"> {
  readonly status: RunEnd;
  readonly finalText: string;
  readonly toolLog: readonly ToolLogEntry[];
  readonly usage: TokenTotals;
  readonly error?: string;
}

export interface ToolResult {
  /** `false` for every failure, including failures that the tool explains: rejected, unreachable, timed out. */
  readonly ok: boolean;
  /** The text for the model and the operator. The tool redacts it and truncates it to 4000 characters. */
  readonly text: string;
  /** Masked and bounded like the text. */
  readonly chart?: Chart;
}

export interface ToolContext {
  /** Aborted when the run is cancelled or the engine's time limit for tools passes. The tool must then stop its work. */
  readonly signal: AbortSignal;
  readonly runId: string;
  /** A person has approved exactly these arguments. */
  readonly isApproved?: boolean;
}

export interface Tool extends ToolSchema {
  /** Calls wait for approval in a run that requires it, in addition to the tools of the settings. */
  readonly needsApproval?: boolean;
  /**
   * The reason why a call needs the approval of a person, whatever the settings. {@linkcode Tool.run} rejects such a
   * call without an approval.
   */
  needOf?(args: unknown): string | undefined;
  /**
   * Runs the tool. An expected failure is a result with `ok: false`. An exception is a defect: the model sees
   * neither its type nor its message.
   *
   * @param args the unchecked JSON object that the model wrote
   */
  run(args: unknown, context: ToolContext): Promise<ToolResult>;
}

export interface ToolCall {
  /** The ID that the model chose. It may be any text, even empty. */
  readonly id: string;
  readonly name: string;
  /** The text that the model wrote. It should be a JSON object. */
  readonly arguments: string;
  /** Data that the provider requires back with the call, such as signatures of thoughts. */
  readonly extra?: Readonly<Record<string, unknown>>;
}

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  readonly toolCalls?: readonly ToolCall[];
  /** For role `tool`: the ID of the answered call. */
  readonly toolCallId?: string;
}

interface ToolSchema {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}

export interface ModelRequest {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ToolSchema[];
  /**
   * `none`: the tools are described, because the messages refer to them, but the model must not call them. For a
   * provider without this option, the tools are omitted.
   */
  readonly toolChoice?: "none";
  readonly temperature: number | undefined;
  readonly reasoningEffort?: ReasoningEffort;
  /** The JSON schema of the text, for providers that support structured output. */
  readonly jsonSchema?: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
  /** Receives the text in non-empty pieces as it arrives. Without this callback the reply is not streamed. */
  onDelta?(text: string): void;
  readonly purpose: NodeName;
  readonly round: number;
}

export interface ModelReply {
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  readonly usage: Usage | undefined;
  readonly isCut?: true;
  /** Whether a reasoning effort was requested that the model does not support. */
  readonly effortIgnored?: boolean;
}

export interface Model {
  readonly id: string;
  complete(request: ModelRequest): Promise<ModelReply>;
}

export type ModelErrorKind =
  | "auth"
  | "rate"
  | "timeout"
  /** The provider failed, stopped in the middle of a reply, or cannot be reached, even after retries. */
  | "server"
  /** The provider rejects the request, or its answer is invalid. */
  | "bad_reply"
  | "canceled";

/**
 * A failure of a model. The message is for people and is part of events, so it contains no tokens or addresses. It quotes
 * at most one line of the provider.
 */
export class ModelError extends Error {
  override readonly name = "ModelError";
  readonly kind: ModelErrorKind;
  readonly usage: Usage | undefined;
  /** The least pause in milliseconds before the call is repeated; `undefined` if a repetition is useless. */
  readonly pauseMs: number | undefined;

  constructor(
    kind: ModelErrorKind,
    message: string,
    options: { readonly cause?: unknown; readonly usage?: Usage; readonly pauseMs?: number | undefined } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.kind = kind;
    this.usage = options.usage;
    this.pauseMs = options.pauseMs;
  }
}

export const RUN_MODES = ["debate", "sample_then_debate"] as const;

/** `sample_then_debate`: independent diagnoses, followed by a debate about their differences. */
export type RunMode = (typeof RUN_MODES)[number];
