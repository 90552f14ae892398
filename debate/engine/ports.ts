import type { Clock } from "@gateway/shared/clock";
import type { ReasoningEffort, RunEnd, RunEvent, TokenTotals, ToolArgs, Usage } from "./events.ts";
import type {
  AgentNode,
  AgentRole,
  DebateState,
  DebateTask,
  HistoryEntry,
  NodeName,
  ToolLogEntry,
} from "./graph/state.ts";
import type { OperatorWord } from "./graph/hypotheses.ts";

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
  /** `sample` gives the independent diagnoses; by default it is the model of the diagnostic agent. */
  readonly models: ByRole<Model> & { readonly summary: Model; readonly sample?: Model };
  readonly efforts: ByRole<ReasoningEffort | "none">;
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

export interface ToolCall {
  /** The model's own id for it; may be anything, even empty. */
  readonly id: string;
  readonly name: string;
  /** The raw text as the model wrote it; it should be a JSON object. */
  readonly arguments: string;
}

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  readonly toolCalls?: readonly ToolCall[];
  /** In a message of role `tool`: the id of the call that it answers. */
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
   * `none`: the tools are described, because the messages refer to them, but may not be called any more. A
   * provider that cannot express this leaves the tools out.
   */
  readonly toolChoice?: "none";
  readonly temperature: number | undefined;
  readonly reasoningEffort?: ReasoningEffort;
  /** JSON schema that the text must match, for providers with structured output; others leave it out. */
  readonly jsonSchema?: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
  /** Receives the text as it arrives, in non-empty pieces; absent if nobody wants it piece by piece. */
  onDelta?(text: string): void;
  readonly purpose: NodeName;
  readonly round: number;
}

export interface ModelReply {
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  readonly usage: Usage | undefined;
  readonly isCut?: true;
  /** Whether an effort was requested although this model has no such setting. */
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
  /** The provider failed or cannot be reached, even after retries; or broke off in the middle. */
  | "server"
  /** The provider refuses the request itself, or its answer cannot be read. */
  | "bad_reply"
  | "canceled";

/**
 * A model's failure. The message is for people and goes into events, so it contains no tokens, addresses or raw
 * bodies.
 */
export class ModelError extends Error {
  override readonly name = "ModelError";
  readonly kind: ModelErrorKind;
  readonly usage: Usage | undefined;

  constructor(
    kind: ModelErrorKind,
    message: string,
    options: { readonly cause?: unknown; readonly usage?: Usage } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.kind = kind;
    this.usage = options.usage;
  }
}

export const RUN_MODES = ["debate", "sample_then_debate"] as const;

/** `sample_then_debate`: independent diagnoses first, and a debate only about where they differ. */
export type RunMode = (typeof RUN_MODES)[number];
