/**
 * What a run came to, as Markdown: hypotheses with their history, the last decision, tokens and cost.
 *
 * @module
 */
import type { Hypothesis } from "../graph/state.ts";
import type { ReadRecord } from "../runs/record.ts";
import { inline } from "./markdown_text.ts";
import { percent } from "./transcript.ts";
import { fieldsOf, numberOf, textOf } from "./values.ts";

/** How each hypothesis came and went. */
export function renderTimeline(hypotheses: readonly Hypothesis[]): string {
  if (hypotheses.length === 0) return "";
  return ["## Hypothesis timeline", ...hypotheses.map(renderHypothesis)].join("\n\n");
}

function renderHypothesis(hypothesis: Hypothesis): string {
  const { text, state, probability, transitions, supporting_evidence, rejected_reason } = hypothesis;
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
      ...supporting_evidence.map((evidence) => `- Evidence: ${inline(evidence)}`),
      ...(rejected_reason === null ? [] : [`- Rejected because: ${inline(rejected_reason)}`]),
    ].join("\n"),
  ].join("\n\n");
}

function label({ id }: Hypothesis): string {
  return /^h-/i.test(id) ? id : `H-${id}`;
}

/** The last decision, in short. */
export function renderSummary({ events, hypotheses, status }: ReadRecord): string {
  const last = events.findLast(({ type }) => type === "moderator_decision");
  const decision = fieldsOf(last?.decision);
  const rounds = events.filter(({ type }) => type === "moderator_decision").length;
  const found = hypotheses.map((each) => `${inline(label(each))} (${each.state}): ${inline(each.text)}`);
  const facts: readonly (readonly [string, string])[] = [
    ["Final status", inline(textOf(decision.status)) || (status ?? "unknown")],
    ["Confidence", percent(numberOf(decision.confidence))],
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

/** Tokens by agent, and what they cost. */
export function renderCost({ token_totals, cost_estimate }: ReadRecord): string {
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
