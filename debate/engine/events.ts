import type { SampleComparison } from "./graph/samples.ts";
import type { AgentNode, AgentRole, Decision, Hypothesis, NodeName, ToolLogEntry } from "./graph/state.ts";
import type { ReasoningEffort, Usage } from "./model.ts";

export type ToolArgs = ToolLogEntry["args"];

export type RunEnd = "completed" | "cancelled" | "error";

/** Tokens of a run; a node without any is absent. */
export interface TokenTotals {
  readonly by_node: Readonly<Partial<Record<NodeName, Usage>>>;
  readonly total: Usage;
}

/** The cost of one node; `estimated_usd` is `null` when the price of the model is unknown. */
export type NodeCost = Usage & { readonly model: string; readonly estimated_usd: number | null };

/** The cost of a run in US dollars, rounded to 6 decimals; `total_usd` is `null` when no model has a price. */
export interface CostEstimate {
  readonly by_node: Readonly<Partial<Record<NodeName, NodeCost>>>;
  readonly total_usd: number | null;
  readonly has_prices: boolean;
}

interface Agent {
  readonly agent_node: AgentNode;
  readonly agent_role: AgentRole;
}

interface Node {
  readonly node: AgentNode;
  readonly role: AgentRole;
}

/** The operator can approve other arguments than those that the agent requested. */
type Call = Pick<ToolLogEntry, "call_id" | "tool_name" | "args">;

/** The fields of each type of event. */
interface EventFields {
  /** First event of a resumed run; emitted by the code that starts it, before the debate. */
  run_resumed: { readonly parent_run_id: string; readonly parent_topic: string };
  /** The debate begins; `samples` is the number of independent diagnoses that come first, if there are any. */
  run_started: {
    readonly round: 1;
    readonly topic: string;
    readonly max_rounds: number;
    readonly confidence_threshold: number;
    readonly template: string;
    readonly language: string;
    readonly samples?: number;
  };
  /** A model call of an agent begins; a turn with tools has several. Ephemeral. */
  agent_turn_started: Agent;
  /** A piece of an agent's text, never empty. Ephemeral. */
  agent_delta: Agent & { readonly delta: string };
  /** The text that an agent wrote along with its tool calls; never blank. */
  agent_reasoning: Agent & { readonly content: string };
  /** The final text of an agent. */
  agent_completed: Node & {
    readonly content: string;
    /** The run ended while the agent was speaking; this is the text so far. */
    readonly partial?: true;
    /** It is one of the independent diagnoses before the debate, from 1; its ids of hypotheses are its own. */
    readonly sample?: number;
    /** Of the run so far; absent if it ended here. */
    readonly total_tokens?: number;
  };
  /** The independent diagnoses were compared; the debate is about where they differ. */
  samples_compared: SampleComparison & { readonly node: "diagnostic_agent"; readonly round: 1 };
  /** A weakness of the run's result, in the language of the debate. */
  run_warning: { readonly code: "one_model"; readonly message: string };
  /** An agent was skipped because of the moderator's previous directive, or because the diagnoses agree. */
  agent_skipped: Agent & Node & { readonly rationale: string };
  /** The whole table of hypotheses after a change; round 0 is the table that a resumed run inherits. */
  hypothesis_update: {
    readonly node: AgentNode | "moderator_agent" | "user_input_gate";
    readonly round: number;
    readonly hypotheses: readonly Hypothesis[];
  };
  /** A tool call waits for the operator. Emitted by the approver. */
  tool_approval_request: Agent & Call;
  /** The operator decided about a tool call, or the time ran out. */
  tool_approval_resolved: {
    readonly call_id: string;
    readonly approved: boolean;
    readonly resolution: "approved" | "rejected" | "timeout";
    /** Nobody was asked: the operator approved the same call for the whole run before. */
    readonly remembered?: true;
    /** The same call is allowed for the rest of the run, until that is taken back. */
    readonly for_run?: true;
    readonly args?: ToolArgs;
  };
  /** The operator asks again about a call that was allowed for the whole run. Emitted by the approver. */
  tool_approval_revoked: Call;
  /** A tool begins. Not emitted for calls that run nothing, because they are cached, unknown or not approved. */
  tool_call_started: Agent & Call;
  /** The result of a tool call. Evidence cites its `number`, from 1 in the order of the run. */
  tool_call: Agent & Omit<ToolLogEntry, "agent"> & {
    readonly number: number;
    /** The arguments that the agent requested, if the operator approved others. */
    readonly proposed_args?: ToolArgs;
    readonly cached: boolean;
    /** 0 for a cached result, `null` when nothing ran. */
    readonly duration_ms: number | null;
  };
  /** The decision of the moderator on a round; `round` is the next round if there is one. */
  moderator_decision: {
    readonly node: "moderator_agent";
    readonly decision: Decision;
    readonly round: number;
    readonly total_tokens: number;
    readonly early_out_confirmed: boolean;
    /** The moderator's text, if no decision could be read from it. */
    readonly raw?: string;
  };
  /** Older rounds were summarized. */
  history_compressed: { readonly round: number; readonly summary: string };
  /** The run waits for a comment of the operator. */
  awaiting_user_input: { readonly round: number };
  /** The comment of the operator with a line for each change of a hypothesis; empty without an answer in time. */
  user_comment: { readonly content: string; readonly round: number };
  /** The model of an agent has no setting for reasoning effort; at most once per agent. */
  reasoning_effort_ignored: {
    readonly agent_node: AgentNode | "moderator_agent";
    readonly agent_role: AgentRole;
    readonly model: string;
    readonly requested_effort: ReasoningEffort;
  };
  /** The result of the debate. */
  final_result: { readonly node: "finalize"; readonly content: string };
  /** The operator stopped the run. Emitted by the run's owner. */
  run_cancelled: unknown;
  /** The run failed; the message is for people. Emitted by the run's owner. */
  error: { readonly message: string };
  /** The last event of every run, after its record is stored. Emitted by the run's owner. */
  run_finished: {
    readonly status: RunEnd;
    readonly token_totals: TokenTotals;
    readonly cost_estimate: CostEstimate | null;
  };
}

export type RunEventType = keyof EventFields;

export type RunEvent = { [T in RunEventType]: EventFields[T] & { readonly type: T } }[RunEventType];

export const EPHEMERAL: ReadonlySet<RunEventType> = new Set(["agent_turn_started", "agent_delta"]);
