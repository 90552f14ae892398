import { count } from "../engine/graph/text.ts";
import type { JudgedCase } from "./cases.ts";

export const DEFINITIONS: Readonly<Record<string, string>> = {
  prediction: "leading hypothesis of the last decision, or the best-ranked hypothesis if there is none",
  ranking:
    "leading hypothesis, then confirmed ones, then active ones by probability and age; rejected ones are not candidates",
  similarity:
    "F1 of the sets of words, 0 to 1, without accents, case, English and Spanish stop words and plural endings; of several truths the best",
  denial:
    '0 if one text denies most of the words that both have, as in "does not leak"; list both wordings as truths if they mean the same',
  match: "similarity of at least match_threshold",
  top1_accuracy: "share of all cases whose prediction matches",
  top3_recall: "share of all cases where one of the first three candidates matches",
  lexical_similarity: "mean similarity of the predictions, over all cases",
  brier_score:
    "mean of (confidence - match)^2 over cases with a usable record; 0 is perfect, a constant confidence of 0.5 gives 0.25",
  reliability: "cases by confidence in five bins; for a calibrated diagnosis, accuracy equals confidence",
  tool_efficiency:
    "distinct successful, uncached tool calls whose tool the evidence or decision cites, divided by all tool calls; null without calls",
  rounds: "number of moderator decisions",
  cases_without_usable_record:
    "number of cases that count as wrong and are not in the Brier score; each has a reason in problem",
};

export type CaseResult = Readonly<ReturnType<typeof judgeCase>>;
type Tally = Readonly<ReturnType<typeof tally>>;

const TOP = 3;
const BINS = 5;

export function judgeCase({ id, truths, run }: JudgedCase, threshold: number) {
  const { candidates, ...facts } = typeof run === "string" ? NOTHING : run;
  const similarities = candidates.slice(0, TOP).map((candidate) => similarityOf(candidate, truths));
  return {
    id,
    ground_truth: truths,
    prediction: candidates[0] ?? null,
    similarity: round(similarities[0] ?? 0),
    top1: (similarities[0] ?? -1) >= threshold,
    top3: similarities.some((similarity) => similarity >= threshold),
    ...facts,
    tool_efficiency: ratio(facts.useful_tool_calls, facts.tool_calls),
    problem: typeof run === "string" ? run : null,
  };
}

const NOTHING = {
  ...{ candidates: [], confidence: null, tool_calls: 0, useful_tool_calls: 0 },
  ...{ tokens: null, cost_usd: null, rounds: null, duration_seconds: null },
};

function similarityOf(candidate: string, truths: readonly string[]): number {
  return Math.max(0, ...truths.map((truth) => compareCauses(candidate, truth)));
}

export function summarizeCases(cases: readonly CaseResult[]) {
  const share = (holds: (result: CaseResult) => boolean) =>
    ratio(cases.filter(holds).length, cases.length) ?? 0;
  const forecasts = cases.flatMap(({ confidence, top1: right }) =>
    confidence === null ? [] : [{ confidence, right }]
  );
  return {
    top1_accuracy: share(({ top1 }) => top1),
    top3_recall: share(({ top3 }) => top3),
    lexical_similarity: mean(cases.map(({ similarity }) => similarity)) ?? 0,
    brier_score: brierOf(forecasts),
    reliability: reliabilityOf(forecasts),
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

type Forecasts = readonly { readonly confidence: number; readonly right: boolean }[];

/** The mean squared error: 0 is perfect, 0.25 is the score of a constant confidence of 0.5. */
export function brierOf(forecasts: Forecasts): number | null {
  return mean(forecasts.map(({ confidence, right }) => (confidence - Number(right)) ** 2));
}

export function reliabilityOf(forecasts: Forecasts) {
  return Array.from({ length: BINS }, (_, bin) => {
    const inside = forecasts.filter(({ confidence }) =>
      Math.min(BINS - 1, Math.floor(confidence * BINS)) === bin
    );
    return {
      from: bin / BINS,
      to: (bin + 1) / BINS,
      cases: inside.length,
      mean_confidence: mean(inside.map(({ confidence }) => confidence)),
      accuracy: ratio(inside.filter(({ right }) => right).length, inside.length),
    };
  });
}

function tally(values: readonly (number | null)[]) {
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

/** Rounds to six digits, to remove floating-point noise. */
export function round(value: number): number {
  return Math.round(value * 1e6) / 1e6;
}

const STOP_WORDS: ReadonlySet<string> = new Set(
  [
    "a an and are as at be because been being but by can could did do does due for from had has have in into is it",
    "its may might of on or so such than that the their there these they this those to was were when which while",
    "will with would",
    "al aunque como con cuando de del desde donde el ella ello en entre era es esa ese eso esta este esto fue ha",
    "hay la las le les lo los mas muy no o para pero por porque puede que se ser si sin sobre son su sus un una unas",
    "unos y ya",
  ].join(" ").split(" "),
);

/** The words of a text without stop words and accents, in lower case and, for simple cases, in the singular. */
export function meaningfulWords(text: string): ReadonlySet<string> {
  const plain = text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const words = plain.match(/[\p{L}\p{N}]+/gu) ?? [];
  return new Set(words.filter((word) => !STOP_WORDS.has(word)).map(singular));
}

function singular(word: string): string {
  if (word.length <= 3 || !word.endsWith("s") || /(?:ss|us|is)$/.test(word)) return word;
  if (word.endsWith("ies")) return `${word.slice(0, -3)}y`;
  return /(?:[nlrdz]|ch|sh|x)es$/.test(word) ? word.slice(0, -2) : word.slice(0, -1);
}

/** A denial is about the whole clause, because "no evidence of a leak" and "the leak was ruled out" deny a leak too. */
const DENIAL =
  /(?:n['’]t|\b(?:not?|neither|nor|cannot|without|missing|lack(?:s|ing)|ruled out|refuted|disproved|unlikely|ni|ning[uú]na?|sin|tampoco|faltan?|improbable|descartad[oa]))(?![\p{L}\p{N}])/iu;
const CLAUSE_END = /[.,;:!?()\n]|\b(?:because|but|although|while|since|porque|pero|aunque|sino)\b/iu;

/** The words of the clauses that contain a denial. */
function deniedWords(text: string): ReadonlySet<string> {
  return meaningfulWords(text.split(CLAUSE_END).filter((clause) => DENIAL.test(clause)).join(" "));
}

/** F1 of the two sets of words, 0 to 1; 0 if either set is empty, or if only one text denies most of the shared words. */
export function compareCauses(a: string, b: string): number {
  const [wordsA, wordsB] = [meaningfulWords(a), meaningfulWords(b)];
  const shared = wordsA.intersection(wordsB);
  const [denialA, denialB] = [a, b].map((text) =>
    2 * deniedWords(text).intersection(shared).size >= shared.size
  );
  const size = wordsA.size + wordsB.size;
  return size === 0 || denialA !== denialB ? 0 : 2 * shared.size / size;
}

export function createReport(
  cases: readonly CaseResult[],
  { threshold, now }: { readonly threshold: number; readonly now: number },
) {
  return {
    generated_at: new Date(now).toISOString(),
    cases_total: cases.length,
    match_threshold: threshold,
    metrics: summarizeCases(cases),
    definitions: DEFINITIONS,
    cases,
  };
}

const MAX_ID = 20;

export function formatReport(report: ReturnType<typeof createReport>): readonly string[] {
  const { metrics, cases } = report;
  const calls = cases.reduce((sum, { tool_calls }) => sum + tool_calls, 0);
  return [
    ...formatCases(cases),
    "",
    row("Top-1 accuracy", percent(metrics.top1_accuracy), `of ${count(cases.length, "case")}`),
    row("Top-3 recall", percent(metrics.top3_recall), ""),
    row("Cause similarity", digits(metrics.lexical_similarity), `mean; ${report.match_threshold} is a match`),
    row("Brier score", digits(metrics.brier_score), "0 is perfect, 0.25 is guessing"),
    row("Tool efficiency", percent(metrics.tool_efficiency), `useful, of ${count(calls, "call")}`),
    tallyRow("Tokens", metrics.tokens, (value) => String(Math.round(value))),
    tallyRow("Cost", metrics.cost_usd, (value) => `$${value.toFixed(4)}`),
    tallyRow("Rounds", metrics.rounds, (value) => trimmed(value)),
    tallyRow("Duration", metrics.duration_seconds, (value) => `${trimmed(value)} s`),
    ...formatProblems(cases),
  ];
}

function formatCases(cases: readonly CaseResult[]): readonly string[] {
  const width = Math.max(4, ...cases.map(({ id }) => Math.min(MAX_ID, id.length)));
  const line = (id: string, cells: readonly string[], prediction: string) =>
    `${cut(id, width).padEnd(width)}  ${cells.join("  ")}  ${cut(prediction, 80 - width - 30)}`.trimEnd();
  return [
    line("Case", ["Top-1", "Top-3", "Alike", "Conf."], "Prediction"),
    ...cases.map(({ id, top1, top3, similarity, confidence, prediction }) =>
      line(
        id,
        [yes(top1), yes(top3), digits(similarity).padEnd(5), digits(confidence).padEnd(5)],
        prediction ?? "(no usable record)",
      )
    ),
  ];
}

function formatProblems(cases: readonly CaseResult[]): readonly string[] {
  const problems = cases.flatMap(({ id, problem }) => problem === null ? [] : [`  ${id}: ${problem}`]);
  return problems.length === 0 ? [] : ["", "Counted as wrong:", ...problems];
}

function tallyRow(name: string, { total, mean, cases }: Tally, format: (value: number) => string): string {
  if (total === null || mean === null) return row(name, "-", "not recorded");
  return row(name, format(total), `mean ${format(mean)} of ${count(cases, "case")}`);
}

function row(name: string, value: string, note: string): string {
  return `${name.padEnd(17)} ${value.padStart(9)}  ${note}`.trimEnd();
}

function percent(value: number | null): string {
  return value === null ? "-" : `${trimmed(value * 100)}%`;
}

function digits(value: number | null): string {
  return value === null ? "-" : value.toFixed(2);
}

function trimmed(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function yes(value: boolean): string {
  return (value ? "yes" : "no").padEnd(5);
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1).toWellFormed()}…`;
}
