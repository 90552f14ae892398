import { cutText } from "@gateway/shared/text";
import * as z from "@zod/zod";

/** The nodes of the graph in the order of a round. `sample_agent` writes independent diagnoses before the debate. */
const NODES = [
  "sample_agent",
  "diagnostic_agent",
  "skeptic_agent",
  "diagnostic_rebuttal_agent",
  "moderator_agent",
  "summarize_history",
  "user_input_gate",
  "finalize",
] as const;

export type NodeName = (typeof NODES)[number];

export type AgentNode = "diagnostic_agent" | "skeptic_agent" | "diagnostic_rebuttal_agent";

export const ROLES = {
  diagnostic_agent: "Primary Diagnosis",
  skeptic_agent: "Skeptical Reviewer",
  diagnostic_rebuttal_agent: "Rebuttal",
  moderator_agent: "Moderator",
} as const satisfies Record<AgentNode | "moderator_agent", string>;

/** The nodes that call a model. Samples have a higher temperature, because identical diagnoses would prove nothing. */
export const MODEL_NODES = {
  sample_agent: { role: "sample", temperature: 0.7 },
  diagnostic_agent: { role: "diagnostic", temperature: 0.2 },
  skeptic_agent: { role: "skeptic", temperature: 0.1 },
  diagnostic_rebuttal_agent: { role: "diagnostic", temperature: 0.2 },
  moderator_agent: { role: "moderator", temperature: 0 },
  summarize_history: { role: "summary", temperature: 0.3 },
} as const;

export type CallingNode = keyof typeof MODEL_NODES;

export type AgentRole = (typeof ROLES)[keyof typeof ROLES];

/** The reasons why a line of evidence counts or not. */
const EVIDENCE_STATUSES = [
  "grounded",
  "uncited",
  "unquoted",
  "no_such_call",
  /** A cited call failed, was rejected or ran nothing. */
  "failed_call",
  "not_in_result",
  /** The quotes are too short, or repeat the arguments of the call. */
  "too_little",
  "unchecked",
] as const;

export type EvidenceStatus = (typeof EVIDENCE_STATUSES)[number];

export interface Grounding {
  readonly level: "none" | "partial" | "full";
  readonly grounded: number;
  readonly cited: number;
  readonly results: number;
  /** The number of contrary results that the skeptic cites and the hypothesis does not. */
  readonly contrary: number;
  readonly failed: number;
}

const evidenceSchema = z.array(z.object({
  text: z.string(),
  round: z.number(),
  status: z.enum(EVIDENCE_STATUSES),
  call_ids: z.array(z.string()),
}));

const reviewSchema = z.object({
  round: z.number(),
  agent: z.enum(NODES),
  verdict: z.enum(["accepted", "rejected", "needs_evidence"]),
  probability: z.number().nullable(),
  reason: z.string(),
  evidence: evidenceSchema,
  /** Whether the review adds counting evidence from a result that the hypothesis does not cite. */
  new_evidence: z.boolean(),
});

const stateSchema = z.enum(["active", "rejected", "confirmed"]);

/** A hypothesis. Records of older versions lack `evidence` and `reviews`. */
export const hypothesisSchema = z.object({
  id: z.string(),
  text: z.string(),
  state: stateSchema,
  proposer: z.enum(NODES).catch("diagnostic_agent"),
  /** The round in which the hypothesis was created; 0 if a resumed run inherits it. */
  round: z.number().catch(0),
  supporting_evidence: z.array(z.string()).catch([]),
  /** The lines that were checked, with their status. */
  evidence: evidenceSchema.catch([]),
  reviews: z.array(reviewSchema).catch([]),
  rejected_reason: z.string().nullable().catch(null),
  /** 0 to 1; `null` if no agent has stated one. */
  probability: z.number().nullable().catch(null),
  transitions: z.array(z.object({
    round: z.number(),
    /** `null` for the creation. */
    from: stateSchema.nullable(),
    to: stateSchema,
    agent: z.enum(NODES),
    note: z.string(),
  })).catch([]),
});

type Frozen<T> = T extends object ? { readonly [Key in keyof T]: Frozen<T[Key]> } : T;

export type Evidence = Frozen<z.infer<typeof evidenceSchema>>[number];
export type Review = Frozen<z.infer<typeof reviewSchema>>;
export type Verdict = Review["verdict"];
export type Hypothesis = Frozen<z.infer<typeof hypothesisSchema>>;

export const STATUSES = [
  "continue",
  "final_diagnosis",
  "needs_more_data",
  "propose_fix",
  "structured_uncertainty",
] as const;

export interface Decision {
  readonly status: (typeof STATUSES)[number];
  readonly confidence: number;
  readonly leading_hypothesis: string;
  readonly evidence: readonly string[];
  readonly missing_evidence: readonly string[];
  readonly rejected_hypotheses: readonly string[];
  readonly next_step: string;
  readonly recommended_fix: string | null;
  readonly validation: readonly string[];
  /** The reason for the end of the debate, from the moderator or the engine. */
  readonly stop_reason: string | null;
  readonly risk_level: "low" | "medium" | "high";
  readonly flow_directive:
    | Readonly<
      Record<"skip_skeptic" | "skip_rebuttal", boolean> & { rationale: string }
    >
    | null;
  /** Written by the engine, never by a model. */
  readonly grounding?: DecisionGrounding;
}

/** The engine's assessment of the moderator's confidence. */
export interface DecisionGrounding {
  /** The leading hypothesis; `null` if the decision names no known hypothesis. */
  readonly hypothesis_id: string | null;
  readonly level: Grounding["level"];
  /** The moderator's number. The confidence of the decision is at most `cap`. */
  readonly stated_confidence: number;
  readonly cap: number | null;
  readonly reason: string;
  readonly outcome: "cause" | "no_confident_cause" | null;
}

export interface HistoryEntry {
  readonly role: "diagnostic_agent" | "skeptic_agent" | "diagnostic_rebuttal" | "moderator" | "user";
  /** For `moderator`: the decision as JSON, indented by two. */
  readonly content: string;
  /** 0 for inherited entries. */
  readonly round: number;
}

export type CallApproval = "auto" | "approved" | "rejected" | "timeout" | "cached";

export interface ToolLogEntry {
  readonly call_id: string;
  readonly agent: AgentNode;
  readonly tool_name: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly result: string;
  readonly error: boolean;
  readonly approval: CallApproval;
}

export interface CalledTool extends Pick<ToolLogEntry, "call_id" | "tool_name"> {
  readonly number: number;
  /** Whether the call succeeded. For a cached result, whether the original call succeeded. */
  readonly succeeded: boolean;
  /** The normalized result, without the line that names the request. */
  readonly found: string;
  readonly asked: string;
}

export interface EarlyOutSignal {
  readonly recommended: boolean;
  /** The agent's number, which may be outside 0 to 1. */
  readonly confidence: number;
  readonly rationale: string;
}

type RoundTexts = Readonly<Record<"diagnostic" | "skeptic" | "rebuttal", string>>;

export interface DebateTask {
  readonly topic: string;
  readonly context: string;
  readonly maxRounds: number;
  readonly confidenceThreshold: number;
  /** `threshold`: the confidence that the diagnostic agent and the moderator need, 0 to 1. */
  readonly earlyOut: { readonly enabled: boolean; readonly threshold: number };
  readonly compressHistory: boolean;
  readonly language: string;
}

export interface DebateState {
  readonly task: DebateTask;
  /** The last finished node; `undefined` at the start. */
  readonly done: Exclude<NodeName, "sample_agent"> | undefined;
  /** From 1. Greater than `maxRounds` after the last round ended with `continue`. */
  readonly round: number;
  readonly texts: RoundTexts;
  readonly earlyOutSignal: EarlyOutSignal;
  readonly earlyOutConfirmed: boolean;
  /** The agreement of the independent diagnoses, which replaces the debate of the first round; empty without one. */
  readonly agreement: string;
  /** The last decision of this run. Decisions of a resumed run do not count. */
  readonly decision: Decision | undefined;
  readonly hypotheses: readonly Hypothesis[];
  readonly calls: readonly CalledTool[];
  readonly history: readonly HistoryEntry[];
  readonly historySummary: string;
  /** The last round that the summary covers; -1 without a summary. */
  readonly summarizedThrough: number;
  readonly roundLog: readonly (RoundTexts & { readonly round: number; readonly moderator: Decision })[];
}

const MAX_LOGGED_TEXT = 500;

export const TEXT_KEYS = {
  diagnostic_agent: "diagnostic",
  skeptic_agent: "skeptic",
  diagnostic_rebuttal_agent: "rebuttal",
} as const satisfies Record<AgentNode, keyof RoundTexts>;

export const NO_TEXTS: RoundTexts = { diagnostic: "", skeptic: "", rebuttal: "" };

export function logged(text: string): string {
  return cutText(text, MAX_LOGGED_TEXT);
}

export function loggedTexts({ diagnostic, skeptic, rebuttal }: RoundTexts): RoundTexts {
  return { diagnostic: logged(diagnostic), skeptic: logged(skeptic), rebuttal: logged(rebuttal) };
}

/** The result of an agent's turn. */
export interface TurnText {
  readonly text: string;
  /** The agent wrote nothing, and the text only states this, so it contains no hypotheses or verdicts. */
  readonly isPlaceholder: boolean;
  readonly calls: readonly CalledTool[];
}
