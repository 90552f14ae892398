import type { DebateState, HistoryEntry } from "./state.ts";

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
