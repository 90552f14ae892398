import { explainEvidence } from "../engine/graph/decision.ts";
import type { Hypothesis, Review } from "../engine/graph/state.ts";
import { amountsOf, lastDecision, type ReadRecord, type StoredEvent } from "../runs/record.ts";
import { embedded, fenced, inline } from "./markdown_text.ts";
import { fieldsOf, numberOf, textOf, textsOf } from "../engine/graph/text.ts";
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

function renderTranscript(events: readonly StoredEvent[], words: Words): string {
  const resolved = events.filter(({ type }) => type === "tool_approval_resolved");
  const decided = new Map(resolved.map((event) => [textOf(event.call_id), event]));
  const sections: string[] = [];
  let round = 0;
  for (const event of events) {
    // A round begins with what follows the decision to continue.
    if (round === 0 && event.type === "run_started") sections.push(`## ${words.round} ${round = 1}`);
    sections.push(...renderEvent(event, decided, words));
    const next = numberOf(event.round) ?? round;
    const goesOn = event.type === "moderator_decision" && next > round;
    if (goesOn) sections.push(`## ${words.round} ${round = next}`);
  }
  return sections.join("\n\n");
}

function renderEvent(
  event: StoredEvent,
  decided: ReadonlyMap<string, StoredEvent>,
  words: Words,
): readonly string[] {
  const { type, content } = event;
  switch (type) {
    case "run_resumed":
      return [`*${words.resumes} ${inline(textOf(event.parent_run_id))}.*`];
    case "run_started": {
      const rounds = String(numberOf(event.max_rounds) ?? "?");
      return [`> ${words.rules(rounds, percent(numberOf(event.confidence_threshold)))}`];
    }
    case "agent_reasoning":
      return [`### ${roleOf(event, words)}, ${words.beforeTools}`, embedded(textOf(content))];
    case "agent_completed":
      return [
        `### ${roleOf(event, words)}${mark(" ", event.sample)}${
          event.partial === true ? ` (${words.brokenOff})` : ""
        }`,
        embedded(textOf(content)),
      ];
    case "samples_compared":
      return [`*${inline(textOf(event.reason))}.*`];
    case "run_warning":
      return [`**${words.note}:** ${inline(textOf(event.message))}`];
    case "agent_skipped": {
      const why = inline(textOf(event.rationale));
      return [`*${roleOf(event, words)} ${words.skipped}${why === "" ? "" : `: ${why}`}.*`];
    }
    case "tool_call":
      return renderToolCall(event, decided.get(textOf(event.call_id)), words);
    case "moderator_decision":
      return [`### ${words.decision}`, renderDecision(event, words)];
    case "history_compressed":
      return [
        `*${words.summarised(String(numberOf(event.round) ?? words.here))}*`,
        embedded(textOf(event.summary)),
      ];
    case "user_comment":
      return textOf(content) === "" ? [] : [`### ${words.operator}`, embedded(textOf(content))];
    case "reasoning_effort_ignored":
      return [`*${roleOf(event, words)}: ${inline(textOf(event.model))} ${words.noEffort}.*`];
    case "error":
      return [`**${words.error}:** ${inline(textOf(event.message))}`];
    case "run_cancelled":
      return [`*${words.stopped}*`];
    default:
      return [];
  }
}

function renderToolCall(
  event: StoredEvent,
  answer: StoredEvent | undefined,
  words: Words,
): readonly string[] {
  const duration = numberOf(event.duration_ms);
  const notes = [
    roleOf(event, words),
    event.error === true ? words.failed : inline(textOf(event.approval)),
    duration === undefined || event.cached === true ? "" : `${duration} ms`,
  ];
  const asked = answer === undefined || textOf(answer.timestamp) === "" ? [] : [
    `*${words.operator}: ${inline(textOf(answer.resolution))}${
      answer.remembered === true ? ` (${words.forRun})` : ""
    } ${words.at} ${inline(textOf(answer.timestamp))}.*`,
  ];
  return [
    `#### ${words.tool}: ${inline(textOf(event.tool_name))}${mark(" #", event.number)} (${
      notes.filter((note) => note !== "").join(", ")
    })`,
    ...asked,
    fenced(JSON.stringify(event.args ?? {}, null, 2), "json"),
    fenced(textOf(event.result)),
  ];
}

function renderDecision(event: StoredEvent, words: Words): string {
  const decision = fieldsOf(event.decision);
  const flow = fieldsOf(decision.flow_directive);
  const skipped = [
    flow.skip_skeptic === true ? words.withoutSkeptic : "",
    flow.skip_rebuttal === true ? words.withoutRebuttal : "",
  ].filter((each) => each !== "");
  const why = inline(textOf(flow.rationale));
  const facts: Facts = [
    [words.status, inline(textOf(decision.status))],
    [words.confidence, confidenceOf(decision, words)],
    [words.risk, inline(textOf(decision.risk_level))],
    [words.earlyEnd, event.early_out_confirmed === true ? words.agreed : ""],
    [words.nextRound, skipped.length === 0 ? "" : `${skipped.join(", ")}${why === "" ? "" : ` (${why})`}`],
    [words.leading, inline(textOf(decision.leading_hypothesis))],
    [words.nextStep, inline(textOf(decision.next_step))],
    [words.fix, inline(textOf(decision.recommended_fix))],
    [words.stopReason, inline(textOf(decision.stop_reason))],
  ];
  const lists: readonly (readonly [string, readonly string[]])[] = [
    [words.statedEvidence, textsOf(decision.evidence)],
    [words.missingEvidence, textsOf(decision.missing_evidence)],
    [words.rejected, textsOf(decision.rejected_hypotheses)],
    [words.validation, textsOf(decision.validation)],
  ];
  return [
    ...bullets(facts),
    ...lists.filter(([, items]) => items.length > 0).map(([name, items]) =>
      [`- **${name}:**`, ...items.map((item) => `  - ${inline(item)}`)].join("\n")
    ),
  ].join("\n");
}

function roleOf({ role, agent_role, node, agent_node }: StoredEvent, words: Words): string {
  return inline(textOf(role) || textOf(agent_role) || textOf(node) || textOf(agent_node)) || words.agent;
}

export function percent(share: number | undefined): string {
  return share === undefined ? "" : `${Math.round(share * 100)}%`;
}

function confidenceOf(decision: Readonly<Record<string, unknown>>, words: Words): string {
  const [confidence, why] = confidencePartsOf(decision, words);
  return why === "" ? confidence : `${confidence} (${inline(why)})`;
}

/** The confidence of a decision, and why it is limited. */
export function confidencePartsOf(decision: Readonly<Record<string, unknown>>, words: Words) {
  const confidence = numberOf(decision.confidence);
  const { stated_confidence, reason } = fieldsOf(decision.grounding);
  const stated = numberOf(stated_confidence);
  const limited = stated !== undefined && stated > (confidence ?? 1);
  const why = `${limited ? `${percent(stated)} ${words.stated}; ` : ""}${textOf(reason)}`;
  return [percent(confidence), why] as const;
}

export type Facts = readonly (readonly [name: string, value: string])[];

/** A list of the facts that have a value. */
function bullets(facts: Facts): string[] {
  return facts.filter(([, value]) => value !== "").map(([name, value]) => `- **${name}:** ${value}`);
}

function mark(sign: string, number: unknown): string {
  const known = numberOf(number);
  return known === undefined ? "" : `${sign}${known}`;
}

export function outcomeOf({ grounding }: Readonly<Record<string, unknown>>, words: Words): string {
  const { outcome } = fieldsOf(grounding);
  return outcome === "cause" || outcome === "no_confident_cause" ? words[outcome] : "";
}
