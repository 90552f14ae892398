import type { ComponentChildren, JSX } from "preact";
import { Badge, Problem, type Tone, VisibleText } from "@gateway/shared/ui";
import type { Decision } from "../../engine/graph/state.ts";
import { CodeBlock } from "./code_block.tsx";
import { EventNote } from "./event_note.tsx";
import { percent } from "./format.ts";
import { t } from "./language.ts";
import { HypothesisId } from "./mark_link.tsx";
import { Markdown } from "./markdown.tsx";
import type { TimedEvent } from "./summary.ts";
import { Speech } from "./speech.tsx";

/** A row that is not the turn of an agent. */
export function EventRow(
  { event, model }: { readonly event: TimedEvent; readonly model: string | undefined },
): JSX.Element {
  switch (event.type) {
    case "moderator_decision":
      return (
        <Speech
          node={event.node}
          role={t("Moderator")}
          timestamp={event.timestamp}
          facts={model !== undefined && (
            <span class="note facts-line">
              <VisibleText text={model} limit={80} lines />
            </span>
          )}
        >
          <DecisionFacts decision={event.decision} />
        </Speech>
      );
    case "user_comment":
      return (
        <Speech node="operator" role={t("Operator")} timestamp={event.timestamp}>
          <Markdown text={event.content} />
        </Speech>
      );
    case "samples_compared":
      return (
        <li class="turn card">
          <h3>{t("{count} independent diagnoses compared", { count: event.diagnoses })}</h3>
          <p>
            <VisibleText text={event.reason} lines />
          </p>
          <ul>
            {event.votes.map(({ id, votes }) => (
              <li key={id}>
                <HypothesisId id={id} /> {t("leads in {votes} of {count}", { votes, count: event.diagnoses })}
              </li>
            ))}
          </ul>
          <Markdown text={event.content} />
        </li>
      );
    case "history_compressed":
      return (
        <Folded title={t("Summary of the earlier rounds")}>
          <Markdown text={event.summary} />
        </Folded>
      );
    case "final_result":
      return (
        <Folded title={t("Final result")}>
          <CodeBlock text={event.content} />
        </Folded>
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
      return (
        <li class="event">
          <EventNote event={event} />
        </li>
      );
  }
}

function Folded(
  { title, children }: { readonly title: string; readonly children: ComponentChildren },
): JSX.Element {
  return (
    <li class="folded">
      <details>
        <summary>
          <h3>{title}</h3>
        </summary>
        {children}
      </details>
    </li>
  );
}

const RISKS: Readonly<Record<string, Tone>> = { low: "good", medium: "warn", high: "bad" };

type Fact = readonly [name: string, value: string | readonly string[] | null | undefined];

function DecisionFacts({ decision }: { readonly decision: Decision }): JSX.Element {
  const { status, confidence, risk_level: risk, grounding } = decision;
  const isLowered = grounding !== undefined && grounding.stated_confidence > confidence;
  const first: readonly Fact[] = [
    [t("Leading hypothesis"), decision.leading_hypothesis],
    [t("Next step"), decision.next_step],
    [t("Recommended fix"), decision.recommended_fix],
    [t("Reason for the end"), decision.stop_reason],
  ];
  const rest: readonly Fact[] = [
    [
      t("Confidence"),
      grounding &&
      `${
        isLowered ? t("{stated} was stated; ", { stated: percent(grounding.stated_confidence) }) : ""
      }${grounding.reason}`,
    ],
    [t("Evidence, as the moderator states it"), decision.evidence],
    [t("Missing evidence"), decision.missing_evidence],
    [t("Rejected by the moderator"), decision.rejected_hypotheses],
    [t("Validation"), decision.validation],
  ];
  return (
    <>
      <p class="row">
        <Badge tone={status === "continue" ? "accent" : "idle"}>{t(status)}</Badge>
        <span>{t("Confidence {share}", { share: percent(confidence) })}</span>
        {typeof risk === "string" && (
          <Badge tone={RISKS[risk] ?? "idle"}>{t("{risk} risk", { risk: t(risk) })}</Badge>
        )}
      </p>
      <Facts facts={first} />
      {rest.some(([, value]) => value !== undefined && value !== null && value.length > 0) && (
        <details>
          <summary>{t("Details")}</summary>
          <Facts facts={rest} />
        </details>
      )}
    </>
  );
}

/** Names and values. Empty values are omitted, and arrays are lists. */
function Facts({ facts }: { readonly facts: readonly Fact[] }): JSX.Element {
  return (
    <dl class="facts">
      {facts.map(([name, value]) =>
        value === undefined || value === null || value.length === 0 ? null : (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              {typeof value === "string" ? <VisibleText text={value} lines /> : (
                <ul>
                  {value.map((each, index) => (
                    <li key={index}>
                      <VisibleText text={each} lines />
                    </li>
                  ))}
                </ul>
              )}
            </dd>
          </div>
        )
      )}
    </dl>
  );
}
