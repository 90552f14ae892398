import * as table from "./hypotheses.ts";
import {
  type AgentNode,
  type CalledTool,
  type DebateState,
  type DebateTask,
  type Decision,
  type HistoryEntry,
  type HistoryRole,
  type Hypothesis,
  loggedTexts,
  NO_TEXTS,
  type PriorEntry,
  TEXT_KEYS,
} from "./state.ts";
import * as decisions from "./decision.ts";
import { groundingOf } from "./evidence.ts";
import { extractHypotheses, fallbackHypothesis } from "./review_marks.ts";
import { type Labels, labelsFor } from "./labels.ts";

type SkippableNode = Exclude<AgentNode, "diagnostic_agent">;

export type Step =
  | { readonly kind: "agent"; readonly node: AgentNode }
  | { readonly kind: "skip"; readonly node: SkippableNode; readonly rationale: string }
  | { readonly kind: "moderate" }
  | { readonly kind: "summarize" }
  | { readonly kind: "ask" }
  | { readonly kind: "finalize" }
  | { readonly kind: "end" };

/** The most steps that a debate can take; more would mean that the routing is wrong. */
export function stepLimit(maxRounds: number): number {
  return maxRounds * 8 + 10;
}

/**
 * The step after the node that is done.
 *
 * @param isPaused whether the operator wants to comment before the next round
 */
export function nextStep(state: DebateState, isPaused: boolean): Step {
  switch (state.done) {
    case undefined:
    case "user_input_gate":
      return { kind: "agent", node: "diagnostic_agent" };
    case "diagnostic_agent":
      return agentOrSkip(state, "skeptic_agent");
    case "skeptic_agent":
      return agentOrSkip(state, "diagnostic_rebuttal_agent");
    case "diagnostic_rebuttal_agent":
      return { kind: "moderate" };
    case "moderator_agent":
      return { kind: isOver(state) ? "finalize" : "summarize" };
    case "summarize_history":
      return isPaused ? { kind: "ask" } : { kind: "agent", node: "diagnostic_agent" };
    case "finalize":
      return { kind: "end" };
  }
}

/** A directive is for one round, so only that of the preceding decision in this run counts. */
function agentOrSkip(state: DebateState, node: SkippableNode): Step {
  if (isAgreed(state)) return { kind: "skip", node, rationale: state.agreement };
  const directive = state.decision?.flow_directive;
  const isSkipped = node === "skeptic_agent" ? directive?.skip_skeptic : directive?.skip_rebuttal;
  return isSkipped ? { kind: "skip", node, rationale: directive?.rationale ?? "" } : { kind: "agent", node };
}

/** The diagnoses before the first round agree, so there is nothing to debate in it. */
function isAgreed({ agreement, round }: DebateState): boolean {
  return agreement !== "" && round === 1;
}

function isOver({ decision, earlyOutConfirmed, round, task }: DebateState): boolean {
  return decision === undefined || decision.status !== "continue" || earlyOutConfirmed ||
    round > task.maxRounds;
}

export const HISTORY_ROLES = {
  diagnostic_agent: "diagnostic_agent",
  skeptic_agent: "skeptic_agent",
  diagnostic_rebuttal_agent: "diagnostic_rebuttal",
} as const satisfies Record<AgentNode, HistoryRole>;

/** A debate that has not begun. What a resumed run inherits belongs to round 0. */
export function startState(
  task: DebateTask,
  prior: { readonly history: readonly PriorEntry[]; readonly hypotheses: readonly Hypothesis[] } | undefined,
): DebateState {
  return {
    task,
    done: undefined,
    round: 1,
    texts: NO_TEXTS,
    earlyOutSignal: decisions.NO_EARLY_OUT,
    earlyOutConfirmed: false,
    agreement: "",
    decision: undefined,
    hypotheses: (prior?.hypotheses ?? []).map(toRoundZero),
    calls: [],
    history: (prior?.history ?? []).map(({ role, content }) => ({ role, content, round: 0 })),
    historySummary: "",
    summarizedThrough: -1,
    roundLog: [],
  };
}

function toRoundZero(hypothesis: Hypothesis): Hypothesis {
  const before = <T>(entries: readonly T[]) => entries.map((entry) => ({ ...entry, round: 0 }));
  const { evidence, reviews, state } = hypothesis;
  // A run of before evidence was checked confirmed by word alone, or by one result.
  const isUnproven = state === "confirmed" && groundingOf(hypothesis).level !== "full";
  return {
    ...hypothesis,
    state: isUnproven ? "active" : state,
    round: 0,
    evidence: before(evidence),
    reviews: before(reviews),
  };
}

/** What an agent's turn gave. */
export interface TurnText {
  readonly text: string;
  /** The agent said nothing and the text only states that, so nothing is read from it. */
  readonly isPlaceholder: boolean;
  readonly calls: readonly CalledTool[];
}

export function afterAgent(before: DebateState, node: AgentNode, turn: TurnText): DebateState {
  const state = { ...before, calls: [...before.calls, ...turn.calls] };
  const spoken = say(state, node, turn.text);
  if (turn.isPlaceholder) {
    return node === "diagnostic_agent" ? { ...spoken, earlyOutSignal: decisions.NO_EARLY_OUT } : spoken;
  }
  const { hypotheses, round, calls } = state;
  const origin = { round, calls, labels: labelsFor(state.task.language) };
  switch (node) {
    case "diagnostic_agent":
      return {
        ...spoken,
        hypotheses: addDiagnosis(state, turn),
        earlyOutSignal: decisions.parseEarlyOut(turn.text),
      };
    case "skeptic_agent":
      return { ...spoken, hypotheses: table.applySkeptic(hypotheses, turn.text, origin) };
    case "diagnostic_rebuttal_agent":
      return { ...spoken, hypotheses: table.applyRebuttal(hypotheses, turn.text, origin) };
  }
}

function addDiagnosis(
  { hypotheses, round, calls }: DebateState,
  turn: TurnText,
): readonly Hypothesis[] {
  const { text } = turn;
  const found = extractHypotheses(text);
  const newCalls = new Set(turn.calls.map(({ call_id }) => call_id));
  const origin = { round, agent: "diagnostic_agent", calls, newCalls } as const;
  if (found.length > 0 || hypotheses.length > 0) return table.mergeHypotheses(hypotheses, found, origin);
  const fallback = fallbackHypothesis(text, round);
  return fallback === undefined ? hypotheses : table.mergeHypotheses(hypotheses, [fallback], origin);
}

export function afterSkip(
  state: DebateState,
  node: SkippableNode,
  rationale: string,
): DebateState {
  return say(state, node, skippedText(node, rationale, state.task.language, isAgreed(state)));
}

/** What stands in the place of an agent that was skipped. */
export function skippedText(
  node: SkippableNode,
  rationale: string,
  language: string,
  isAgreed: boolean,
): string {
  if (isAgreed) return `(${rationale})`;
  const labels = labelsFor(language);
  const what = node === "skeptic_agent" ? labels.skepticSkipped : labels.rebuttalSkipped;
  return rationale === "" ? `${what})` : `${what}: ${rationale})`;
}

function say(state: DebateState, node: AgentNode, text: string): DebateState {
  return {
    ...state,
    done: node,
    texts: { ...state.texts, [TEXT_KEYS[node]]: text },
    history: [...state.history, { role: HISTORY_ROLES[node], content: text, round: state.round }],
  };
}

/**
 * After the moderator has decided. Its confidence is limited by the evidence. `continue` advances the round counter; if
 * the debate ends although the moderator would continue, the decision states the reason.
 */
export function afterModerator(state: DebateState, said: Decision): DebateState {
  const { task, round, earlyOutSignal } = state;
  const decided = decisions.limitConfidence(said, state.hypotheses, task.language);
  const hypotheses = table.applyDecision(state.hypotheses, decided, {
    round,
    labels: labelsFor(task.language),
    confidenceThreshold: task.confidenceThreshold,
  });
  const continues = decided.status === "continue";
  const earlyOutConfirmed = continues &&
    decisions.isEarlyOutConfirmed(task.earlyOut, earlyOutSignal, decided, hypotheses);
  const labels = labelsFor(task.language);
  const reasoned = continues
    ? withStopReason(decided, reasonToStop(state, earlyOutConfirmed, labels))
    : decided;
  const goesOn = continues && !earlyOutConfirmed && round < task.maxRounds;
  const { confidenceThreshold } = task;
  const decision = goesOn
    ? reasoned
    : decisions.withOutcome(reasoned, { confidenceThreshold, earlyOutConfirmed });
  const logged = { round, ...loggedTexts(state.texts), moderator: decision };
  const entry: HistoryEntry = { role: "moderator", content: JSON.stringify(decision, null, 2), round };
  return {
    ...state,
    done: "moderator_agent",
    round: continues && !earlyOutConfirmed ? round + 1 : round,
    hypotheses,
    earlyOutConfirmed,
    decision,
    history: [...state.history, entry],
    roundLog: [...state.roundLog, logged],
  };
}

function reasonToStop(
  { task, round, earlyOutSignal }: DebateState,
  earlyOutConfirmed: boolean,
  labels: Labels,
): string | undefined {
  if (earlyOutConfirmed) {
    return [labels.earlyOutConfirmed, earlyOutSignal.rationale].filter(Boolean).join(": ");
  }
  return round >= task.maxRounds ? `${labels.roundsUsedUp} (${task.maxRounds})` : undefined;
}

function withStopReason<T extends Decision>(decision: T, reason: string | undefined): T {
  if (reason === undefined) return decision;
  const { stop_reason: said } = decision;
  return { ...decision, stop_reason: said === null ? reason : `${reason}; ${said}` };
}

/** After the round, whether it was summarised or not. The next round begins. */
export function afterSummary(state: DebateState): DebateState {
  return { ...state, done: "summarize_history", texts: NO_TEXTS, earlyOutSignal: decisions.NO_EARLY_OUT };
}

/** After the operator was asked for a comment; `content` is what the agents are told. */
export function afterComment(
  state: DebateState,
  { comment, changes }: table.OperatorWord,
): { readonly state: DebateState; readonly content: string } {
  const { round, task, history } = state;
  const { hypotheses, said } = table.applyOperator(state.hypotheses, changes, {
    round,
    labels: labelsFor(task.language),
  });
  const content = [comment, ...said].filter((each) => each !== "").join("\n");
  const entry: HistoryEntry = { role: "user", content, round };
  const told = content === "" ? history : [...history, entry];
  return { state: { ...state, done: "user_input_gate", hypotheses, history: told }, content };
}

export function afterFinal(state: DebateState): DebateState {
  return { ...state, done: "finalize" };
}

const FIRST_COMPRESSED_ROUND = 3;

/**
 * The history for the agents of this round: the summary, the last round and everything that the summary does not
 * cover. What agents have said in this round is not included, since they get it separately.
 */
export function viewHistory(state: DebateState) {
  const entries = state.history.filter((entry) => {
    if (entry.round === state.round && entry.role !== "user") return false;
    return entry.round > state.summarizedThrough || entry.round >= state.round - 1;
  });
  return { summary: state.historySummary, entries };
}

/**
 * What the next summary covers in addition to the previous one; empty if none is due. The state is that after
 * the round.
 */
export function entriesToSummarize(state: DebateState): readonly HistoryEntry[] {
  if (!state.task.compressHistory || state.round < FIRST_COMPRESSED_ROUND) return [];
  return state.history.filter(({ round }) => round > state.summarizedThrough && round < state.round);
}

export function withSummary(state: DebateState, summary: string): DebateState {
  return { ...state, historySummary: summary, summarizedThrough: state.round - 1 };
}
