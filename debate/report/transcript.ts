/**
 * The events of a run in chronological order, as Markdown.
 *
 * @module
 */
import type { StoredEvent } from "../runs/record.ts";
import { embedded, fenced, inline } from "./markdown_text.ts";
import { fieldsOf, numberOf, textOf, textsOf } from "./values.ts";

/** What was said and done, round by round. */
export function renderTranscript(events: readonly StoredEvent[]): string {
  const decided = resolutions(events);
  const sections: string[] = [];
  let round = 0;
  for (const event of events) {
    // A round begins with what follows the decision to continue.
    if (round === 0 && event.type === "run_started") sections.push(`## Round ${round = 1}`);
    sections.push(...renderEvent(event, decided));
    const next = numberOf(event.round) ?? round;
    const goesOn = event.type === "moderator_decision" && next > round;
    if (goesOn) sections.push(`## Round ${round = next}`);
  }
  return sections.join("\n\n");
}

function renderEvent(event: StoredEvent, decided: ReadonlyMap<string, StoredEvent>): readonly string[] {
  const { type, content } = event;
  switch (type) {
    case "run_resumed":
      return [`*Resumes run ${inline(textOf(event.parent_run_id))}.*`];
    case "run_started":
      return [renderRules(event)];
    case "agent_reasoning":
      return [`### ${roleOf(event)}, before using tools`, embedded(textOf(content))];
    case "agent_completed":
      return [
        `### ${roleOf(event)}${event.partial === true ? " (broken off)" : ""}`,
        embedded(textOf(content)),
      ];
    case "agent_skipped": {
      const why = inline(textOf(event.rationale));
      return [`*${roleOf(event)} was skipped${why === "" ? "" : `: ${why}`}.*`];
    }
    case "tool_call":
      return renderToolCall(event, decided.get(textOf(event.call_id)));
    case "moderator_decision":
      return ["### Moderator decision", renderDecision(event)];
    case "history_compressed":
      return [
        `*The rounds up to ${numberOf(event.round) ?? "here"} were summarised:*`,
        embedded(textOf(event.summary)),
      ];
    case "user_comment":
      return textOf(content) === "" ? [] : ["### Operator", embedded(textOf(content))];
    case "reasoning_effort_ignored":
      return [`*${roleOf(event)}: ${inline(textOf(event.model))} has no reasoning effort to set.*`];
    case "error":
      return [`**Error:** ${inline(textOf(event.message))}`];
    case "run_cancelled":
      return ["*The run was stopped by the operator.*"];
    default:
      return [];
  }
}

function renderRules(event: StoredEvent): string {
  const rounds = numberOf(event.max_rounds);
  const confidence = numberOf(event.confidence_threshold);
  return `> At most ${rounds ?? "?"} rounds; a diagnosis needs a confidence of ${percent(confidence)}.`;
}

function renderToolCall(event: StoredEvent, answer: StoredEvent | undefined): readonly string[] {
  const duration = numberOf(event.duration_ms);
  const notes = [
    roleOf(event),
    event.error === true ? "ERROR" : inline(textOf(event.approval)),
    duration === undefined || event.cached === true ? "" : `${duration} ms`,
  ];
  const asked = answer === undefined || textOf(answer.timestamp) === ""
    ? []
    : [`*Operator: ${inline(textOf(answer.resolution))} at ${inline(textOf(answer.timestamp))}.*`];
  return [
    `#### Tool: ${inline(textOf(event.tool_name))}${numberMark(event)} (${
      notes.filter((note) => note !== "").join(", ")
    })`,
    ...asked,
    fenced(JSON.stringify(event.args ?? {}, null, 2), "json"),
    fenced(textOf(event.result)),
  ];
}

/** The number that evidence cites. */
function numberMark({ number }: StoredEvent): string {
  const known = numberOf(number);
  return known === undefined ? "" : ` #${known}`;
}

function resolutions(events: readonly StoredEvent[]): ReadonlyMap<string, StoredEvent> {
  return new Map(
    events.filter(({ type }) => type === "tool_approval_resolved").map((
      event,
    ) => [textOf(event.call_id), event]),
  );
}

function renderDecision(event: StoredEvent): string {
  const decision = fieldsOf(event.decision);
  const flow = fieldsOf(decision.flow_directive);
  const skipped = [
    flow.skip_skeptic === true ? "without the skeptic" : "",
    flow.skip_rebuttal === true ? "without the rebuttal" : "",
  ].filter((each) => each !== "");
  const why = inline(textOf(flow.rationale));
  const facts: readonly (readonly [string, string])[] = [
    ["Status", inline(textOf(decision.status))],
    ["Confidence", confidenceOf(decision)],
    ["Risk", inline(textOf(decision.risk_level))],
    ["Early end", event.early_out_confirmed === true ? "agreed with the diagnostic agent" : ""],
    ["Next round", skipped.length === 0 ? "" : `${skipped.join(", ")}${why === "" ? "" : ` (${why})`}`],
    ["Leading hypothesis", inline(textOf(decision.leading_hypothesis))],
    ["Next step", inline(textOf(decision.next_step))],
    ["Recommended fix", inline(textOf(decision.recommended_fix))],
    ["Stop reason", inline(textOf(decision.stop_reason))],
  ];
  const lists: readonly (readonly [string, readonly string[]])[] = [
    ["Evidence", textsOf(decision.evidence)],
    ["Missing evidence", textsOf(decision.missing_evidence)],
    ["Rejected hypotheses", textsOf(decision.rejected_hypotheses)],
    ["Validation", textsOf(decision.validation)],
  ];
  return [
    ...facts.filter(([, value]) => value !== "").map(([name, value]) => `- **${name}:** ${value}`),
    ...lists.filter(([, items]) => items.length > 0).map(([name, items]) =>
      [`- **${name}:**`, ...items.map((item) => `  - ${inline(item)}`)].join("\n")
    ),
  ].join("\n");
}

/** The agent's name for itself. */
function roleOf({ role, agent_role, node, agent_node }: StoredEvent): string {
  return inline(textOf(role) || textOf(agent_role) || textOf(node) || textOf(agent_node)) || "Agent";
}

/** `83%`; empty when the share is not known. */
export function percent(share: number | undefined): string {
  return share === undefined ? "" : `${Math.round(share * 100)}%`;
}

/** The confidence of a decision, with what limits it. */
export function confidenceOf(decision: Readonly<Record<string, unknown>>): string {
  const confidence = numberOf(decision.confidence);
  const { stated_confidence, reason } = fieldsOf(decision.grounding);
  const stated = numberOf(stated_confidence);
  const limited = stated !== undefined && stated > (confidence ?? 1) ? `${percent(stated)} was stated; ` : "";
  const why = `${limited}${inline(textOf(reason))}`;
  return why === "" ? percent(confidence) : `${percent(confidence)} (${why})`;
}
