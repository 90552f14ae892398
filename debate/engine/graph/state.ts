import { cut } from "./text.ts";

/** The nodes of the graph, in the order of a round; `sample_agent` gives the independent diagnoses before a debate. */
export const NODES = [
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

export type AgentRole = (typeof ROLES)[keyof typeof ROLES];

type HypothesisState = "active" | "rejected" | "confirmed";

interface Transition {
  readonly round: number;
  /** `null` for the creation. */
  readonly from: HypothesisState | null;
  readonly to: HypothesisState;
  readonly agent: NodeName;
  readonly note: string;
}

/** Whether a line of evidence counts, or why it does not. */
export const EVIDENCE_STATUSES = [
  "grounded",
  "uncited",
  "unquoted",
  "no_such_call",
  /** A cited call failed, was refused or found nothing to run. */
  "failed_call",
  "not_in_result",
  /** The quotes are too short, or repeat what the tool was asked. */
  "too_little",
  "unchecked",
] as const;

export type EvidenceStatus = (typeof EVIDENCE_STATUSES)[number];

export interface Evidence {
  readonly text: string;
  readonly round: number;
  readonly status: EvidenceStatus;
  readonly call_ids: readonly string[];
}

export interface Grounding {
  readonly level: "none" | "partial" | "full";
  readonly grounded: number;
  readonly cited: number;
  readonly results: number;
  /** The results that the skeptic holds against it and that its lines do not cite. */
  readonly contrary: number;
  readonly failed: number;
}

export type Verdict = "accepted" | "rejected" | "needs_evidence";

export interface Review {
  readonly round: number;
  readonly agent: NodeName;
  readonly verdict: Verdict;
  readonly probability: number | null;
  readonly reason: string;
  readonly evidence: readonly Evidence[];
  /** It brings evidence that counts, from a result that the hypothesis does not cite. */
  readonly new_evidence: boolean;
}

export interface Hypothesis {
  readonly id: string;
  readonly text: string;
  readonly state: HypothesisState;
  readonly proposer: NodeName;
  /** The round in which it was created; 0 if it comes from the run that this one resumes. */
  readonly round: number;
  readonly supporting_evidence: readonly string[];
  /** The same lines after their check, as far as they were checked. */
  readonly evidence: readonly Evidence[];
  readonly reviews: readonly Review[];
  readonly rejected_reason: string | null;
  /** 0 to 1, `null` when nobody stated one. */
  readonly probability: number | null;
  readonly transitions: readonly Transition[];
}

export const STATUSES = [
  "continue",
  "final_diagnosis",
  "needs_more_data",
  "propose_fix",
  "structured_uncertainty",
] as const;

export type DecisionStatus = (typeof STATUSES)[number];

export type RiskLevel = "low" | "medium" | "high";

export interface FlowDirective {
  readonly skip_skeptic: boolean;
  readonly skip_rebuttal: boolean;
  readonly rationale: string;
}

export interface Decision {
  readonly status: DecisionStatus;
  readonly confidence: number;
  readonly leading_hypothesis: string;
  readonly evidence: readonly string[];
  readonly missing_evidence: readonly string[];
  readonly rejected_hypotheses: readonly string[];
  readonly next_step: string;
  readonly recommended_fix: string | null;
  readonly validation: readonly string[];
  /** Why the debate ends here: the moderator's words, or what ended it. */
  readonly stop_reason: string | null;
  readonly risk_level: RiskLevel;
  readonly flow_directive: FlowDirective | null;
  /** Written by the engine, never by a model. */
  readonly grounding?: DecisionGrounding;
}

/** What the engine makes of a moderator's confidence. */
export interface DecisionGrounding {
  /** The leading hypothesis; `null` when the decision names none of the debate. */
  readonly hypothesis_id: string | null;
  readonly level: Grounding["level"];
  /** What the moderator stated; the decision's confidence is at most `cap`. */
  readonly stated_confidence: number;
  readonly cap: number | null;
  readonly reason: string;
  readonly outcome: "cause" | "no_confident_cause" | null;
}

export type HistoryRole = "diagnostic_agent" | "skeptic_agent" | "diagnostic_rebuttal" | "moderator" | "user";

export interface PriorEntry {
  readonly role: HistoryRole;
  /** A moderator's is the decision as JSON, indented by two. */
  readonly content: string;
}

export interface HistoryEntry extends PriorEntry {
  /** 0 for the run that this one resumes. */
  readonly round: number;
}

export interface RoundLogEntry extends RoundTexts {
  readonly round: number;
  readonly moderator: Decision;
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

export interface CalledTool {
  readonly number: number;
  readonly call_id: string;
  readonly tool_name: string;
  /** It ran, now or earlier in this round, and did what was asked. */
  readonly succeeded: boolean;
  /** What it found, without what it was asked; comparable. */
  readonly found: string;
  readonly asked: string;
}

export interface EarlyOutSignal {
  readonly recommended: boolean;
  /** As the agent wrote it; may lie outside of 0 to 1. */
  readonly confidence: number;
  readonly rationale: string;
}

export interface EarlyOutRule {
  readonly enabled: boolean;
  /** The confidence that both the diagnostic agent and the moderator need, 0 to 1. */
  readonly threshold: number;
}

interface RoundTexts {
  readonly diagnostic: string;
  readonly skeptic: string;
  readonly rebuttal: string;
}

export interface DebateTask {
  readonly topic: string;
  readonly context: string;
  readonly maxRounds: number;
  readonly confidenceThreshold: number;
  readonly earlyOut: EarlyOutRule;
  readonly compressHistory: boolean;
  readonly language: string;
}

export interface DebateState {
  readonly task: DebateTask;
  /** The node that has just finished; `undefined` at the start. */
  readonly done: Exclude<NodeName, "sample_agent"> | undefined;
  /** From 1; beyond `maxRounds` once the last round ended with `continue`. */
  readonly round: number;
  readonly texts: RoundTexts;
  readonly earlyOutSignal: EarlyOutSignal;
  readonly earlyOutConfirmed: boolean;
  /** Why the first round is not debated: the independent diagnoses before it agree. Empty otherwise. */
  readonly agreement: string;
  /** The last decision of this run; never that of the run that it resumes. */
  readonly decision: Decision | undefined;
  readonly hypotheses: readonly Hypothesis[];
  readonly calls: readonly CalledTool[];
  readonly history: readonly HistoryEntry[];
  readonly historySummary: string;
  /** The last round that the summary covers; -1 when there is none. */
  readonly summarizedThrough: number;
  readonly roundLog: readonly RoundLogEntry[];
}

const MAX_LOGGED_TEXT = 500;

export const TEXT_KEYS = {
  diagnostic_agent: "diagnostic",
  skeptic_agent: "skeptic",
  diagnostic_rebuttal_agent: "rebuttal",
} as const satisfies Record<AgentNode, keyof RoundTexts>;

export const NO_TEXTS: RoundTexts = { diagnostic: "", skeptic: "", rebuttal: "" };

export function logged(text: string): string {
  return cut(text, MAX_LOGGED_TEXT);
}

export function loggedTexts({ diagnostic, skeptic, rebuttal }: RoundTexts): RoundTexts {
  return { diagnostic: logged(diagnostic), skeptic: logged(skeptic), rebuttal: logged(rebuttal) };
}
