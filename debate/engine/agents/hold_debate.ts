/**
 * Holds a debate: asks the graph which step comes next, takes it, and emits events about what happened.
 *
 * @module
 */
import { AppError, errorName } from "@gateway/shared/errors";
import { Deadline, within } from "@gateway/shared/clock";
import { cut } from "../graph/text.ts";
import { formatFinalText } from "../graph/final_text.ts";
import { labelsFor } from "../graph/labels.ts";
import { type DebateState, type DebateTask, ROLES } from "../graph/state.ts";
import {
  afterAgent,
  afterComment,
  afterFinal,
  afterModerator,
  afterSkip,
  afterSummary,
  nextStep,
  startState,
  type Step,
  stepLimit,
} from "../graph/flow.ts";
import type { HypothesisUpdateEvent } from "../events.ts";
import { ModelError } from "../model.ts";
import type { DebateOutcome, DebatePorts, DebateSetup } from "../ports.ts";
import { moderate } from "./moderate.ts";
import { type Debate, openDebate } from "./debate.ts";
import { summarize } from "./summarize.ts";
import { samplingOf, takeSamples } from "./take_samples.ts";
import { takeTurn } from "./turn.ts";

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

/** Scripts are no models. */
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
