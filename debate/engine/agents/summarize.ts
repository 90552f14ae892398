/**
 * Summarizes the rounds so far before the next one begins. Without a summary the debate keeps the full history.
 *
 * @module
 */
import { entriesToSummarize, withSummary } from "../graph/compression.ts";
import { cut } from "../graph/text.ts";
import type { DebateState } from "../graph/state.ts";
import { ModelError } from "../model.ts";
import { callModel } from "./call_model.ts";
import { buildSummaryPrompt } from "./prompt.ts";
import type { Debate } from "./debate.ts";

const TEMPERATURE = 0.3;
const MAX_SUMMARY = 8000;

/** The state with a new summary, if one is due and the model provides one. */
export async function summarize(debate: Debate, state: DebateState): Promise<DebateState> {
  const entries = entriesToSummarize(state);
  if (entries.length === 0) return state;
  const summary = await askForSummary(debate, state, entries);
  if (summary === "") return state;
  debate.ports.emit({ type: "history_compressed", round: state.round - 1, summary });
  return withSummary(state, summary);
}

async function askForSummary(
  debate: Debate,
  state: DebateState,
  entries: ReturnType<typeof entriesToSummarize>,
) {
  const model = debate.setup.models.summary;
  try {
    const { text, isCut } = await callModel(debate, {
      node: "summarize_history",
      round: state.round - 1,
      model,
      temperature: TEMPERATURE,
      messages: buildSummaryPrompt(state, entries),
    });
    if (text.trim() === "") {
      debate.ports.warn?.(`model "${model.id}" gave an empty summary; the history stays in full`);
    }
    if (isCut) {
      debate.ports.warn?.(`model "${model.id}" gave a summary without its end; the history stays in full`);
      return "";
    }
    return cut(text.trim().toWellFormed(), MAX_SUMMARY);
  } catch (error) {
    debate.signal.throwIfAborted();
    if (!(error instanceof ModelError)) throw error;
    debate.ports.warn?.(`no summary, the history stays in full: ${error.message}`);
    return "";
  }
}
