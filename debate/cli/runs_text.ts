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

const IMPORTED = ", imported and not verified";
