import { amountsOf, lastDecision, type ReadRecord, type RunListItem } from "../runs/record.ts";
import { percent } from "../report/report.ts";
import { fieldsOf, textOf } from "../engine/graph/text.ts";
import { safeLine, safeText, type Terminal, wrap } from "./terminal.ts";

export function formatRuns(records: readonly RunListItem[], { width }: Pick<Terminal, "width">): string {
  const line = (...[id = "", started = "", status = "", sure = "", rest = ""]: readonly string[]) =>
    `${[id.padEnd(8), started.padEnd(16), status.padEnd(11), sure.padStart(4)].join("  ")}  ${
      safeLine(rest, Math.max(20, width - 48))
    }`.trimEnd();
  return [
    line("Run", "Started (UTC)", "Status", "Conf", "Result"),
    ...records.map((record) =>
      line(
        record.run_id.slice(0, 8),
        safeLine((record.timestamp ?? "").slice(0, 16).replace("T", " "), 16),
        record.status ?? "unknown",
        record.conclusion === null ? "" : percent(record.conclusion.confidence),
        record.conclusion?.outcome === "cause"
          ? record.conclusion.cause
          : `${record.imported ? "(imported) " : ""}${record.title ?? record.topic ?? ""}`,
      )
    ),
  ].map((each) => `${each}\n`).join("");
}

const MAX_FACT = 400;

/** A summary of a run: models, result and next step. */
export function formatRun(record: ReadRecord, { width }: Pick<Terminal, "width">): string {
  const result = record.events.findLast(({ type }) => type === "final_result")?.content;
  const column = Math.max(20, width - 12);
  const head = factsOf(record).filter(([, value]) => value !== "").flatMap(([name, value]) =>
    wrap(safeLine(value, MAX_FACT), column).map((line, index) =>
      `${(index === 0 ? name : "").padEnd(12)}${line}`
    )
  );
  const body = textOf(result) || "The run has no result.";
  return `${[...head, "", ...wrap(safeText(body), width)].join("\n")}\n`;
}

export function formatRunPair(
  pair: readonly [ReadRecord, ReadRecord],
  { width }: Pick<Terminal, "width">,
): string {
  const column = Math.max(20, Math.floor((width - 16) / 2));
  const [left, right] = pair.map((record) => [...factsOf(record), ...hypothesesOf(record)]);
  const names = [...new Set([...left ?? [], ...right ?? []].map(([name]) => name))];
  const cellOf = (rows: readonly (readonly [string, string])[] | undefined, name: string) =>
    wrap(safeLine(rows?.find(([each]) => each === name)?.[1] ?? "", MAX_FACT), column);
  const lines = names.flatMap((name) => {
    const [one, two] = [cellOf(left, name), cellOf(right, name)];
    return Array.from(
      { length: Math.max(one.length, two.length) },
      (_, index) =>
        `${(index === 0 ? name : "").slice(0, 13).padEnd(14)}${(one[index] ?? "").padEnd(column)}  ${
          two[index] ?? ""
        }`
          .trimEnd(),
    );
  });
  return `${lines.join("\n")}\n`;
}

export function toComparable(record: ReadRecord): Readonly<Record<string, unknown>> {
  const { run_id, imported, status, conclusion, models, hypotheses, duration_seconds } = record;
  const { tokens = null, cost = null, rounds } = amountsOf(record);
  return {
    ...{ run_id, imported, status, conclusion, models, rounds, duration_seconds },
    total_tokens: tokens,
    cost_usd: cost,
    hypotheses: hypotheses.map(({ id, text, state, probability, evidence }) => ({
      ...{ id, text, state, probability },
      evidence: evidence.length,
      evidence_that_counts: countingIn(evidence),
    })),
  };
}

function factsOf(record: ReadRecord): readonly (readonly [string, string])[] {
  const { conclusion, models, duration_seconds } = record;
  const decision = fieldsOf(lastDecision(record.events));
  const { tokens, cost, rounds } = amountsOf(record);
  return [
    ["Run", record.run_id],
    ["Topic", record.title ?? record.topic ?? ""],
    ["Started", record.timestamp ?? ""],
    ["Status", `${record.status ?? "unknown"}${record.imported ? IMPORTED : ""}`],
    ["Resumes", record.parent_run_id ?? ""],
    ["Outcome", OUTCOMES[conclusion?.outcome ?? "unknown"]],
    [conclusion?.outcome === "cause" ? "Cause" : "Candidate", conclusion?.cause ?? ""],
    ["Confidence", conclusion === null ? "" : percent(conclusion.confidence)],
    ["Reason", textOf(fieldsOf(decision.grounding).reason)],
    ["Next step", textOf(decision.next_step)],
    ["Models", [...new Set(Object.values(models ?? {}))].join(", ")],
    ["Mode", record.mode ?? "debate"],
    ["Rounds", rounds === 0 ? "" : String(rounds)],
    ["Duration", duration_seconds === null ? "" : `${duration_seconds} s`],
    ["Tokens", tokens === undefined ? "" : String(tokens)],
    ["Cost", cost === undefined ? "" : `about $${cost.toFixed(4)}`],
  ];
}

const OUTCOMES = { cause: "cause found", no_confident_cause: "no confident cause", unknown: "" } as const;

function hypothesesOf({ hypotheses }: ReadRecord): readonly (readonly [string, string])[] {
  return hypotheses.map(({ text, state, probability, evidence }, index) => {
    const share = probability === null ? "" : ` ${percent(probability)}`;
    const counting = `${countingIn(evidence)} of ${evidence.length} lines count`;
    return [`Hypothesis ${index + 1}`, `[${state}${share}, ${counting}] ${text}`];
  });
}

const IMPORTED = ", imported and not verified";

function countingIn(evidence: ReadRecord["hypotheses"][number]["evidence"]): number {
  return evidence.filter(({ status }) => status === "grounded").length;
}
