import { cutText } from "@gateway/shared/text";
import * as z from "@zod/zod";

/** The nodes of the graph, in the order of a round; `sample_agent` gives the independent diagnoses before a debate. */
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

/** The nodes that call a model. Samples are hotter: diagnoses that are the same by construction compare nothing. */
export const CASTING = {
  sample_agent: { role: "sample", temperature: 0.7 },
  diagnostic_agent: { role: "diagnostic", temperature: 0.2 },
  skeptic_agent: { role: "skeptic", temperature: 0.1 },
  diagnostic_rebuttal_agent: { role: "diagnostic", temperature: 0.2 },
  moderator_agent: { role: "moderator", temperature: 0 },
  summarize_history: { role: "summary", temperature: 0.3 },
} as const;

export type CallingNode = keyof typeof CASTING;

export type AgentRole = (typeof ROLES)[keyof typeof ROLES];

/** Whether a line of evidence counts, or why it does not. */
const EVIDENCE_STATUSES = [
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

export interface Grounding {
  readonly level: "none" | "partial" | "full";
  readonly grounded: number;
  readonly cited: number;
  readonly results: number;
  /** The results that the skeptic holds against it and that its lines do not cite. */
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
  /** It brings evidence that counts, from a result that the hypothesis does not cite. */
  new_evidence: z.boolean(),
});

const stateSchema = z.enum(["active", "rejected", "confirmed"]);

/** A hypothesis. Records of older versions lack `evidence` and `reviews`. */
export const hypothesisSchema = z.object({
  id: z.string(),
  text: z.string(),
  state: stateSchema,
  proposer: z.enum(NODES).catch("diagnostic_agent"),
  /** The round in which it was created; 0 if it comes from the run that this one resumes. */
  round: z.number().catch(0),
  supporting_evidence: z.array(z.string()).catch([]),
  /** The same lines after their check, as far as they were checked. */
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
  /** Why the debate ends here: the moderator's words, or what ended it. */
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

/** The assessment of a moderator's confidence by the engine. */
export interface DecisionGrounding {
  /** The leading hypothesis; `null` when the decision names none of the debate. */
  readonly hypothesis_id: string | null;
  readonly level: Grounding["level"];
  /** The moderator's own number; the decision's confidence is at most `cap`. */
  readonly stated_confidence: number;
  readonly cap: number | null;
  readonly reason: string;
  readonly outcome: "cause" | "no_confident_cause" | null;
}

export interface HistoryEntry {
  readonly role: "diagnostic_agent" | "skeptic_agent" | "diagnostic_rebuttal" | "moderator" | "user";
  /** The content of the moderator is the decision as JSON, indented by two. */
  readonly content: string;
  /** 0 for the run that this one resumes. */
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

type RoundTexts = Readonly<Record<"diagnostic" | "skeptic" | "rebuttal", string>>;

export interface DebateTask {
  readonly topic: string;
  readonly context: string;
  readonly maxRounds: number;
  readonly confidenceThreshold: number;
  /** The threshold is the confidence that the diagnostic agent and the moderator need, 0 to 1. */
  readonly earlyOut: { readonly enabled: boolean; readonly threshold: number };
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
  /** The agent wrote nothing and the text only states that, so nothing is read from it. */
  readonly isPlaceholder: boolean;
  readonly calls: readonly CalledTool[];
}
