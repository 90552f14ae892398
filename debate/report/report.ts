import { explainEvidence } from "../engine/graph/decision.ts";
import { isWithdrawal } from "../engine/graph/hypotheses.ts";
import type { Hypothesis, Review } from "../engine/graph/state.ts";
import { amountsOf, lastDecision, type ReadRecord, type StoredEvent } from "../runs/record.ts";
import { embedded, fenced, inline } from "./markdown_text.ts";
import { fieldsOf, formatDuration, numberOf, textOf, textsOf } from "../engine/graph/text.ts";
import { type Texts, textsFor } from "./texts.ts";

export function renderReport(record: ReadRecord): string {
  return `${Object.values(renderParts(record)).join("\n\n")}\n`;
}

/** The parts of a report. The answer comes first. */
export function renderParts(record: ReadRecord) {
  const texts = textsFor(record.language ?? "");
  const details = [
    renderFacts(record, texts),
    renderTranscript(record.events, texts),
    renderTimeline(record.hypotheses, texts),
    renderCost(record, texts),
  ];
  return {
    title: `# ${texts.title}: ${inline(record.topic ?? "") || texts.noTopic}`,
    answer: renderSummary(record, texts),
    details: details.filter((section) => section !== "").join("\n\n"),
  };
}

export function reportFileName(runId: string): string {
  return `diagnosis-${runId.slice(0, 8)}.md`;
}

function renderFacts(record: ReadRecord, texts: Texts): string {
  const { models, reasoning_effort: efforts } = record;
  const thinking = Object.entries(efforts).filter(([, effort]) => effort !== "none" && effort !== "");
  const facts: Facts = [
    [texts.run, inline(record.run_id)],
    [texts.started, inline(record.timestamp ?? "")],
    [texts.ended, inline(record.finished_at ?? "")],
    [texts.duration, record.duration_seconds === null ? "" : formatDuration(record.duration_seconds)],
    [texts.status, record.status === null ? "" : texts[record.status]],
    [texts.resumedFrom, inline(record.parent_run_id ?? "")],
    [texts.diagnosticModel, inline(models?.diagnostic ?? "")],
    [texts.skepticModel, inline(models?.skeptic ?? "")],
    [texts.moderatorModel, inline(models?.moderator ?? "")],
    [texts.mode, record.mode === "sample_then_debate" ? texts.sampleThenDebate : ""],
    [texts.thinking, thinking.map(([role, effort]) => `${role} ${inline(effort)}`).join(", ")],
    [texts.template, `${inline(record.template ?? "")} (${inline(record.language ?? "")})`],
  ];
  // Without a heading, Markdown would join this list with the list of the answer.
  return [`## ${texts.run}\n`, ...bullets(facts)].join("\n");
}

function renderTimeline(hypotheses: readonly Hypothesis[], texts: Texts): string {
  if (hypotheses.length === 0) return "";
  return [`## ${texts.timeline}`, ...hypotheses.map((each) => renderHypothesis(each, texts))].join("\n\n");
}

function renderHypothesis(hypothesis: Hypothesis, texts: Texts): string {
  const { text, state, probability, transitions, supporting_evidence, evidence, reviews, rejected_reason } =
    hypothesis;
  const { word } = texts;
  const chance = probability === null ? "" : `, ${texts.probability} ${percent(probability)}`;
  return [
    `### ${inline(label(hypothesis))}: ${word(state)}${chance}`,
    [
      `- ${inline(text)}`,
      ...transitions.map(({ round, from, to, agent, note }) => {
        const change = from === null ? `${texts.proposedAs} ${word(to)}` : `${word(from)} → ${word(to)}`;
        const when = round === 0 ? texts.beforeRun : `${texts.round} ${round}`;
        return `- ${when}, ${inline(agent)}: ${change}${note === "" ? "" : ` (${inline(note)})`}`;
      }),
      ...supporting_evidence.map((line) => {
        // Records of older versions have no status of a line.
        const checked = evidence.find(({ text }) => text === line);
        const note = checked === undefined ? "" : ` (${explainEvidence(checked.status, texts.language)})`;
        return `- ${texts.evidence}: ${inline(line)}${note}`;
      }),
      ...reviews.map((each) => renderReview(each, hypothesis, texts)),
      ...(rejected_reason === null ? [] : [`- ${texts.rejectedBecause}: ${inline(rejected_reason)}`]),
    ].join("\n"),
  ].join("\n\n");
}

function renderReview(review: Review, hypothesis: Hypothesis, texts: Texts): string {
  const { round, agent, verdict, reason, evidence } = review;
  const lines = evidence.map((line) =>
    `${inline(line.text)} (${explainEvidence(line.status, texts.language)})`
  );
  const said = [inline(reason), ...lines].filter((each) => each !== "").join("; ");
  const note = noteOf(review, hypothesis, texts);
  return `- ${texts.review}, ${texts.round.toLowerCase()} ${round}, ${inline(agent)}: ${texts.word(verdict)}${
    note && `, ${note}`
  }${said === "" ? "" : ` (${said})`}`;
}

function noteOf(review: Review, hypothesis: Hypothesis, texts: Texts): string {
  const { verdict, evidence, new_evidence } = review;
  if (verdict === "accepted") return new_evidence ? "" : texts.noNewEvidence;
  if (verdict === "rejected" && isWithdrawal(hypothesis, review)) return texts.withdrawn;
  return evidence.some(({ status }) => status === "grounded") ? "" : texts.opinion;
}

function label({ id }: Hypothesis): string {
  return /^h-/i.test(id) ? id : `H-${id}`;
}

function renderSummary(record: ReadRecord, texts: Texts): string {
  const { events, hypotheses, status } = record;
  const decision = fieldsOf(lastDecision(events));
  const { rounds } = amountsOf(record);
  const lead = hypotheses.find(({ id }) => id === fieldsOf(decision.grounding).hypothesis_id);
  const found = hypotheses.map((each) =>
    `${inline(label(each))} (${texts.word(each.state)}): ${inline(each.text)}`
  );
  const answer: Facts = [
    [texts.note, record.imported ? texts.imported : ""],
    [texts.outcome, outcomeOf(decision, texts) || texts.unknown],
    [
      texts.leading,
      inline(lead === undefined ? textOf(decision.leading_hypothesis) : `${label(lead)}: ${lead.text}`),
    ],
    [texts.confidence, confidenceOf(decision, texts)],
  ];
  const steps: Facts = [
    [texts.nextStep, inline(textOf(decision.next_step))],
    [texts.fix, inline(textOf(decision.recommended_fix)) || texts.none],
    [texts.risk, texts.word(inline(textOf(decision.risk_level)))],
    [texts.finalStatus, inline(textOf(decision.status)) || (status ?? texts.unknown)],
    [texts.rounds, rounds === 0 ? "" : String(rounds)],
  ];
  const checked = (lead?.evidence ?? []).map(({ text, status }) =>
    `${inline(text)} (${explainEvidence(status, texts.language)})`
  );
  const lines = [
    ...bullets(answer),
    ...lists([[texts.evidence, checked]]),
    ...bullets(steps),
    ...lists([[texts.hypotheses, found]]),
  ];
  return `## ${texts.summary}\n\n${rounds === 0 ? `${texts.noDecision}\n\n` : ""}${lines.join("\n")}`;
}

function renderCost({ token_totals, cost_estimate }: ReadRecord, texts: Texts): string {
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
    `| ${[texts.agent, texts.input, texts.output, texts.total, texts.cost].join(" | ")} |`,
    "| --- | ---: | ---: | ---: | ---: |",
    ...Object.entries(byNode).map(([node, usage]) =>
      row(inline(node), usage, fieldsOf(costByNode[node]).estimated_usd)
    ),
    row(`**${texts.total}**`, fieldsOf(token_totals).total, cost.total_usd),
  ].join("\n");
  const isPriced = Object.keys(byNode).every((node) =>
    numberOf(fieldsOf(costByNode[node]).estimated_usd) !== undefined
  );
  const notes = [
    isPriced ? "" : texts.noPrice,
    fieldsOf(fieldsOf(token_totals).total).estimated === true ? texts.estimated : "",
  ].filter((note) => note !== "").map((note) => `\n\n*${note}*`);
  return `## ${texts.tokens}\n\n${table}${notes.join("")}`;
}

function dollars(value: unknown): string {
  const number = numberOf(value);
  return number === undefined ? "–" : `$${number.toFixed(4)}`;
}

function renderTranscript(events: readonly StoredEvent[], texts: Texts): string {
  const resolved = events.filter(({ type }) => type === "tool_approval_resolved");
  const decided = new Map(resolved.map((event) => [textOf(event.call_id), event]));
  const sections: string[] = [];
  let round = 0;
  for (const event of events) {
    // A round starts after the decision to continue.
    if (round === 0 && event.type === "run_started") sections.push(`## ${texts.round} ${round = 1}`);
    sections.push(...renderEvent(event, decided, texts));
    const next = numberOf(event.round) ?? round;
    const goesOn = event.type === "moderator_decision" && next > round;
    if (goesOn) sections.push(`## ${texts.round} ${round = next}`);
  }
  return sections.join("\n\n");
}

function renderEvent(
  event: StoredEvent,
  decided: ReadonlyMap<string, StoredEvent>,
  texts: Texts,
): readonly string[] {
  const { type, content } = event;
  switch (type) {
    case "run_resumed":
      return [`*${texts.resumes} ${inline(textOf(event.parent_run_id))}.*`];
    case "run_started": {
      const rounds = String(numberOf(event.max_rounds) ?? "?");
      return [`> ${texts.rules(rounds, percent(numberOf(event.confidence_threshold)))}`];
    }
    case "agent_reasoning":
      return [`### ${roleOf(event, texts)}, ${texts.beforeTools}`, embedded(textOf(content))];
    case "agent_completed":
      return [
        `### ${roleOf(event, texts)}${mark(" ", event.sample)}${
          event.partial === true ? ` (${texts.brokenOff})` : ""
        }`,
        embedded(textOf(content)),
      ];
    case "samples_compared":
      return [`*${inline(textOf(event.reason))}.*`];
    case "run_warning":
      return [`**${texts.note}:** ${inline(textOf(event.message))}`];
    case "agent_skipped": {
      const why = inline(textOf(event.rationale));
      return [`*${roleOf(event, texts)} ${texts.skipped}${why === "" ? "" : `: ${why}`}.*`];
    }
    case "tool_call":
      return renderToolCall(event, decided.get(textOf(event.call_id)), texts);
    case "moderator_decision":
      return [`### ${texts.decision}`, renderDecision(event, texts)];
    case "history_compressed":
      return [
        `*${texts.summarized(String(numberOf(event.round) ?? texts.here))}*`,
        embedded(textOf(event.summary)),
      ];
    case "user_comment":
      return textOf(content) === "" ? [] : [`### ${texts.operator}`, embedded(textOf(content))];
    case "reasoning_effort_ignored":
      return [`*${roleOf(event, texts)}: ${inline(textOf(event.model))} ${texts.noEffort}.*`];
    case "error":
      return [`**${texts.error}:** ${inline(textOf(event.message))}`];
    case "run_cancelled":
      return [`*${texts.stopped}*`];
    default:
      return [];
  }
}

function renderToolCall(
  event: StoredEvent,
  answer: StoredEvent | undefined,
  texts: Texts,
): readonly string[] {
  const duration = numberOf(event.duration_ms);
  const { proposed_args: proposed } = event;
  const shown = (args: unknown) => fenced(JSON.stringify(args, null, 2), "json");
  const notes = [
    roleOf(event, texts),
    event.error === true ? texts.failed : texts.word(inline(textOf(event.approval))),
    duration === undefined || event.cached === true ? "" : `${duration} ms`,
  ];
  const asked = answer === undefined || textOf(answer.timestamp) === "" ? [] : [
    `*${texts.operator}: ${texts.word(inline(textOf(answer.resolution)))}${
      answer.remembered === true ? ` (${texts.forRun})` : ""
    } ${texts.at} ${inline(textOf(answer.timestamp))}.*`,
  ];
  return [
    `#### ${texts.tool}: ${inline(textOf(event.tool_name))}${mark(" #", event.number)} (${
      notes.filter((note) => note !== "").join(", ")
    })`,
    ...asked,
    ...(proposed === undefined ? [] : [`*${texts.requested}:*`, shown(proposed), `*${texts.changed}:*`]),
    shown(event.args ?? {}),
    fenced(textOf(event.result)),
  ];
}

function renderDecision(event: StoredEvent, texts: Texts): string {
  const decision = fieldsOf(event.decision);
  const flow = fieldsOf(decision.flow_directive);
  const skipped = [
    flow.skip_skeptic === true ? texts.withoutSkeptic : "",
    flow.skip_rebuttal === true ? texts.withoutRebuttal : "",
  ].filter((each) => each !== "");
  const why = inline(textOf(flow.rationale));
  const facts: Facts = [
    [texts.status, inline(textOf(decision.status))],
    [texts.confidence, confidenceOf(decision, texts)],
    [texts.risk, texts.word(inline(textOf(decision.risk_level)))],
    [texts.earlyEnd, event.early_out_confirmed === true ? texts.agreed : ""],
    [texts.nextRound, skipped.length === 0 ? "" : `${skipped.join(", ")}${why === "" ? "" : ` (${why})`}`],
    [texts.leading, inline(textOf(decision.leading_hypothesis))],
    [texts.nextStep, inline(textOf(decision.next_step))],
    [texts.fix, inline(textOf(decision.recommended_fix))],
    [texts.stopReason, inline(textOf(decision.stop_reason))],
  ];
  const inlined = (value: unknown) => textsOf(value).map(inline);
  return [
    ...bullets(facts),
    ...lists([
      [texts.statedEvidence, inlined(decision.evidence)],
      [texts.missingEvidence, inlined(decision.missing_evidence)],
      [texts.rejected, inlined(decision.rejected_hypotheses)],
      [texts.validation, inlined(decision.validation)],
    ]),
  ].join("\n");
}

function roleOf({ role, agent_role, node, agent_node }: StoredEvent, texts: Texts): string {
  const name = textOf(role) || textOf(agent_role) || textOf(node) || textOf(agent_node);
  return inline(texts.word(name)) || texts.agent;
}

export function percent(share: number | undefined): string {
  return share === undefined ? "" : `${Math.round(share * 100)}%`;
}

/** The confidence of a decision, and the reason of its limit. */
function confidenceOf(decision: Readonly<Record<string, unknown>>, texts: Texts): string {
  const confidence = numberOf(decision.confidence);
  const { stated_confidence, reason } = fieldsOf(decision.grounding);
  const stated = numberOf(stated_confidence);
  const limited = stated !== undefined && stated > (confidence ?? 1);
  const why = `${limited ? `${percent(stated)} ${texts.stated}; ` : ""}${textOf(reason)}`;
  return why === "" ? percent(confidence) : `${percent(confidence)} (${inline(why)})`;
}

type Facts = readonly (readonly [name: string, value: string])[];

/** Lists the facts that have a value. */
function bullets(facts: Facts): string[] {
  return facts.filter(([, value]) => value !== "").map(([name, value]) => `- **${name}:** ${value}`);
}

/** Lists the lists that have entries. */
function lists(named: readonly (readonly [name: string, entries: readonly string[]])[]): string[] {
  return named.filter(([, entries]) => entries.length > 0)
    .map(([name, entries]) => [`- **${name}:**`, ...entries.map((entry) => `  - ${entry}`)].join("\n"));
}

function mark(sign: string, number: unknown): string {
  const known = numberOf(number);
  return known === undefined ? "" : `${sign}${known}`;
}

function outcomeOf({ grounding }: Readonly<Record<string, unknown>>, texts: Texts): string {
  const { outcome } = fieldsOf(grounding);
  return outcome === "cause" || outcome === "no_confident_cause" ? texts[outcome] : "";
}
