import { AppError, errorName } from "@gateway/shared/errors";
import { Deadline, within } from "@gateway/shared/clock";
import { cut } from "../graph/text.ts";
import { DECISION_SCHEMA, formatFinalText, NO_DECISION, parseDecision } from "../graph/decision.ts";
import { labelsFor } from "../graph/labels.ts";
import { type DebateState, type DebateTask, type Decision, ROLES } from "../graph/state.ts";
import {
  afterAgent,
  afterComment,
  afterFinal,
  afterModerator,
  afterSkip,
  afterSummary,
  entriesToSummarize,
  nextStep,
  startState,
  type Step,
  stepLimit,
  type TurnText,
  withSummary,
} from "../graph/flow.ts";
import type { HypothesisUpdateEvent } from "../events.ts";
import { type ChatMessage, ModelError } from "../model.ts";
import type { DebateOutcome, DebatePorts, DebateSetup, Sampling } from "../ports.ts";
import { callModel, CASTING, type Debate, type ModelCall, openDebate } from "./debate.ts";
import { takeSample, takeTurn } from "./turn.ts";
import { buildModeratorPrompt, buildSummaryPrompt, DECISION_SKELETON, instructionsFor } from "./prompt.ts";
import { afterSamples, afterVote } from "../graph/samples.ts";

const MAX_COMMENT = 20_000;

/**
 * Holds a debate to its end, its failure or its cancellation; never throws. The caller stores the record and
 * then emits what ends a run: `run_cancelled` or `error` where it applies, and `run_finished`.
 */
export async function holdDebate(setup: DebateSetup, ports: DebatePorts): Promise<DebateOutcome> {
  const ms = setup.timeouts?.runMs;
  const late = () => new AppError("timeout", `The run took longer than ${(ms ?? 0) / 1000} s`);
  using deadline = new Deadline({ clock: ports.clock, ms, signal: ports.signal, late });
  const debate = openDebate(setup, ports, deadline.signal);
  const sampling = samplingOf(setup);
  const progress = { state: startState(toTask(setup), setup.initial) };
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
  const { hypotheses } = progress.state;
  if (hypotheses.length > 0) {
    ports.emit({ type: "hypothesis_update", node: "diagnostic_agent", round: 0, hypotheses });
  }
  try {
    if (sampling !== undefined) progress.state = await takeSamples(debate, progress.state, sampling);
    await takeSteps(debate, progress);
    return { ...conclude(debate, progress.state), status: "completed" };
  } catch (error) {
    const outcome = conclude(debate, progress.state);
    if (ports.signal.aborted) return { ...outcome, status: "cancelled", finalText: "" };
    return { ...outcome, status: "error", finalText: "", error: describeError(debate, error) };
  }
}

/** Keeps the state where it can be seen when a step fails. */
async function takeSteps(debate: Debate, progress: { state: DebateState }): Promise<void> {
  const { setup, ports } = debate;
  for (let steps = 0; steps <= stepLimit(setup.maxRounds); steps++) {
    const isPaused = progress.state.done === "summarize_history" && ports.isPaused();
    const step = nextStep(progress.state, isPaused);
    if (step.kind === "end") return;
    debate.signal.throwIfAborted();
    progress.state = await takeStep(debate, progress.state, step);
  }
  throw new AppError("internal", "The debate does not come to an end");
}

async function takeStep(
  debate: Debate,
  state: DebateState,
  step: Exclude<Step, { kind: "end" }>,
): Promise<DebateState> {
  const { emit } = debate.ports;
  switch (step.kind) {
    case "agent": {
      const { node } = step;
      const turn = await takeTurn(debate, state, node);
      const after = afterAgent(state, node, turn);
      const { total_tokens } = debate.meter.totals().total;
      emit({ type: "agent_completed", node, role: ROLES[node], content: turn.text, total_tokens });
      tellHypotheses(debate, state, after, node);
      return after;
    }
    case "skip": {
      const { node, rationale } = step;
      const role = ROLES[node];
      emit({ type: "agent_skipped", agent_node: node, agent_role: role, node, role, rationale });
      return afterSkip(state, node, rationale);
    }
    case "moderate": {
      const { decision, raw } = await moderate(debate, state);
      const after = afterModerator(state, decision);
      emit({
        type: "moderator_decision",
        node: "moderator_agent",
        decision: after.decision ?? decision,
        round: Math.min(after.round, state.task.maxRounds),
        total_tokens: debate.meter.totals().total.total_tokens,
        early_out_confirmed: after.earlyOutConfirmed,
        ...(raw === undefined ? {} : { raw }),
      });
      tellHypotheses(debate, state, after, "moderator_agent");
      return after;
    }
    case "summarize":
      return afterSummary(await summarize(debate, state));
    case "ask":
      return await askOperator(debate, state);
    case "finalize":
      emit({ type: "final_result", node: "finalize", content: finalText(state) });
      return afterFinal(state);
  }
}

async function askOperator(debate: Debate, state: DebateState): Promise<DebateState> {
  const { clock, emit } = debate.ports;
  const { round } = state;
  const word = await within({ clock, signal: debate.signal }, () => {
    const waiting = debate.ports.waitForComment(round);
    emit({ type: "awaiting_user_input", round });
    return waiting;
  });
  const comment = cut(word.comment.trim().toWellFormed(), MAX_COMMENT);
  const { state: after, content } = afterComment(state, { comment, changes: word.changes });
  emit({ type: "user_comment", content, round });
  tellHypotheses(debate, state, after, "user_input_gate");
  return after;
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

function conclude(debate: Debate, state: DebateState): Omit<DebateOutcome, "status" | "error"> {
  return {
    decision: state.decision,
    finalText: finalText(state),
    hypotheses: state.hypotheses,
    history: state.history,
    roundLog: state.roundLog,
    toolLog: debate.toolLog,
    usage: debate.meter.totals(),
  };
}

function toTask(setup: DebateSetup): DebateTask {
  const { topic, context, maxRounds, confidenceThreshold, earlyOut, compressHistory, language } = setup;
  return { topic, context, maxRounds, confidenceThreshold, earlyOut, compressHistory, language };
}

function describeError(debate: Debate, error: unknown): string {
  if (error instanceof ModelError || error instanceof AppError) return error.message;
  debate.ports.fail?.(
    `run ${debate.setup.runId} failed: ${errorName(error)}`,
  );
  return "The run failed unexpectedly";
}

const MAX_RAW = 8000;

async function moderate(
  debate: Debate,
  state: DebateState,
): Promise<{ readonly decision: Decision; readonly raw?: string }> {
  const { setup } = debate;
  const ask = instructionsFor(setup.language);
  const messages = buildModeratorPrompt(state, setup.template);
  const call: ModelCall = {
    node: "moderator_agent",
    round: state.round,
    model: setup.models.moderator,
    temperature: CASTING.moderator_agent.temperature,
    messages,
  };
  const first = await askForText(debate, { ...call, jsonSchema: DECISION_SCHEMA });
  const firstDecision = parseDecision(first);
  if (firstDecision !== undefined) return { decision: firstDecision };

  const said: readonly ChatMessage[] = first.trim() === ""
    ? []
    : [{ role: "assistant", content: cut(first, MAX_RAW) }];
  const reminder: ChatMessage = { role: "user", content: `${ask.jsonOnly}\n${DECISION_SKELETON}` };
  const second = await askForText(debate, { ...call, messages: [...messages, ...said, reminder] });
  const corrected = parseDecision(second);
  if (corrected !== undefined) return { decision: corrected };

  const { unusable, unusableNextStep: next_step } = labelsFor(setup.language);
  const raw = cut((second.trim() === "" ? first : second).toWellFormed(), MAX_RAW);
  const decision = { ...NO_DECISION, missing_evidence: [unusable], next_step, stop_reason: unusable };
  return { decision, raw };
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

/** The diagnoses that a debate begins with; `undefined` if it begins without, or continues another run. */
function samplingOf({ sampling, initial }: DebateSetup): Sampling | undefined {
  return initial === undefined ? sampling : undefined;
}

/** The state after all diagnoses, and after the vote if that is all that follows. */
async function takeSamples(
  debate: Debate,
  before: DebateState,
  { count, then }: Sampling,
): Promise<DebateState> {
  const { emit } = debate.ports;
  const turns: TurnText[] = [];
  for (let sample = 1; sample <= count; sample++) {
    debate.signal.throwIfAborted();
    const turn = await takeSample(debate, before);
    turns.push(turn);
    const { total_tokens } = debate.meter.totals().total;
    const node = "diagnostic_agent";
    emit({ type: "agent_completed", node, role: ROLES[node], content: turn.text, sample, total_tokens });
  }
  const { state, comparison } = afterSamples(before, turns);
  emit({ type: "samples_compared", node: "diagnostic_agent", round: 1, ...comparison });
  const { hypotheses } = state;
  if (hypotheses.length > 0) {
    emit({ type: "hypothesis_update", node: "diagnostic_agent", round: 1, hypotheses });
  }
  if (then === "debate") return state;
  const voted = afterVote(state, comparison);
  if (voted.decision !== undefined) {
    emit({
      type: "moderator_decision",
      node: "moderator_agent",
      decision: voted.decision,
      round: 1,
      total_tokens: debate.meter.totals().total.total_tokens,
      early_out_confirmed: false,
    });
  }
  return voted;
}
