/**
 * One trial: an incident, diagnosed once in one way, and how the answer compares with the truth.
 *
 * @module
 */
import type { Clock } from "@gateway/shared/clock";
import { holdDebate } from "../engine/agents/hold_debate.ts";
import { CAPS, groundingOf } from "../engine/graph/evidence.ts";
import type { FaultKind } from "../engine/graph/claim.ts";
import { NO_WORD } from "../engine/graph/operator.ts";
import type { Hypothesis } from "../engine/graph/state.ts";
import type { TokenTotals } from "../engine/events.ts";
import type { DebateOutcome, DebateSetup } from "../engine/ports.ts";
import { contextOf } from "./answer_form.ts";
import { type Arm, type ArmModels, setupOf } from "./arms.ts";
import { TokenBudget } from "./budget.ts";
import { frozenTools } from "./frozen_tools.ts";
import type { Incident } from "./incident.ts";
import { type Score, scoreAnswer } from "./score.ts";

export interface Trial {
  readonly incident: string;
  readonly kind: FaultKind;
  readonly arm: Arm;
  /** From 1. */
  readonly run: number;
  /** The text of the hypothesis that leads; empty if none does. */
  readonly answer: string;
  readonly score: Score;
  /** 0 to 1, limited by the evidence that counts. */
  readonly confidence: number;
  /** The run calls it the cause. */
  readonly confident: boolean;
  readonly tokens: number;
  readonly cost_usd: number | null;
  readonly tool_calls: number;
  /** Different calls whose results the evidence quotes. */
  readonly useful_tool_calls: number;
  readonly rounds: number;
  readonly seconds: number;
  readonly ending: "completed" | "out_of_budget" | "error" | "cancelled";
  readonly problem: string | null;
}

export interface TrialRules {
  readonly template: DebateSetup["template"];
  readonly language: string;
  readonly maxRounds: number;
  readonly confidenceThreshold: number;
  readonly earlyOut: DebateSetup["earlyOut"];
  readonly toolBudget: number;
  readonly tokenBudget: number;
  /** In US dollars; `null` when no price is known. */
  readonly costOf: (
    usage: TokenTotals,
    models: Readonly<Record<keyof ArmModels | "summary", string>>,
  ) => number | null;
  readonly timeouts: NonNullable<DebateSetup["timeouts"]>;
}

interface TrialPorts {
  readonly clock: Clock;
  readonly newId: () => string;
  readonly signal: AbortSignal;
  readonly warn?: (message: string) => void;
}

interface TrialPlan {
  readonly incident: Incident;
  readonly arm: Arm;
  readonly run: number;
  readonly models: ArmModels;
}

/** Holds a trial. A model that fails makes a wrong answer, not a missing one. */
export async function holdTrial(plan: TrialPlan, rules: TrialRules, ports: TrialPorts): Promise<Trial> {
  const { incident, arm, run, models } = plan;
  const budget = new TokenBudget(rules.tokenBudget);
  const bound = {
    diagnostic: budget.bound(models.diagnostic),
    skeptic: budget.bound(models.skeptic),
    moderator: budget.bound(models.moderator),
  };
  const setup: DebateSetup = {
    runId: "0".repeat(32),
    topic: incident.topic,
    context: contextOf(incident),
    ...setupOf(arm, bound, rules.toolBudget),
    efforts: { diagnostic: "none", skeptic: "none", moderator: "none" },
    maxRounds: rules.maxRounds,
    confidenceThreshold: rules.confidenceThreshold,
    earlyOut: rules.earlyOut,
    compressHistory: true,
    template: rules.template,
    language: rules.language,
    maxConsecutiveErrors: 3,
    timeouts: rules.timeouts,
  };
  const startedAt = ports.clock.now();
  const outcome = await holdDebate(setup, {
    emit: () => {},
    tools: arm === "blind" ? [] : frozenTools(incident.tools),
    approve: () => Promise.resolve("auto"),
    isPaused: () => false,
    waitForComment: () => Promise.resolve(NO_WORD),
    audit: () => {},
    ...ports,
  });
  const seconds = Math.max(0, Math.round(ports.clock.now() - startedAt)) / 1000;
  const { diagnostic, skeptic, moderator, summary } = setup.models;
  const ids = {
    diagnostic: diagnostic.id,
    skeptic: skeptic.id,
    moderator: moderator.id,
    summary: summary.id,
  };
  const ending = outcome.status === "error" && budget.isOver ? "out_of_budget" : outcome.status;
  return {
    incident: incident.id,
    kind: incident.truth.fault,
    arm,
    run,
    ...judge(outcome, incident),
    tokens: budget.spent,
    cost_usd: rules.costOf(outcome.usage, ids),
    tool_calls: outcome.toolLog.length,
    rounds: outcome.roundLog.length,
    seconds,
    ending,
    problem: outcome.error ?? null,
  };
}

function judge(outcome: DebateOutcome, incident: Incident) {
  const lead = leadOf(outcome);
  const { decision } = outcome;
  const cap = CAPS[lead === undefined ? "none" : groundingOf(lead).level];
  const said = decision === undefined ? Math.min(lead?.probability ?? 0, cap ?? 1) : decision.confidence;
  const evidence = [...lead?.evidence ?? [], ...(lead?.reviews ?? []).flatMap((review) => review.evidence)];
  const used = evidence.filter(({ status }) => status === "grounded").flatMap(({ call_ids }) => call_ids);
  return {
    answer: lead?.text ?? "",
    score: scoreAnswer(lead?.text ?? "", incident),
    confidence: lead === undefined ? 0 : said,
    confident: decision?.grounding?.outcome === "cause",
    useful_tool_calls: new Set(used).size,
  };
}

/** The hypothesis that the decision names; of a run that came to none, the likeliest that was not rejected. */
function leadOf({ decision, hypotheses }: DebateOutcome): Hypothesis | undefined {
  if (decision !== undefined) return hypotheses.find(({ id }) => id === decision.grounding?.hypothesis_id);
  return hypotheses.filter(({ state }) => state !== "rejected")
    .toSorted((a, b) => (b.probability ?? 0) - (a.probability ?? 0))[0];
}
