import type { SampleComparison } from "./graph/samples.ts";
import type { AgentNode, AgentRole, CallApproval, Decision, Hypothesis, NodeName } from "./graph/state.ts";

export type ReasoningEffort = "low" | "medium" | "high";

export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly total_tokens: number;
  /** The provider said nothing, at least of a part: it is counted by its characters. */
  readonly estimated?: true;
}

export type ToolArgs = Readonly<Record<string, unknown>>;

export type RunEnd = "completed" | "cancelled" | "error";

/** Tokens of a run; a node without any is absent. */
export interface TokenTotals {
  readonly by_node: Readonly<Partial<Record<NodeName, Usage>>>;
  readonly total: Usage;
}

/** One node's share of the cost. */
export interface NodeCost extends Usage {
  readonly model: string;
  /** `null` when the model's price is unknown. */
  readonly estimated_usd: number | null;
}

/** What a run cost, in US dollars, rounded to 6 decimals. */
export interface CostEstimate {
  readonly by_node: Readonly<Partial<Record<NodeName, NodeCost>>>;
  /** `null` when nothing has a price. */
  readonly total_usd: number | null;
  readonly has_prices: boolean;
}

interface AgentFields {
  readonly agent_node: AgentNode;
  readonly agent_role: AgentRole;
}

interface CallFields {
  readonly agent_node: AgentNode;
  readonly agent_role: AgentRole;
  readonly call_id: string;
  readonly tool_name: string;
  readonly args: ToolArgs;
}

export type RunEvent =
  /** First event of a resumed run; emitted by the code that starts it, before the debate. */
  | { readonly type: "run_resumed"; readonly parent_run_id: string; readonly parent_topic: string }
  /** The debate begins. */
  | {
    readonly type: "run_started";
    readonly round: 1;
    readonly topic: string;
    readonly max_rounds: number;
    readonly confidence_threshold: number;
    readonly template: string;
    readonly language: string;
    /** How many independent diagnoses come first; absent in a debate without any. */
    readonly samples?: number;
  }
  /** A model call of an agent begins; a turn with tools has several. Ephemeral. */
  | AgentFields & { readonly type: "agent_turn_started" }
  /** A piece of an agent's text, never empty. Ephemeral. */
  | AgentFields & { readonly type: "agent_delta"; readonly delta: string }
  /** What an agent said along with its tool calls; never blank. */
  | AgentFields & { readonly type: "agent_reasoning"; readonly content: string }
  /** The final text of an agent. */
  | {
    readonly type: "agent_completed";
    readonly node: AgentNode;
    readonly role: AgentRole;
    readonly content: string;
    /** The run ended while the agent was speaking; this is the text so far. */
    readonly partial?: true;
    /** It is one of the independent diagnoses before the debate, from 1; its ids of hypotheses are its own. */
    readonly sample?: number;
    /** Of the run so far; absent if it ended here. */
    readonly total_tokens?: number;
  }
  /** The independent diagnoses were compared; the debate is about where they differ. */
  | SampleComparison & {
    readonly type: "samples_compared";
    readonly node: "diagnostic_agent";
    readonly round: 1;
  }
  /** Something about the run that weakens its result, in the language of the debate. */
  | { readonly type: "run_warning"; readonly code: "one_model"; readonly message: string }
  /** An agent was skipped because of the moderator's previous directive, or because the diagnoses agree. */
  | AgentFields & {
    readonly type: "agent_skipped";
    readonly node: AgentNode;
    readonly role: AgentRole;
    readonly rationale: string;
  }
  /** The whole table of hypotheses after a change; at the start of a resumed run, the table that it inherits. */
  | {
    readonly type: "hypothesis_update";
    readonly node: AgentNode | "moderator_agent" | "user_input_gate";
    /** 0 for hypotheses of the run that this one resumes. */
    readonly round: number;
    readonly hypotheses: readonly Hypothesis[];
  }
  /** A tool call waits for the operator; `call_id` is the call's id. Emitted by the approver. */
  | CallFields & {
    readonly type: "tool_approval_request";
  }
  /** The operator decided about a tool call, or the time ran out. */
  | {
    readonly type: "tool_approval_resolved";
    readonly call_id: string;
    readonly approved: boolean;
    readonly resolution: "approved" | "rejected" | "timeout";
    /** Nobody was asked: the operator approved the same call for the whole run before. */
    readonly remembered?: true;
    /** The same call is allowed for the rest of the run, until that is taken back. */
    readonly for_run?: true;
    /** What the operator approved in place of what was asked for. */
    readonly args?: ToolArgs;
  }
  /** The operator asks again about a call that was allowed for the whole run. Emitted by the approver. */
  | {
    readonly type: "tool_approval_revoked";
    /** That of the call whose approval was for the whole run. */
    readonly call_id: string;
    readonly tool_name: string;
    readonly args: ToolArgs;
  }
  /** A tool begins. Not emitted for calls that run nothing, because they are cached, unknown or not approved. */
  | CallFields & {
    readonly type: "tool_call_started";
  }
  /** The result of a tool call. */
  | CallFields & {
    readonly type: "tool_call";
    /** From 1, in the order of the run; evidence cites it as `[tool:<tool_name>#<number>]`. */
    readonly number: number;
    /** What the agent asked for, if the operator approved other arguments. */
    readonly proposed_args?: ToolArgs;
    readonly result: string;
    readonly error: boolean;
    readonly approval: CallApproval;
    readonly cached: boolean;
    /** 0 for a cached result, `null` when nothing ran. */
    readonly duration_ms: number | null;
  }
  /** The decision of the moderator on a round. */
  | {
    readonly type: "moderator_decision";
    readonly node: "moderator_agent";
    readonly decision: Decision;
    /** The next round if there is one, otherwise this one. */
    readonly round: number;
    readonly total_tokens: number;
    /** Diagnostic agent and moderator agree to end early. */
    readonly early_out_confirmed: boolean;
    /** The moderator's text, if no decision could be read from it. */
    readonly raw?: string;
  }
  /** Older rounds were summarized. */
  | { readonly type: "history_compressed"; readonly round: number; readonly summary: string }
  /** The run waits for a comment of the operator. */
  | { readonly type: "awaiting_user_input"; readonly round: number }
  /** The comment of the operator. */
  | {
    readonly type: "user_comment";
    /**
     * Trimmed, with a line for each change of a hypothesis; empty when the operator had nothing to say or did not answer
     * in time.
     */
    readonly content: string;
    readonly round: number;
  }
  /** The model of an agent has no setting for reasoning effort; at most once per agent. */
  | {
    readonly type: "reasoning_effort_ignored";
    readonly agent_node: AgentNode | "moderator_agent";
    readonly agent_role: AgentRole;
    readonly model: string;
    readonly requested_effort: ReasoningEffort;
  }
  /** The result of the debate. */
  | { readonly type: "final_result"; readonly node: "finalize"; readonly content: string }
  /** The operator stopped the run. Emitted by the run's owner. */
  | { readonly type: "run_cancelled" }
  /** The run failed; the message is for people. Emitted by the run's owner. */
  | { readonly type: "error"; readonly message: string }
  /** The last event of every run, after its record is stored. Emitted by the run's owner. */
  | {
    readonly type: "run_finished";
    readonly status: RunEnd;
    readonly token_totals: TokenTotals;
    readonly cost_estimate: CostEstimate | null;
  };

export type RunEventType = RunEvent["type"];

export const EPHEMERAL: ReadonlySet<RunEventType> = new Set(["agent_turn_started", "agent_delta"]);

export type AgentTurnStartedEvent = Extract<RunEvent, { type: "agent_turn_started" }>;
export type HypothesisUpdateEvent = Extract<RunEvent, { type: "hypothesis_update" }>;
export type ToolApprovalRequestEvent = Extract<RunEvent, { type: "tool_approval_request" }>;
export type ToolCallStartedEvent = Extract<RunEvent, { type: "tool_call_started" }>;
export type ToolCallEvent = Extract<RunEvent, { type: "tool_call" }>;
