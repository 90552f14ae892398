import type { JSX } from "preact";
import { useErrorBoundary } from "preact/hooks";
import { Badge, Icon, type IconName, Problem, type Tone, VisibleText } from "@gateway/shared/ui";
import type { Decision } from "../../engine/graph/state.ts";
import { type AgentPart, readAgentText } from "./agent_text.ts";
import { CallList } from "./calls.tsx";
import { CodeBlock } from "./code_block.tsx";
import { percent } from "./format.ts";
import { LANGUAGE, t } from "./language.ts";
import { HypothesisId, Markdown } from "./markdown.tsx";
import type { TimedEvent } from "./summary.ts";
import { type CallEvent, isCall, type Row } from "./thread.ts";

interface RowProps<Kind extends Row["kind"] = Row["kind"]> {
  readonly row: Extract<Row, { readonly kind: Kind }>;
  /** The text that the agent of this turn writes. */
  readonly live?: string | undefined;
  readonly isOver: boolean;
  /** The models of an imported run can be anything. */
  readonly models: Readonly<Record<string, unknown>>;
}

/** A row of the conversation. Its failure hides no other row. */
export function ThreadRow(props: RowProps): JSX.Element {
  const [error] = useErrorBoundary();
  const { row } = props;
  if (error !== undefined) {
    const event = row.kind === "event" ? row.event : row.kind === "turn" ? row.events.at(-1) : undefined;
    return <Note tag="li" note={unknownNote(event)} />;
  }
  switch (row.kind) {
    case "round":
      return (
        <li class="round row">
          <h3>{t("Round {round}", { round: row.round })}</h3>
        </li>
      );
    case "turn":
      return <TurnRow {...props} row={row} />;
    case "event":
      return <EventRow event={row.event} />;
    default:
      return row satisfies never;
  }
}

function TurnRow({ row, live, isOver, models }: RowProps<"turn">): JSX.Element {
  const { role, events, tokens, isDone } = row;
  const end = events.findLast((each) => each.type === "agent_completed");
  const name = end?.sample === undefined
    ? t(role)
    : t("{role}, diagnosis {number}", { role: t(role), number: end.sample });
  const time = new Date(events[0]?.timestamp ?? "");
  const [style = "other", key = ""] = SPEAKERS.get(role) ?? [];
  const model = models[key];
  return (
    <li class={`turn card by-${style}`}>
      <div class="speaker row">
        <span class="avatar" aria-hidden="true">{name.slice(0, 1)}</span>
        <h3>
          <VisibleText text={name} lines />
        </h3>
        {end?.partial && <Badge tone="warn">{t("stopped")}</Badge>}
        <span class="note">
          {typeof model === "string" && <VisibleText text={model} limit={80} lines />}{" "}
          {tokens !== undefined && (
            <span class="count">{t("{count} tokens", { count: tokens.toLocaleString(LANGUAGE) })}</span>
          )}
        </span>
        {!Number.isNaN(time.getTime()) && (
          <time class="note count" dateTime={time.toISOString()} title={time.toLocaleString(LANGUAGE)}>
            {time.toLocaleTimeString(LANGUAGE, { hour: "2-digit", minute: "2-digit" })}
          </time>
        )}
      </div>
      {partsOf(events).map((part, index) =>
        Array.isArray(part)
          ? <CallList key={index} calls={part} isDone={isDone} isOver={isOver} />
          : <TurnEvent key={index} event={part} />
      )}
      {live === "" ? <p class="note thinking">{t("Thinking")}</p> : <AgentText text={live ?? ""} />}
    </li>
  );
}

function TurnEvent({ event }: { readonly event: TimedEvent }): JSX.Element {
  switch (event.type) {
    case "agent_reasoning":
    case "agent_completed":
      return <AgentText text={String(event.content)} />;
    case "user_comment":
      return <Markdown text={event.content} />;
    case "moderator_decision":
      return <DecisionFacts decision={event.decision} />;
    default:
      return <Note note={noteOf(event)} />;
  }
}

/** Consecutive calls are one part. */
function partsOf(events: readonly TimedEvent[]): readonly (TimedEvent | CallEvent[])[] {
  const parts: (TimedEvent | CallEvent[])[] = [];
  for (const event of events) {
    const last = parts.at(-1);
    if (!isCall(event)) parts.push(event);
    else if (Array.isArray(last)) last.push(event);
    else parts.push([event]);
  }
  return parts;
}

/** The color of a speaker, and the key of its model. */
const SPEAKERS = new Map<unknown, readonly [style: string, model: string]>([
  ["Primary Diagnosis", ["diagnostic_agent", "diagnostic"]],
  ["Skeptical Reviewer", ["skeptic_agent", "skeptic"]],
  ["Rebuttal", ["diagnostic_rebuttal_agent", "diagnostic"]],
  ["Moderator", ["moderator_agent", "moderator"]],
  ["Operator", ["operator", ""]],
]);

/** The text of an agent with its hypotheses and reviews as blocks. */
function AgentText({ text }: { readonly text: string }): JSX.Element {
  return <>{readAgentText(text).map((part, index) => <TextPart key={index} part={part} />)}</>;
}

const VERDICTS = { accepted: "good", rejected: "bad", needs_evidence: "warn" } as const;

function TextPart({ part: { kind, id = "", share, text } }: { readonly part: AgentPart }): JSX.Element {
  if (kind === "text") return <Markdown text={text} />;
  if (kind === "end") {
    const confidence = share === undefined ? "" : ` (${percent(share)})`;
    const reason = text === "" ? "" : `: ${text}`;
    return <Note note={["check", t("Recommends to end the debate") + confidence + reason]} />;
  }
  return (
    <div class="block stack tight">
      <p class="row">
        <HypothesisId id={id} />
        {kind === "hypothesis"
          ? <span class="unseen">{t("Hypothesis")}</span>
          : <Badge tone={VERDICTS[kind]}>{t(kind)}</Badge>}
        {share !== undefined && (
          <span class="share row">
            <span class="unseen">{t("Probability")}</span>
            {percent(share)}
          </span>
        )}
      </p>
      {text !== "" && <Markdown text={text} />}
    </div>
  );
}

/** A row that is not the turn of an agent. */
function EventRow({ event }: { readonly event: TimedEvent }): JSX.Element {
  switch (event.type) {
    case "samples_compared": {
      const { diagnoses: count, reason, votes, content } = event;
      const leads = votes.map(({ id, votes }) =>
        `- [hypothesis:${id}] ${t("leads in {votes} of {count}", { votes, count })}`
      );
      return (
        <li class="turn card">
          <h3>{t("{count} independent diagnoses compared", { count })}</h3>
          <AgentText text={[reason, leads.join("\n"), content].join("\n\n")} />
        </li>
      );
    }
    case "history_compressed":
    case "final_result":
      return (
        <li class="folded">
          <details class="more">
            <summary>
              <h3>
                {event.type === "final_result" ? t("Final result") : t("Summary of the earlier rounds")}
              </h3>
            </summary>
            {event.type === "final_result"
              ? <CodeBlock text={event.content} />
              : <Markdown text={event.summary} />}
          </details>
        </li>
      );
    case "error":
      return (
        <li>
          <Problem>
            <VisibleText text={event.message} lines />
          </Problem>
        </li>
      );
    default:
      return <Note tag="li" note={noteOf(event)} />;
  }
}

type NoteText = readonly [IconName, string];

/** An event in one quiet line. */
function Note(
  { note: [icon, text], tag: Tag = "p" }: { readonly note: NoteText; readonly tag?: "p" | "li" },
): JSX.Element {
  return (
    <Tag class="event note row">
      <Icon name={icon} />
      <span>
        <VisibleText text={text} lines />
      </span>
    </Tag>
  );
}

function noteOf(event: TimedEvent): NoteText {
  switch (event.type) {
    case "run_resumed":
      return ["play", t("Continues run {id}.", { id: event.parent_run_id })];
    case "run_warning":
      return ["alert", event.message];
    case "agent_skipped":
      return ["pause", t("{role} was skipped: {why}", { role: t(event.agent_role), why: event.rationale })];
    case "tool_approval_revoked":
      return ["shield", t("{tool} needs approval again.", { tool: event.tool_name })];
    case "model_waiting":
      return [
        "clock",
        t("{model} limited the rate of requests. The call was repeated after {seconds} s.", event),
      ];
    case "reasoning_effort_ignored": {
      const role = t(event.agent_role);
      return ["alert", t("{role}: {model} has no reasoning effort to set.", { ...event, role })];
    }
    case "run_cancelled":
      return ["stop", t("The run was stopped.")];
    default:
      return unknownNote(event);
  }
}

/** The line of an event that is broken or newer than the page. */
function unknownNote(event: Partial<TimedEvent> | undefined): NoteText {
  return ["alert", t("This event cannot be shown: {type}", { type: event?.type || t("unknown") })];
}

const RISKS = new Map<string, Tone>([["low", "good"], ["medium", "warn"], ["high", "bad"]]);

function DecisionFacts({ decision }: { readonly decision: Decision }): JSX.Element {
  const { status, confidence, risk_level: risk, grounding } = decision;
  const isLowered = grounding !== undefined && grounding.stated_confidence > confidence;
  const stated = isLowered && t("{stated} was stated; ", { stated: percent(grounding.stated_confidence) });
  const first = factsOf([
    [t("Leading hypothesis"), decision.leading_hypothesis],
    [t("Next step"), decision.next_step],
    [t("Recommended fix"), decision.recommended_fix],
    [t("Reason for the end"), decision.stop_reason],
  ]);
  const rest = factsOf([
    [t("Confidence"), `${stated || ""}${grounding?.reason ?? ""}`],
    [t("Evidence, as the moderator states it"), decision.evidence],
    [t("Missing evidence"), decision.missing_evidence],
    [t("Rejected by the moderator"), decision.rejected_hypotheses],
    [t("Validation"), decision.validation],
  ]);
  return (
    <>
      <p class="row">
        <Badge tone={status === "continue" ? "accent" : "idle"}>{t(status)}</Badge>
        <span>{t("Confidence {share}", { share: percent(confidence) })}</span>
        {typeof risk === "string" && (
          <Badge tone={RISKS.get(risk) ?? "idle"}>{t("{risk} risk", { risk: t(risk) })}</Badge>
        )}
      </p>
      <dl class="facts">{first}</dl>
      {rest.length > 0 && (
        <details class="more">
          <summary>{t("Details")}</summary>
          <dl class="facts">{rest}</dl>
        </details>
      )}
    </>
  );
}

/** Names and values. Empty values are omitted, and arrays are lists. */
function factsOf(
  facts: readonly (readonly [name: string, value: string | readonly string[] | null | undefined])[],
): readonly JSX.Element[] {
  return facts.map(([name, value]) => [name, [value ?? []].flat().filter((each) => each !== "")] as const)
    .filter(([, values]) => values.length > 0)
    .map(([name, values]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>
          <ul>
            {values.map((each, index) => (
              <li key={index}>
                <VisibleText text={each} lines />
              </li>
            ))}
          </ul>
        </dd>
      </div>
    ));
}
