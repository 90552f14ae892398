/**
 * The report of a run for people, as Markdown: who took part, what was said, and what the result was.
 *
 * @module
 */
import { explainEvidence } from "../graph/grounding.ts";
import type { Evidence, Hypothesis, Review } from "../graph/state.ts";
import type { ReadRecord, RunStatus } from "../runs/record.ts";
import { inline } from "./markdown_text.ts";
import { confidenceOf, percent, renderTranscript } from "./transcript.ts";
import { fieldsOf, numberOf, textOf } from "./values.ts";

const STATUS_WORDS: Readonly<Record<RunStatus, string>> = {
  running: "Running",
  completed: "Completed",
  cancelled: "Stopped",
  error: "Error",
  interrupted: "Interrupted",
};

/** The whole report. */
export function renderReport(record: ReadRecord): string {
  const sections = [
    `# Diagnosis report: ${inline(record.topic ?? "") || "no topic"}`,
    renderFacts(record),
    renderTranscript(record.events),
    renderTimeline(record.hypotheses),
    renderSummary(record),
    renderCost(record),
  ];
  return `${sections.filter((section) => section !== "").join("\n\n")}\n`;
}

/** The file name under which a browser saves the report. */
export function reportFileName(runId: string): string {
  return `diagnosis-${runId.slice(0, 8)}.md`;
}

function renderFacts(record: ReadRecord): string {
  const { models, reasoning_effort: efforts } = record;
  const thinking = Object.entries(efforts).filter(([, effort]) => effort !== "none" && effort !== "");
  const facts: readonly (readonly [string, string])[] = [
    ["Run", inline(record.run_id)],
    ["Started", inline(record.timestamp ?? "")],
    ["Ended", inline(record.finished_at ?? "")],
    ["Duration", record.duration_seconds === null ? "" : formatDuration(record.duration_seconds)],
    ["Status", record.status === null ? "" : STATUS_WORDS[record.status]],
    ["Resumed from", inline(record.parent_run_id ?? "")],
    ["Diagnostic model", inline(models?.diagnostic ?? "")],
    ["Skeptic model", inline(models?.skeptic ?? "")],
    ["Moderator model", inline(models?.moderator ?? "")],
    ["Thinking", thinking.map(([role, effort]) => `${role} ${inline(effort)}`).join(", ")],
    ["Template", `${inline(record.template ?? "")} (${inline(record.language ?? "")})`],
  ];
  return facts.filter(([, value]) => value !== "").map(([name, value]) => `- **${name}:** ${value}`).join(
    "\n",
  );
}

/** `45s`, `2m 5s`, `1h 3m`. */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${whole % 60}s`;
  return `${Math.floor(whole / 3600)}h ${Math.floor((whole % 3600) / 60)}m`;
}

/** The history of each hypothesis. */
function renderTimeline(hypotheses: readonly Hypothesis[]): string {
  if (hypotheses.length === 0) return "";
  return ["## Hypothesis timeline", ...hypotheses.map(renderHypothesis)].join("\n\n");
}

function renderHypothesis(hypothesis: Hypothesis): string {
  const { text, state, probability, transitions, supporting_evidence, evidence, reviews, rejected_reason } =
    hypothesis;
  const chance = probability === null ? "" : `, probability ${percent(probability)}`;
  return [
    `### ${inline(label(hypothesis))}: ${state}${chance}`,
    [
      `- ${inline(text)}`,
      ...transitions.map(({ round, from, to, agent, note }) => {
        const change = from === null ? `proposed as ${to}` : `${from} → ${to}`;
        const when = round === 0 ? "Before this run" : `Round ${round}`;
        return `- ${when}, ${inline(agent)}: ${change}${note === "" ? "" : ` (${inline(note)})`}`;
      }),
      ...supporting_evidence.map((line) => `- Evidence: ${inline(line)}${checkOf(line, evidence)}`),
      ...reviews.map(renderReview),
      ...(rejected_reason === null ? [] : [`- Rejected because: ${inline(rejected_reason)}`]),
    ].join("\n"),
  ].join("\n\n");
}

/** Whether a line counts; runs of before the check say nothing about it. */
function checkOf(line: string, evidence: readonly Evidence[]): string {
  const checked = evidence.find(({ text }) => text === line);
  return checked === undefined ? "" : ` (${explainEvidence(checked.status, "en")})`;
}

function renderReview({ round, agent, verdict, reason, evidence, new_evidence }: Review): string {
  const agreement = verdict === "accepted" && !new_evidence ? ", agreement without new evidence" : "";
  const lines = evidence.map((line) => `${inline(line.text)} (${explainEvidence(line.status, "en")})`);
  const said = [inline(reason), ...lines].filter((each) => each !== "").join("; ");
  return `- Review, round ${round}, ${inline(agent)}: ${verdict.replace("_", " ")}${agreement}${
    said === "" ? "" : ` (${said})`
  }`;
}

function label({ id }: Hypothesis): string {
  return /^h-/i.test(id) ? id : `H-${id}`;
}

const OUTCOMES: Readonly<Record<string, string>> = {
  cause: "cause found",
  no_confident_cause: "no confident cause",
};

/** The last decision, in short. */
function renderSummary({ events, hypotheses, status }: ReadRecord): string {
  const last = events.findLast(({ type }) => type === "moderator_decision");
  const decision = fieldsOf(last?.decision);
  const rounds = events.filter(({ type }) => type === "moderator_decision").length;
  const found = hypotheses.map((each) => `${inline(label(each))} (${each.state}): ${inline(each.text)}`);
  const facts: readonly (readonly [string, string])[] = [
    ["Final status", inline(textOf(decision.status)) || (status ?? "unknown")],
    ["Outcome", OUTCOMES[textOf(fieldsOf(decision.grounding).outcome)] ?? ""],
    ["Confidence", confidenceOf(decision)],
    ["Risk", inline(textOf(decision.risk_level))],
    ["Rounds", rounds === 0 ? "" : String(rounds)],
    ["Leading hypothesis", inline(textOf(decision.leading_hypothesis))],
    ["Recommended fix", inline(textOf(decision.recommended_fix)) || "none"],
    ["Next step", inline(textOf(decision.next_step))],
  ];
  const lines = facts.filter(([, value]) => value !== "").map(([name, value]) => `- **${name}:** ${value}`);
  if (found.length > 0) lines.push(["- **Hypotheses:**", ...found.map((each) => `  - ${each}`)].join("\n"));
  return `## Executive summary\n\n${last === undefined ? "The run came to no decision.\n\n" : ""}${
    lines.join("\n")
  }`;
}

/** The tokens of each agent and their cost. */
function renderCost({ token_totals, cost_estimate }: ReadRecord): string {
  const byNode = fieldsOf(fieldsOf(token_totals).by_node);
  if (Object.keys(byNode).length === 0) return "";
  const cost = fieldsOf(cost_estimate);
  const costByNode = fieldsOf(cost.by_node);
  const row = (name: string, usage: unknown, usd: unknown) => {
    const { input_tokens, output_tokens, total_tokens } = fieldsOf(usage);
    const numbers = [input_tokens, output_tokens, total_tokens].map((each) => numberOf(each) ?? 0);
    return `| ${[name, ...numbers, dollars(usd)].join(" | ")} |`;
  };
  const table = [
    "| Agent | Input | Output | Total | Estimated cost |",
    "| --- | ---: | ---: | ---: | ---: |",
    ...Object.entries(byNode).map(([node, usage]) =>
      row(inline(node), usage, fieldsOf(costByNode[node]).estimated_usd)
    ),
    row("**Total**", fieldsOf(token_totals).total, cost.total_usd),
  ].join("\n");
  const isPriced = Object.keys(byNode).every((node) =>
    numberOf(fieldsOf(costByNode[node]).estimated_usd) !== undefined
  );
  const note = isPriced ? "" : "\n\n*Some models have no known price; MODEL_PRICES_FILE can give one.*";
  return `## Token consumption\n\n${table}${note}`;
}

function dollars(value: unknown): string {
  const number = numberOf(value);
  return number === undefined ? "–" : `$${number.toFixed(4)}`;
}
