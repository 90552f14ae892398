import type { SampleComparison } from "./graph/samples.ts";
import type { AgentNode, AgentRole, CallApproval, Decision, Hypothesis, NodeName } from "./graph/state.ts";

export type ReasoningEffort = "low" | "medium" | "high";

export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly total_tokens: number;
  /** At least a part is estimated from the number of characters, because the provider reported no usage. */
  readonly estimated?: true;
}

export type ToolArgs = Readonly<Record<string, unknown>>;

export type RunEnd = "completed" | "cancelled" | "error";

/** Tokens of a run. Nodes without tokens are absent. */
export interface TokenTotals {
  readonly by_node: Readonly<Partial<Record<NodeName, Usage>>>;
  readonly total: Usage;
}

/** The cost of one node. */
export interface NodeCost extends Usage {
  readonly model: string;
  /** `null` if the price of the model is unknown. */
  readonly estimated_usd: number | null;
}

/** The estimated cost of a run in US dollars, rounded to 6 decimals. */
export interface CostEstimate {
  readonly by_node: Readonly<Partial<Record<NodeName, NodeCost>>>;
  /** `null` if no price is known. */
  readonly total_usd: number | null;
  readonly has_prices: boolean;
}

export const MAX_CHART_SERIES = 8;
export const MAX_CHART_POINTS = 120;
export const MAX_CHART_LABEL = 300;
/** The latest time of a JavaScript date. */
export const MAX_CHART_MS = 8.64e15;

/** Series of a chart, at most 8, with at most 120 points each. All numbers are finite. */
export interface Chart {
  readonly series: readonly ChartSeries[];
}

interface ChartSeries {
  readonly label: string;
  /** Times are in milliseconds since the epoch. */
  readonly points: readonly (readonly [ms: number, value: number])[];
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
  /** The first event of a resumed run, emitted before the debate starts. */
  | { readonly type: "run_resumed"; readonly parent_run_id: string; readonly parent_topic: string }
  /** The debate starts. */
  | {
    readonly type: "run_started";
    readonly round: 1;
    readonly topic: string;
    readonly max_rounds: number;
    readonly confidence_threshold: number;
    readonly template: string;
    readonly language: string;
    /** Number of independent diagnoses before the debate; absent if there are none. */
    readonly samples?: number;
  }
  /** A model call of an agent starts. A turn with tools has several model calls. Ephemeral. */
  | AgentFields & { readonly type: "agent_turn_started" }
  /** A non-empty piece of an agent's text. Ephemeral. */
  | AgentFields & { readonly type: "agent_delta"; readonly delta: string }
  /** The text that an agent wrote together with its tool calls. */
  | AgentFields & { readonly type: "agent_reasoning"; readonly content: string }
  /** The final text of an agent. */
  | {
    readonly type: "agent_completed";
    readonly node: AgentNode;
    readonly role: AgentRole;
    readonly content: string;
    /** The run ended during the agent's turn, and this is the text so far. */
    readonly partial?: true;
    /** The number of an independent diagnosis, from 1. Its hypothesis IDs are valid only in this text. */
    readonly sample?: number;
    /** Tokens of the run so far; absent if the run ended in this turn. */
    readonly total_tokens?: number;
  }
  /** The independent diagnoses were compared. The debate covers their differences. */
  | SampleComparison & {
    readonly type: "samples_compared";
    readonly node: "diagnostic_agent";
    readonly round: 1;
  }
  /** A fact that weakens the result of the run, in the language of the debate. */
  | { readonly type: "run_warning"; readonly code: "one_model"; readonly message: string }
  /** An agent was skipped, because of the moderator's previous directive or because the diagnoses agree. */
  | AgentFields & {
    readonly type: "agent_skipped";
    readonly node: AgentNode;
    readonly role: AgentRole;
    readonly rationale: string;
  }
  /** All hypotheses after a change. At the start of a resumed run: the inherited hypotheses. */
  | {
    readonly type: "hypothesis_update";
    readonly node: AgentNode | "moderator_agent" | "user_input_gate";
    /** 0 for hypotheses that a resumed run inherits. */
    readonly round: number;
    readonly hypotheses: readonly Hypothesis[];
  }
  /** A tool call waits for the operator's approval. */
  | CallFields & {
    readonly type: "tool_approval_request";
    /** The reason of the tool, if it requires the approval itself. It names host and port of a URL. */
    readonly need?: string;
    /** The beginning of the agent's text before the call; absent if there is none. */
    readonly reason?: string;
  }
  /** The operator decided on a tool call, or the time limit passed. */
  | {
    readonly type: "tool_approval_resolved";
    readonly call_id: string;
    readonly approved: boolean;
    readonly resolution: "approved" | "rejected" | "timeout";
    /** Approved without a request, because the operator approved the same call for the whole run before. */
    readonly remembered?: true;
    /** The same call is approved for the rest of the run, unless the operator revokes the approval. */
    readonly for_run?: true;
    /** The arguments that the operator approved instead of the requested ones. */
    readonly args?: ToolArgs;
  }
  /** The operator revoked the approval of a call for the whole run. */
  | {
    readonly type: "tool_approval_revoked";
    /** The ID of the call that was approved for the whole run. */
    readonly call_id: string;
    readonly tool_name: string;
    readonly args: ToolArgs;
  }
  /** A tool starts. Not emitted for calls that are cached, unknown or not approved, because they run nothing. */
  | CallFields & {
    readonly type: "tool_call_started";
  }
  /** The result of a tool call. */
  | CallFields & {
    readonly type: "tool_call";
    /** Number of the call in the run, from 1. Evidence cites it as `[tool:<tool_name>#<number>]`. */
    readonly number: number;
    /** The arguments that the agent requested, if the operator approved others. */
    readonly proposed_args?: ToolArgs;
    readonly result: string;
    /** Up to 8 series with up to 120 points of a time in milliseconds and a value; absent for a cached result. */
    readonly chart?: Chart;
    readonly error: boolean;
    readonly approval: CallApproval;
    readonly cached: boolean;
    /** 0 for a cached result, `null` if nothing ran. */
    readonly duration_ms: number | null;
  }
  /** The moderator's decision on a round. */
  | {
    readonly type: "moderator_decision";
    readonly node: "moderator_agent";
    readonly decision: Decision;
    /** The next round, or this round if the debate ends. */
    readonly round: number;
    readonly total_tokens: number;
    /** The diagnostic agent and the moderator agree on an early end. */
    readonly early_out_confirmed: boolean;
    /** The moderator's text, if it contains no valid decision. */
    readonly raw?: string;
  }
  /** Older rounds were summarized. */
  | { readonly type: "history_compressed"; readonly round: number; readonly summary: string }
  /** The run waits for the operator's comment. */
  | { readonly type: "awaiting_user_input"; readonly round: number }
  /** The operator's comment. */
  | {
    readonly type: "user_comment";
    /** The comment, with a line per change of a hypothesis; empty if the operator sent none in time. */
    readonly content: string;
    readonly round: number;
  }
  /** The provider limits the rate of requests, so the call of a model is repeated after a pause. */
  | {
    readonly type: "model_waiting";
    readonly node: NodeName;
    readonly model: string;
    readonly seconds: number;
  }
  /** The model of an agent does not support a reasoning effort. Emitted at most once per agent. */
  | {
    readonly type: "reasoning_effort_ignored";
    readonly agent_node: AgentNode | "moderator_agent";
    readonly agent_role: AgentRole;
    readonly model: string;
    readonly requested_effort: ReasoningEffort;
  }
  /** The result of the debate. */
  | { readonly type: "final_result"; readonly node: "finalize"; readonly content: string }
  /** The operator stopped the run. */
  | { readonly type: "run_cancelled" }
  /** The run failed. The message is for people. */
  | { readonly type: "error"; readonly message: string }
  /** The last event of every run, emitted after its record is stored. */
  | {
    readonly type: "run_finished";
    readonly status: RunEnd;
    readonly token_totals: TokenTotals;
    readonly cost_estimate: CostEstimate | null;
  };

export type RunEventType = RunEvent["type"];

export const UNRECORDED_EVENTS: ReadonlySet<RunEventType> = new Set(["agent_turn_started", "agent_delta"]);

export type HypothesisUpdateEvent = Extract<RunEvent, { type: "hypothesis_update" }>;
export type ToolApprovalRequestEvent = Extract<RunEvent, { type: "tool_approval_request" }>;
export type ToolCallEvent = Extract<RunEvent, { type: "tool_call" }>;
