import type { StoredEvent } from "../runs/record.ts";
import { embedded, fenced, inline } from "./markdown_text.ts";
import { fieldsOf, numberOf, textOf, textsOf } from "../engine/graph/json_objects.ts";
import type { Words } from "./words.ts";

export function renderTranscript(events: readonly StoredEvent[], words: Words): string {
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

export function confidenceOf(decision: Readonly<Record<string, unknown>>, words: Words): string {
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
export function bullets(facts: Facts): string[] {
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
