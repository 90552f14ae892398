import { Deadline, within } from "@gateway/shared/clock";
import { AppError, errorName } from "@gateway/shared/errors";
import { cutText } from "@gateway/shared/text";
import { DECISION_SCHEMA, formatFinalText, NO_DECISION, parseDecision } from "../graph/decision.ts";
import * as flow from "../graph/flow.ts";
import { labelsFor } from "../graph/labels.ts";
import { afterSamples, afterVote } from "../graph/samples.ts";
import { type AgentNode, type DebateState, type Decision, ROLES, type TurnText } from "../graph/state.ts";
import { type DebateOutcome, type DebatePorts, type DebateSetup, ModelError } from "../ports.ts";
import { callModel, type Debate, type ModelCall, openDebate, tokenTotals } from "./debate.ts";
import { buildPrompt, buildSummaryPrompt, DECISION_SKELETON, instructionsFor } from "./prompt.ts";
import { takeTurn } from "./turn.ts";

const MAX_COMMENT = 20_000;

/**
 * Runs a debate until it ends, fails or is cancelled. Never throws. The caller stores the record and then emits the
 * events that end a run: `run_cancelled` or `error` if it applies, and `run_finished`.
 */
export async function conductDebate(setup: DebateSetup, ports: DebatePorts): Promise<DebateOutcome> {
  const ms = setup.timeouts?.runMs;
  const late = () => new AppError("timeout", `The run took longer than ${(ms ?? 0) / 1000} s`);
  using deadline = new Deadline({ clock: ports.clock, ms, signal: ports.signal, late });
  const debate = openDebate(setup, ports, deadline.signal);
  // In a resumed run, diagnoses would not be independent of the inherited history.
  const sampling = setup.initial === undefined ? setup.sampling : undefined;
  let state = flow.startState(setup, setup.initial);
  ports.emit({
    type: "run_started",
    round: 1,
    topic: setup.topic,
    max_rounds: setup.maxRounds,
    confidence_threshold: setup.confidenceThreshold,
    template: setup.template.name,
    language: setup.language,
    ...(sampling !== undefined && { samples: sampling.count }),
  });
  warnOfOneModel(debate);
  const { hypotheses } = state;
  if (hypotheses.length > 0) {
    ports.emit({ type: "hypothesis_update", node: "diagnostic_agent", round: 0, hypotheses });
  }
  const outcome = (end: Pick<DebateOutcome, "status" | "error">): DebateOutcome => ({
    ...end,
    decision: state.decision,
    finalText: end.status === "completed" ? finalText(state) : "",
    hypotheses: state.hypotheses,
    history: state.history,
    roundLog: state.roundLog,
    toolLog: debate.toolLog,
    usage: tokenTotals(debate),
  });
  try {
    if (sampling !== undefined) state = await takeSamples(debate, state, sampling);
    for (let steps = 0; steps <= flow.stepLimit(setup.maxRounds); steps++) {
      const isPaused = state.done === "summarize_history" && ports.isPaused();
      const node = flow.nextNode(state, isPaused);
      if (node === undefined) return outcome({ status: "completed" });
      debate.signal.throwIfAborted();
      state = await enter(debate, state, node);
    }
    throw new AppError("internal", "The debate exceeded its step limit");
  } catch (error) {
    if (ports.signal.aborted) return outcome({ status: "cancelled" });
    return outcome({ status: "error", error: describeFailure(error, setup.runId, ports) });
  }
}

/** Describes the failure of a run for its operator. The log shows only the name of an unexpected error. */
export function describeFailure(error: unknown, runId: string, { fail }: Pick<DebatePorts, "fail">): string {
  if (error instanceof ModelError || error instanceof AppError) return error.message;
  fail?.(`run ${runId} failed: ${errorName(error)}`);
  return "The run failed unexpectedly";
}

async function enter(
  debate: Debate,
  state: DebateState,
  node: NonNullable<DebateState["done"]>,
): Promise<DebateState> {
  switch (node) {
    case "moderator_agent": {
      const { decision, raw } = await moderate(debate, state);
      const after = flow.afterModerator(state, decision);
      const round = Math.min(after.round, state.task.maxRounds);
      emitDecision(debate, after, round, raw === undefined ? {} : { raw });
      emitHypotheses(debate, state, after, node);
      return after;
    }
    case "summarize_history":
      return flow.afterSummary(await summarize(debate, state));
    case "user_input_gate":
      return await waitForOperator(debate, state);
    case "finalize":
      debate.ports.emit({ type: "final_result", node, content: finalText(state) });
      return { ...state, done: node };
    default:
      return await runAgent(debate, state, node);
  }
}

async function runAgent(debate: Debate, state: DebateState, node: AgentNode): Promise<DebateState> {
  const role = ROLES[node];
  const rationale = flow.skipRationale(state, node);
  if (rationale !== undefined) {
    debate.ports.emit({ type: "agent_skipped", agent_node: node, agent_role: role, node, role, rationale });
    return flow.afterSkip(state, node, rationale);
  }
  const turn = await takeTurn(debate, state, node);
  const after = flow.afterAgent(state, node, turn);
  const total_tokens = totalTokens(debate);
  debate.ports.emit({ type: "agent_completed", node, role, content: turn.text, total_tokens });
  emitHypotheses(debate, state, after, node);
  return after;
}

async function waitForOperator(debate: Debate, state: DebateState): Promise<DebateState> {
  const { clock, emit, waitForComment } = debate.ports;
  const { round } = state;
  const word = await within({ clock, signal: debate.signal }, () => {
    const waiting = waitForComment(round);
    emit({ type: "awaiting_user_input", round });
    return waiting;
  });
  const comment = cutText(word.comment.trim().toWellFormed(), MAX_COMMENT);
  const { state: after, content } = flow.afterComment(state, { comment, changes: word.changes });
  emit({ type: "user_comment", content, round });
  emitHypotheses(debate, state, after, "user_input_gate");
  return after;
}

function totalTokens(debate: Debate): number {
  return tokenTotals(debate).total.total_tokens;
}

function emitDecision(
  debate: Debate,
  { decision, earlyOutConfirmed: early_out_confirmed }: DebateState,
  round: number,
  more: { readonly raw?: string } = {},
): void {
  if (decision === undefined) return;
  const facts = { decision, round, total_tokens: totalTokens(debate), early_out_confirmed };
  debate.ports.emit({ type: "moderator_decision", node: "moderator_agent", ...facts, ...more });
}

function emitHypotheses(
  debate: Debate,
  before: DebateState,
  { hypotheses }: DebateState,
  node: AgentNode | "moderator_agent" | "user_input_gate",
): void {
  if (JSON.stringify(before.hypotheses) === JSON.stringify(hypotheses)) return;
  debate.ports.emit({ type: "hypothesis_update", node, round: before.round, hypotheses });
}

function warnOfOneModel({ setup, ports }: Debate): void {
  const { diagnostic, skeptic, moderator } = setup.models;
  const isOne = diagnostic.id === skeptic.id && skeptic.id === moderator.id;
  if (!isOne || diagnostic.id.startsWith("replay/")) return;
  const message = labelsFor(setup.language).oneModel(diagnostic.id);
  ports.emit({ type: "run_warning", code: "one_model", message });
}

function finalText({ decision, hypotheses, task }: DebateState): string {
  return decision === undefined ? "" : formatFinalText(decision, hypotheses, task.language);
}

const MAX_RAW = 8000;

async function moderate(
  debate: Debate,
  state: DebateState,
): Promise<{ readonly decision: Decision; readonly raw?: string }> {
  const { setup } = debate;
  const messages = buildPrompt(state, "moderator_agent", setup.template);
  const call: ModelCall = { purpose: "moderator_agent", round: state.round, messages };
  // Some providers reject structured output, so the failure of the first request does not end the run.
  const first = await callModel(debate, { ...call, jsonSchema: DECISION_SCHEMA }).then(
    ({ text }) => text,
    (error) => {
      if (error instanceof ModelError && error.kind === "bad_reply") return "";
      throw error;
    },
  );
  const decision = parseDecision(first);
  if (decision !== undefined) return { decision };

  const said = first.trim() === "" ? [] : [{ role: "assistant", content: cutText(first, MAX_RAW) } as const];
  const content = `${instructionsFor(setup.language).jsonOnly}\n${DECISION_SKELETON}`;
  const again = [...messages, ...said, { role: "user", content } as const];
  const { text: second } = await callModel(debate, { ...call, messages: again });
  const corrected = parseDecision(second);
  if (corrected !== undefined) return { decision: corrected };

  const { unusable, unusableNextStep: next_step } = labelsFor(setup.language);
  const raw = cutText((second.trim() === "" ? first : second).toWellFormed(), MAX_RAW);
  const none = { ...NO_DECISION, missing_evidence: [unusable], next_step, stop_reason: unusable };
  return { decision: none, raw };
}

const MAX_SUMMARY = 8000;

/** Adds a summary to the state if one is due and the model provides one. */
async function summarize(debate: Debate, state: DebateState): Promise<DebateState> {
  const entries = flow.entriesToSummarize(state);
  if (entries.length === 0) return state;
  const { warn } = debate.ports;
  const model = debate.setup.models.summary;
  const round = state.round - 1;
  try {
    const messages = buildSummaryPrompt(state, entries);
    const { text, isCut } = await callModel(debate, { purpose: "summarize_history", round, messages });
    const problem = isCut ? "a summary without its end" : text.trim() === "" ? "an empty summary" : "";
    if (problem !== "") {
      warn?.(`model "${model.id}" gave ${problem}; the history stays in full`);
      return state;
    }
    const summary = cutText(text.trim().toWellFormed(), MAX_SUMMARY);
    debate.ports.emit({ type: "history_compressed", round, summary });
    return flow.withSummary(state, summary);
  } catch (error) {
    debate.signal.throwIfAborted();
    if (!(error instanceof ModelError)) throw error;
    warn?.(`no summary, the history stays in full: ${error.message}`);
    return state;
  }
}

/** Takes the independent diagnoses and compares them. In vote mode, also decides by the vote. */
async function takeSamples(
  debate: Debate,
  before: DebateState,
  { count, then }: NonNullable<DebateSetup["sampling"]>,
): Promise<DebateState> {
  const { emit } = debate.ports;
  const node = "diagnostic_agent";
  const turns: TurnText[] = [];
  for (let sample = 1; sample <= count; sample++) {
    debate.signal.throwIfAborted();
    const turn = await takeTurn(debate, before, "sample_agent");
    turns.push(turn);
    const total_tokens = totalTokens(debate);
    emit({ type: "agent_completed", node, role: ROLES[node], content: turn.text, sample, total_tokens });
  }
  const { state, comparison } = afterSamples(before, turns);
  emit({ type: "samples_compared", node, round: 1, ...comparison });
  const { hypotheses } = state;
  if (hypotheses.length > 0) emit({ type: "hypothesis_update", node, round: 1, hypotheses });
  if (then === "debate") return state;
  const voted = afterVote(state, comparison);
  emitDecision(debate, voted, 1);
  return voted;
}
