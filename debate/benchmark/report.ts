import { type CaseResult, DEFINITIONS, type Metrics, summarizeCases, type Tally } from "./metrics.ts";

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
    "",
    ...formatReliability(metrics),
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

function formatReliability({ reliability }: Metrics): readonly string[] {
  const used = reliability.filter(({ cases }) => cases > 0);
  if (used.length === 0) return [];
  return [
    "Confidence  Cases  Said  Right",
    ...used.map(({ from, to, cases, mean_confidence, accuracy }) =>
      [
        `${from.toFixed(1)}-${to.toFixed(1)}`.padEnd(10),
        String(cases).padStart(5),
        digits(mean_confidence).padStart(4),
        digits(accuracy).padStart(5),
      ].join("  ")
    ),
  ];
}

function formatProblems(cases: readonly CaseResult[]): readonly string[] {
  const problems = cases.flatMap(({ id, problem }) => problem === null ? [] : [`  ${id}: ${problem}`]);
  return problems.length === 0 ? [] : ["", "Counted as wrong:", ...problems];
}

function tallyRow(name: string, { total, mean, cases }: Tally, format: (value: number) => string): string {
  if (total === null || mean === null) return row(name, "-", "no record says");
  return row(name, format(total), `mean ${format(mean)} of ${count(cases, "case")}`);
}

function row(name: string, value: string, note: string): string {
  return `${name.padEnd(17)} ${value.padStart(9)}  ${note}`.trimEnd();
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

function percent(value: number | null): string {
  return value === null ? "-" : `${trimmed(value * 100)} %`;
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
