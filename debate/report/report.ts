import { explainEvidence } from "../engine/graph/decision.ts";
import type { Hypothesis, Review } from "../engine/graph/state.ts";
import { amountsOf, lastDecision, type ReadRecord } from "../runs/record.ts";
import { inline } from "./markdown_text.ts";
import { bullets, confidenceOf, type Facts, outcomeOf, percent, renderTranscript } from "./transcript.ts";
import { fieldsOf, numberOf, textOf } from "../engine/graph/json_objects.ts";
import { type Words, wordsFor } from "./words.ts";

export function renderReport(record: ReadRecord): string {
  const words = wordsFor(record.language ?? "");
  const sections = [
    `# ${words.title}: ${inline(record.topic ?? "") || words.noTopic}`,
    renderFacts(record, words),
    renderTranscript(record.events, words),
    renderTimeline(record.hypotheses, words),
    renderSummary(record, words),
    renderCost(record, words),
  ];
  return `${sections.filter((section) => section !== "").join("\n\n")}\n`;
}

export function reportFileName(runId: string): string {
  return `diagnosis-${runId.slice(0, 8)}.md`;
}

function renderFacts(record: ReadRecord, words: Words): string {
  const { models, reasoning_effort: efforts } = record;
  const thinking = Object.entries(efforts).filter(([, effort]) => effort !== "none" && effort !== "");
  const facts: Facts = [
    [words.note, record.imported ? words.imported : ""],
    [words.run, inline(record.run_id)],
    [words.started, inline(record.timestamp ?? "")],
    [words.ended, inline(record.finished_at ?? "")],
    [words.duration, record.duration_seconds === null ? "" : formatDuration(record.duration_seconds)],
    [words.status, record.status === null ? "" : words[record.status]],
    [words.resumedFrom, inline(record.parent_run_id ?? "")],
    [words.diagnosticModel, inline(models?.diagnostic ?? "")],
    [words.skepticModel, inline(models?.skeptic ?? "")],
    [words.moderatorModel, inline(models?.moderator ?? "")],
    [words.mode, record.mode === "sample_then_debate" ? words.sampleThenDebate : ""],
    [words.thinking, thinking.map(([role, effort]) => `${role} ${inline(effort)}`).join(", ")],
    [words.template, `${inline(record.template ?? "")} (${inline(record.language ?? "")})`],
  ];
  return bullets(facts).join("\n");
}

export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${whole % 60}s`;
  return `${Math.floor(whole / 3600)}h ${Math.floor((whole % 3600) / 60)}m`;
}

function renderTimeline(hypotheses: readonly Hypothesis[], words: Words): string {
  if (hypotheses.length === 0) return "";
  return [`## ${words.timeline}`, ...hypotheses.map((each) => renderHypothesis(each, words))].join("\n\n");
}

function renderHypothesis(hypothesis: Hypothesis, words: Words): string {
  const { text, state, probability, transitions, supporting_evidence, evidence, reviews, rejected_reason } =
    hypothesis;
  const chance = probability === null ? "" : `, ${words.probability} ${percent(probability)}`;
  return [
    `### ${inline(label(hypothesis))}: ${state}${chance}`,
    [
      `- ${inline(text)}`,
      ...transitions.map(({ round, from, to, agent, note }) => {
        const change = from === null ? `${words.proposedAs} ${to}` : `${from} → ${to}`;
        const when = round === 0 ? words.beforeRun : `${words.round} ${round}`;
        return `- ${when}, ${inline(agent)}: ${change}${note === "" ? "" : ` (${inline(note)})`}`;
      }),
      ...supporting_evidence.map((line) => {
        // Runs of before the check say nothing about a line.
        const checked = evidence.find(({ text }) => text === line);
        const note = checked === undefined ? "" : ` (${explainEvidence(checked.status, words.language)})`;
        return `- ${words.evidence}: ${inline(line)}${note}`;
      }),
      ...reviews.map((each) => renderReview(each, words)),
      ...(rejected_reason === null ? [] : [`- ${words.rejectedBecause}: ${inline(rejected_reason)}`]),
    ].join("\n"),
  ].join("\n\n");
}

function renderReview(review: Review, words: Words): string {
  const { round, agent, verdict, reason, evidence, new_evidence } = review;
  const agreement = verdict === "accepted" && !new_evidence ? `, ${words.noNewEvidence}` : "";
  const lines = evidence.map((line) =>
    `${inline(line.text)} (${explainEvidence(line.status, words.language)})`
  );
  const said = [inline(reason), ...lines].filter((each) => each !== "").join("; ");
  return `- ${words.review}, ${words.round.toLowerCase()} ${round}, ${inline(agent)}: ${
    verdict.replace("_", " ")
  }${agreement}${said === "" ? "" : ` (${said})`}`;
}

function label({ id }: Hypothesis): string {
  return /^h-/i.test(id) ? id : `H-${id}`;
}

function renderSummary(record: ReadRecord, words: Words): string {
  const { events, hypotheses, status } = record;
  const decision = fieldsOf(lastDecision(events));
  const { rounds } = amountsOf(record);
  const found = hypotheses.map((each) => `${inline(label(each))} (${each.state}): ${inline(each.text)}`);
  const facts: Facts = [
    [words.finalStatus, inline(textOf(decision.status)) || (status ?? words.unknown)],
    [words.outcome, outcomeOf(decision, words)],
    [words.confidence, confidenceOf(decision, words)],
    [words.risk, inline(textOf(decision.risk_level))],
    [words.rounds, rounds === 0 ? "" : String(rounds)],
    [words.leading, inline(textOf(decision.leading_hypothesis))],
    [words.fix, inline(textOf(decision.recommended_fix)) || words.none],
    [words.nextStep, inline(textOf(decision.next_step))],
  ];
  const lines = bullets(facts);
  if (found.length > 0) {
    lines.push([`- **${words.hypotheses}:**`, ...found.map((each) => `  - ${each}`)].join("\n"));
  }
  return `## ${words.summary}\n\n${rounds === 0 ? `${words.noDecision}\n\n` : ""}${lines.join("\n")}`;
}

function renderCost({ token_totals, cost_estimate }: ReadRecord, words: Words): string {
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
    `| ${[words.agent, words.input, words.output, words.total, words.cost].join(" | ")} |`,
    "| --- | ---: | ---: | ---: | ---: |",
    ...Object.entries(byNode).map(([node, usage]) =>
      row(inline(node), usage, fieldsOf(costByNode[node]).estimated_usd)
    ),
    row(`**${words.total}**`, fieldsOf(token_totals).total, cost.total_usd),
  ].join("\n");
  const isPriced = Object.keys(byNode).every((node) =>
    numberOf(fieldsOf(costByNode[node]).estimated_usd) !== undefined
  );
  const notes = [
    isPriced ? "" : words.noPrice,
    fieldsOf(fieldsOf(token_totals).total).estimated === true ? words.estimated : "",
  ].filter((note) => note !== "").map((note) => `\n\n*${note}*`);
  return `## ${words.tokens}\n\n${table}${notes.join("")}`;
}

function dollars(value: unknown): string {
  const number = numberOf(value);
  return number === undefined ? "–" : `$${number.toFixed(4)}`;
}
