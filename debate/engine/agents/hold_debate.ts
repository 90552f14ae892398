import { Deadline, within } from "@gateway/shared/clock";
import { AppError, errorName } from "@gateway/shared/errors";
import type { HypothesisUpdateEvent } from "../events.ts";
import { DECISION_SCHEMA, formatFinalText, NO_DECISION, parseDecision } from "../graph/decision.ts";
import * as flow from "../graph/flow.ts";
import { labelsFor } from "../graph/labels.ts";
import { afterSamples, afterVote } from "../graph/samples.ts";
import { type DebateState, type Decision, ROLES } from "../graph/state.ts";
import { cut } from "../graph/text.ts";
import { type ChatMessage, ModelError } from "../model.ts";
import type { DebateOutcome, DebatePorts, DebateSetup, Sampling } from "../ports.ts";
import { callModel, CASTING, type Debate, type ModelCall, openDebate } from "./debate.ts";
import { buildModeratorPrompt, buildSummaryPrompt, DECISION_SKELETON, instructionsFor } from "./prompt.ts";
import { takeSample, takeTurn } from "./turn.ts";

const MAX_COMMENT = 20_000;

/**
 * Holds a debate to its end, its failure or its cancellation; never throws. The caller stores the record and
 * then emits the events that end a run: `run_cancelled` or `error` where it applies, and `run_finished`.
 */
export async function holdDebate(setup: DebateSetup, ports: DebatePorts): Promise<DebateOutcome> {
  const ms = setup.timeouts?.runMs;
  const late = () => new AppError("timeout", `The run took longer than ${(ms ?? 0) / 1000} s`);
  using deadline = new Deadline({ clock: ports.clock, ms, signal: ports.signal, late });
  const debate = openDebate(setup, ports, deadline.signal);
  // A run that continues another one begins without diagnoses: they would not be independent.
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
    usage: debate.meter.totals(),
  });
  try {
    if (sampling !== undefined) state = await takeSamples(debate, state, sampling);
    for (let steps = 0; steps <= flow.stepLimit(setup.maxRounds); steps++) {
      const isPaused = state.done === "summarize_history" && ports.isPaused();
      const step = flow.nextStep(state, isPaused);
      if (step.kind === "end") return outcome({ status: "completed" });
      debate.signal.throwIfAborted();
      state = await takeStep(debate, state, step);
    }
    throw new AppError("internal", "The debate does not come to an end");
  } catch (error) {
    if (ports.signal.aborted) return outcome({ status: "cancelled" });
    const isKnown = error instanceof ModelError || error instanceof AppError;
    if (!isKnown) ports.fail?.(`run ${setup.runId} failed: ${errorName(error)}`);
    return outcome({ status: "error", error: isKnown ? error.message : "The run failed unexpectedly" });
  }
}

async function takeStep(
  debate: Debate,
  state: DebateState,
  step: Exclude<flow.Step, { kind: "end" }>,
): Promise<DebateState> {
  const { emit } = debate.ports;
  switch (step.kind) {
    case "agent": {
      const { node } = step;
      const turn = await takeTurn(debate, state, node);
      const after = flow.afterAgent(state, node, turn);
      const total_tokens = totalTokens(debate);
      emit({ type: "agent_completed", node, role: ROLES[node], content: turn.text, total_tokens });
      tellHypotheses(debate, state, after, node);
      return after;
    }
    case "skip": {
      const { node, rationale } = step;
      const role = ROLES[node];
      emit({ type: "agent_skipped", agent_node: node, agent_role: role, node, role, rationale });
      return flow.afterSkip(state, node, rationale);
    }
    case "moderate": {
      const { decision, raw } = await moderate(debate, state);
      const after = flow.afterModerator(state, decision);
      emit({
        type: "moderator_decision",
        node: "moderator_agent",
        decision: after.decision ?? decision,
        round: Math.min(after.round, state.task.maxRounds),
        total_tokens: totalTokens(debate),
        early_out_confirmed: after.earlyOutConfirmed,
        ...(raw === undefined ? {} : { raw }),
      });
      tellHypotheses(debate, state, after, "moderator_agent");
      return after;
    }
    case "summarize":
      return flow.afterSummary(await summarize(debate, state));
    case "ask":
      return await askOperator(debate, state);
    case "finalize":
      emit({ type: "final_result", node: "finalize", content: finalText(state) });
      return flow.afterFinal(state);
  }
}

async function askOperator(debate: Debate, state: DebateState): Promise<DebateState> {
  const { clock, emit, waitForComment } = debate.ports;
  const { round } = state;
  const word = await within({ clock, signal: debate.signal }, () => {
    const waiting = waitForComment(round);
    emit({ type: "awaiting_user_input", round });
    return waiting;
  });
  const comment = cut(word.comment.trim().toWellFormed(), MAX_COMMENT);
  const { state: after, content } = flow.afterComment(state, { comment, changes: word.changes });
  emit({ type: "user_comment", content, round });
  tellHypotheses(debate, state, after, "user_input_gate");
  return after;
}

function totalTokens({ meter }: Debate): number {
  return meter.totals().total.total_tokens;
}

function tellHypotheses(
  debate: Debate,
  before: DebateState,
  { hypotheses }: DebateState,
  node: HypothesisUpdateEvent["node"],
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
  const messages = buildModeratorPrompt(state, setup.template);
  const call: ModelCall = {
    node: "moderator_agent",
    round: state.round,
    model: setup.models.moderator,
    temperature: CASTING.moderator_agent.temperature,
    messages,
  };
  const first = await askForText(debate, { ...call, jsonSchema: DECISION_SCHEMA });
  const decision = parseDecision(first);
  if (decision !== undefined) return { decision };

  const { jsonOnly } = instructionsFor(setup.language);
  const said: ChatMessage = { role: "assistant", content: cut(first, MAX_RAW) };
  const reminder: ChatMessage = { role: "user", content: `${jsonOnly}\n${DECISION_SKELETON}` };
  const asked = [...messages, ...(first.trim() === "" ? [] : [said]), reminder];
  const second = await askForText(debate, { ...call, messages: asked });
  const corrected = parseDecision(second);
  if (corrected !== undefined) return { decision: corrected };

  const { unusable, unusableNextStep: next_step } = labelsFor(setup.language);
  const raw = cut((second.trim() === "" ? first : second).toWellFormed(), MAX_RAW);
  const none = { ...NO_DECISION, missing_evidence: [unusable], next_step, stop_reason: unusable };
  return { decision: none, raw };
}

/** The reply's text; empty when the provider refuses the request as it is, or its reply cannot be read. */
async function askForText(debate: Debate, call: ModelCall): Promise<string> {
  try {
    return (await callModel(debate, call)).text;
  } catch (error) {
    if (error instanceof ModelError && error.kind === "bad_reply") return "";
    throw error;
  }
}

const TEMPERATURE = 0.3;
const MAX_SUMMARY = 8000;

/** The state with a new summary, if one is due and the model provides one. */
async function summarize(debate: Debate, state: DebateState): Promise<DebateState> {
  const entries = flow.entriesToSummarize(state);
  if (entries.length === 0) return state;
  const { warn } = debate.ports;
  const model = debate.setup.models.summary;
  const round = state.round - 1;
  try {
    const messages = buildSummaryPrompt(state, entries);
    const call = { node: "summarize_history", round, model, temperature: TEMPERATURE, messages } as const;
    const { text, isCut } = await callModel(debate, call);
    const problem = isCut ? "a summary without its end" : text.trim() === "" ? "an empty summary" : "";
    if (problem !== "") {
      warn?.(`model "${model.id}" gave ${problem}; the history stays in full`);
      return state;
    }
    const summary = cut(text.trim().toWellFormed(), MAX_SUMMARY);
    debate.ports.emit({ type: "history_compressed", round, summary });
    return flow.withSummary(state, summary);
  } catch (error) {
    debate.signal.throwIfAborted();
    if (!(error instanceof ModelError)) throw error;
    warn?.(`no summary, the history stays in full: ${error.message}`);
    return state;
  }
}

/** The state after all diagnoses, and after the vote if that is all that follows. */
async function takeSamples(
  debate: Debate,
  before: DebateState,
  { count, then }: Sampling,
): Promise<DebateState> {
  const { emit } = debate.ports;
  const node = "diagnostic_agent";
  const turns: flow.TurnText[] = [];
  for (let sample = 1; sample <= count; sample++) {
    debate.signal.throwIfAborted();
    const turn = await takeSample(debate, before);
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
  if (voted.decision !== undefined) {
    emit({
      type: "moderator_decision",
      node: "moderator_agent",
      decision: voted.decision,
      round: 1,
      total_tokens: totalTokens(debate),
      early_out_confirmed: false,
    });
  }
  return voted;
}
