/**
 * How good diagnoses are, against causes that are known. No model is asked: the same records give the same numbers.
 *
 * @module
 */
import type { FactsOrReason, RunFacts } from "./facts.ts";
import { compareCauses } from "./similarity.ts";

export interface JudgedCase {
  readonly id: string;
  /** The causes that count as right; at least one. */
  readonly truths: readonly string[];
  readonly run: FactsOrReason;
}

export interface CaseResult {
  readonly id: string;
  readonly ground_truth: readonly string[];
  /** `null` if there is no usable record. */
  readonly prediction: string | null;
  readonly similarity: number;
  readonly top1: boolean;
  readonly top3: boolean;
  readonly confidence: number | null;
  readonly tool_calls: number;
  readonly useful_tool_calls: number;
  readonly tool_efficiency: number | null;
  readonly tokens: number | null;
  readonly cost_usd: number | null;
  readonly rounds: number | null;
  readonly duration_seconds: number | null;
  /** Why the case counts as wrong without a comparison. */
  readonly problem: string | null;
}

/** A sum over the cases that have a value. */
export interface Tally {
  readonly cases: number;
  readonly total: number | null;
  readonly mean: number | null;
}

/** How often diagnoses of about the same confidence are right. */
interface ReliabilityBin {
  readonly from: number;
  readonly to: number;
  readonly cases: number;
  readonly mean_confidence: number | null;
  readonly accuracy: number | null;
}

export interface Metrics {
  readonly top1_accuracy: number;
  readonly top3_recall: number;
  readonly lexical_similarity: number;
  readonly brier_score: number | null;
  readonly reliability: readonly ReliabilityBin[];
  readonly tool_efficiency: number | null;
  readonly tokens: Tally;
  readonly cost_usd: Tally;
  readonly rounds: Tally;
  readonly duration_seconds: Tally;
  readonly cases_without_usable_record: number;
}

/** What the numbers mean; part of every report. */
export const DEFINITIONS: Readonly<Record<string, string>> = {
  prediction: "the leading hypothesis of the last decision; without one, the best-ranked hypothesis",
  ranking:
    "the leading hypothesis, then confirmed ones, then active ones by probability, then by age; rejected ones are not candidates",
  similarity:
    "F1 of the sets of words, 0 to 1, without accents, case, English and Spanish stop words and plural endings; of several truths the best",
  match: "similarity of at least match_threshold",
  top1_accuracy: "share of all cases whose prediction matches",
  top3_recall: "share of all cases where one of the first three candidates matches",
  lexical_similarity: "mean similarity of the predictions, over all cases",
  brier_score:
    "mean of (confidence - match)^2 over cases with a usable record; 0 is perfect, 0.25 is what saying 0.5 always gives, lower is better",
  reliability: "cases by confidence in five bins: a calibrated diagnosis is right as often as it says",
  tool_efficiency:
    "different tool calls that worked, were not answered from the cache, and whose tool the evidence or decision cites, by all tool calls of all cases; null without calls",
  rounds: "decisions of the moderator",
  cases_without_usable_record: "they count as wrong and are not in the brier score; each case says why",
};

const TOP = 3;
const BINS = 5;

/** Compares a case's causes with those that are known. */
export function judgeCase({ id, truths, run }: JudgedCase, threshold: number): CaseResult {
  if (run.kind === "unusable") return { id, ground_truth: truths, ...NOTHING, problem: run.reason };
  const { facts } = run;
  const similarities = facts.candidates.slice(0, TOP).map((candidate) => similarityOf(candidate, truths));
  return {
    id,
    ground_truth: truths,
    prediction: facts.candidates[0] ?? null,
    similarity: round(similarities[0] ?? 0),
    top1: (similarities[0] ?? 0) >= threshold,
    top3: similarities.some((similarity) => similarity >= threshold),
    confidence: facts.confidence,
    tool_calls: facts.toolCalls,
    useful_tool_calls: facts.usefulToolCalls,
    tool_efficiency: ratio(facts.usefulToolCalls, facts.toolCalls),
    ...costs(facts),
    problem: null,
  };
}

const NOTHING = {
  prediction: null,
  similarity: 0,
  top1: false,
  top3: false,
  confidence: null,
  tool_calls: 0,
  useful_tool_calls: 0,
  tool_efficiency: null,
  tokens: null,
  cost_usd: null,
  rounds: null,
  duration_seconds: null,
} as const;

function costs(facts: RunFacts) {
  return {
    tokens: facts.tokens,
    cost_usd: facts.costUsd,
    rounds: facts.rounds,
    duration_seconds: facts.durationSeconds,
  };
}

function similarityOf(candidate: string, truths: readonly string[]): number {
  return Math.max(0, ...truths.map((truth) => compareCauses(candidate, truth)));
}

/** The metrics over all cases, of which there must be at least one. */
export function summarizeCases(cases: readonly CaseResult[]): Metrics {
  const share = (holds: (result: CaseResult) => boolean) =>
    ratio(cases.filter(holds).length, cases.length) ?? 0;
  const forecasts = cases.flatMap(({ confidence, top1 }) =>
    confidence === null ? [] : [{ confidence, top1 }]
  );
  const errors = forecasts.map(({ confidence, top1 }) => (confidence - Number(top1)) ** 2);
  return {
    top1_accuracy: share(({ top1 }) => top1),
    top3_recall: share(({ top3 }) => top3),
    lexical_similarity: mean(cases.map(({ similarity }) => similarity)) ?? 0,
    brier_score: mean(errors),
    reliability: Array.from({ length: BINS }, (_, bin) => reliabilityBin(forecasts, bin)),
    tool_efficiency: ratio(
      sum(cases.map(({ useful_tool_calls }) => useful_tool_calls)),
      sum(cases.map(({ tool_calls }) => tool_calls)),
    ),
    tokens: tally(cases.map(({ tokens }) => tokens)),
    cost_usd: tally(cases.map(({ cost_usd }) => cost_usd)),
    rounds: tally(cases.map(({ rounds }) => rounds)),
    duration_seconds: tally(cases.map(({ duration_seconds }) => duration_seconds)),
    cases_without_usable_record: cases.filter(({ problem }) => problem !== null).length,
  };
}

function reliabilityBin(
  forecasts: readonly { readonly confidence: number; readonly top1: boolean }[],
  bin: number,
): ReliabilityBin {
  const inside = forecasts.filter(({ confidence }) =>
    Math.min(BINS - 1, Math.floor(confidence * BINS)) === bin
  );
  return {
    from: bin / BINS,
    to: (bin + 1) / BINS,
    cases: inside.length,
    mean_confidence: mean(inside.map(({ confidence }) => confidence)),
    accuracy: ratio(inside.filter(({ top1 }) => top1).length, inside.length),
  };
}

function tally(values: readonly (number | null)[]): Tally {
  const known = values.filter((value) => value !== null);
  return { cases: known.length, total: known.length === 0 ? null : round(sum(known)), mean: mean(known) };
}

function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : round(sum(values) / values.length);
}

function ratio(part: number, whole: number): number | null {
  return whole === 0 ? null : round(part / whole);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** Rounds to six digits; the rest is noise of floating-point arithmetic. */
function round(value: number): number {
  return Math.round(value * 1e6) / 1e6;
}
