import * as table from "./hypotheses.ts";
import {
  type AgentNode,
  type DebateState,
  type DebateTask,
  type Decision,
  type HistoryEntry,
  type Hypothesis,
  loggedTexts,
  NO_TEXTS,
  TEXT_KEYS,
  type TurnText,
} from "./state.ts";
import * as decisions from "./decision.ts";
import { groundingOf } from "./evidence.ts";
import { extractHypotheses, fallbackHypotheses } from "./review_marks.ts";
import { labelsFor } from "./labels.ts";
import { hedgeSteps } from "./steps.ts";
import type { PriorRun } from "../ports.ts";

/** The maximum number of steps of a debate. More steps mean a defect in the routing. */
export function stepLimit(maxRounds: number): number {
  return maxRounds * 8 + 10;
}

/**
 * The next node; `undefined` at the end.
 *
 * @param isPaused whether the operator wants to comment before the next round
 */
export function nextNode(state: DebateState, isPaused: boolean): DebateState["done"] {
  switch (state.done) {
    case undefined:
    case "user_input_gate":
      return "diagnostic_agent";
    case "diagnostic_agent":
      return "skeptic_agent";
    case "skeptic_agent":
      return "diagnostic_rebuttal_agent";
    case "diagnostic_rebuttal_agent":
      return "moderator_agent";
    case "moderator_agent":
      return isOver(state) ? "finalize" : "summarize_history";
    case "summarize_history":
      return isPaused ? "user_input_gate" : "diagnostic_agent";
    case "finalize":
      return undefined;
  }
}

/**
 * The rationale for skipping an agent in this round; `undefined` if the agent takes its turn. A directive applies to
 * one round, so only the last decision of this run counts.
 */
export function skipRationale(state: DebateState, node: AgentNode): string | undefined {
  if (node === "diagnostic_agent") return undefined;
  if (isAgreed(state)) return state.agreement;
  const directive = state.decision?.flow_directive;
  const isSkipped = node === "skeptic_agent" ? directive?.skip_skeptic : directive?.skip_rebuttal;
  return isSkipped ? directive?.rationale : undefined;
}

/** Whether the independent diagnoses agree, so that the first round needs no debate. */
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
} as const satisfies Record<AgentNode, HistoryEntry["role"]>;

/** The state before the debate. Inherited history and hypotheses belong to round 0. */
export function startState(task: DebateTask, prior: PriorRun | undefined): DebateState {
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
  // Older versions confirmed hypotheses without evidence, or with a single result.
  const isUnproven = state === "confirmed" && groundingOf(hypothesis).level !== "full";
  return {
    ...hypothesis,
    state: isUnproven ? "active" : state,
    round: 0,
    evidence: before(evidence),
    reviews: before(reviews),
  };
}

export function afterAgent(before: DebateState, node: AgentNode, turn: TurnText): DebateState {
  const state = withText({ ...before, calls: [...before.calls, ...turn.calls] }, node, turn.text);
  const { hypotheses, round, calls } = state;
  if (node === "diagnostic_agent") {
    return turn.isPlaceholder ? { ...state, earlyOutSignal: decisions.NO_EARLY_OUT } : {
      ...state,
      hypotheses: addDiagnosis(state, turn),
      earlyOutSignal: decisions.parseEarlyOut(turn.text),
    };
  }
  if (turn.isPlaceholder) return state;
  const review = node === "skeptic_agent" ? table.applySkeptic : table.applyRebuttal;
  const labels = labelsFor(state.task.language);
  return { ...state, hypotheses: review(hypotheses, turn.text, { round, calls, labels }) };
}

function addDiagnosis(
  { hypotheses, round, calls }: DebateState,
  { text, calls: own }: TurnText,
): readonly Hypothesis[] {
  const found = extractHypotheses(text);
  const isFirst = found.length === 0 && hypotheses.length === 0;
  const newCalls = new Set(own.map(({ call_id }) => call_id));
  const origin = { round, agent: "diagnostic_agent", calls, newCalls } as const;
  return table.mergeHypotheses(hypotheses, isFirst ? fallbackHypotheses(text, round) : found, origin);
}

export function afterSkip(state: DebateState, node: AgentNode, rationale: string): DebateState {
  return withText(state, node, skippedText(node, rationale, state.task.language, isAgreed(state)));
}

/** The text that replaces the turn of a skipped agent. */
export function skippedText(node: AgentNode, rationale: string, language: string, isAgreed: boolean): string {
  if (isAgreed) return `(${rationale})`;
  const labels = labelsFor(language);
  const what = node === "skeptic_agent" ? labels.skepticSkipped : labels.rebuttalSkipped;
  return rationale === "" ? `${what})` : `${what}: ${rationale})`;
}

function withText(state: DebateState, node: AgentNode, text: string): DebateState {
  return {
    ...state,
    done: node,
    texts: { ...state.texts, [TEXT_KEYS[node]]: text },
    history: [...state.history, { role: HISTORY_ROLES[node], content: text, round: state.round }],
  };
}

/**
 * The state after the moderator's decision. Evidence limits its confidence. `continue` advances the round counter. If
 * the debate ends although the moderator would continue, the decision states the reason.
 */
export function afterModerator(state: DebateState, said: Decision): DebateState {
  const { task, round, earlyOutSignal } = state;
  const { language, confidenceThreshold, maxRounds } = task;
  const labels = labelsFor(language);
  const decided = decisions.limitConfidence(said, state.hypotheses, language);
  const by = { round, labels, calls: state.calls, confidenceThreshold };
  const hypotheses = table.applyDecision(state.hypotheses, decided, by);
  const continues = decided.status === "continue";
  const earlyOutConfirmed = continues &&
    decisions.isEarlyOutConfirmed(task.earlyOut, earlyOutSignal, decided, hypotheses);
  const ends = !continues || earlyOutConfirmed || round >= maxRounds;
  const reasons = [
    earlyOutConfirmed && [labels.earlyOutConfirmed, earlyOutSignal.rationale].filter(Boolean).join(": "),
    continues && !earlyOutConfirmed && ends && `${labels.roundsUsedUp} (${maxRounds})`,
    decided.stop_reason,
  ].filter((reason) => typeof reason === "string");
  const reasoned = { ...decided, stop_reason: reasons.length === 0 ? null : reasons.join("; ") };
  const judged = ends
    ? decisions.withOutcome(reasoned, { confidenceThreshold, earlyOutConfirmed })
    : reasoned;
  const decision = hedgeSteps(judged, language);
  const entry: HistoryEntry = { role: "moderator", content: JSON.stringify(decision, null, 2), round };
  return {
    ...state,
    done: "moderator_agent",
    round: continues && !earlyOutConfirmed ? round + 1 : round,
    hypotheses,
    earlyOutConfirmed,
    decision,
    history: [...state.history, entry],
    roundLog: [...state.roundLog, { round, ...loggedTexts(state.texts), moderator: decision }],
  };
}

/** The state at the start of the next round, with or without a summary. */
export function afterSummary(state: DebateState): DebateState {
  return { ...state, done: "summarize_history", texts: NO_TEXTS, earlyOutSignal: decisions.NO_EARLY_OUT };
}

/** The state after the operator's comment. `content` is the text that the agents receive. */
export function afterComment(
  state: DebateState,
  { comment, changes }: table.OperatorInput,
): { readonly state: DebateState; readonly content: string } {
  const { round, task, history } = state;
  const by = { round, labels: labelsFor(task.language) };
  const { hypotheses, said } = table.applyOperator(state.hypotheses, changes, by);
  const content = [comment, ...said].filter((each) => each !== "").join("\n");
  const told = content === "" ? history : [...history, { role: "user" as const, content, round }];
  return { state: { ...state, done: "user_input_gate", hypotheses, history: told }, content };
}

const FIRST_COMPRESSED_ROUND = 3;

/**
 * The history for the agents of this round: the summary, the last round and all entries that the summary does not
 * cover. Texts of this round are not included, because prompts contain them separately.
 */
export function viewHistory(state: DebateState) {
  const entries = state.history.filter((entry) => {
    if (entry.round === state.round && entry.role !== "user") return false;
    return entry.round > state.summarizedThrough || entry.round >= state.round - 1;
  });
  return { summary: state.historySummary, entries };
}

/**
 * The entries that the next summary adds to the previous one, after a round; empty if no summary is due.
 */
export function entriesToSummarize(state: DebateState): readonly HistoryEntry[] {
  if (!state.task.compressHistory || state.round < FIRST_COMPRESSED_ROUND) return [];
  return state.history.filter(({ round }) => round > state.summarizedThrough && round < state.round);
}

export function withSummary(state: DebateState, summary: string): DebateState {
  return { ...state, historySummary: summary, summarizedThrough: state.round - 1 };
}
