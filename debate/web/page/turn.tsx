import type { ComponentChildren, JSX } from "preact";
import { Badge, Icon, type Tone, VisibleText } from "@gateway/shared/ui";
import type { Verdict } from "../../engine/graph/state.ts";
import { type AgentPart, readAgentText } from "./agent_text.ts";
import { CallList } from "./calls.tsx";
import { EventNote } from "./event_note.tsx";
import { percent } from "./format.ts";
import { LANGUAGE, t } from "./language.ts";
import { HypothesisId } from "./mark_link.tsx";
import { Markdown } from "./markdown.tsx";
import { Speech } from "./speech.tsx";
import type { Turn } from "./thread.ts";

/** The turn of an agent: what it wrote, and its tool calls between. `live` is the text that it writes. */
export function TurnCard(
  { turn, live, model }: {
    readonly turn: Turn;
    readonly live?: string | undefined;
    readonly model: string | undefined;
  },
): JSX.Element {
  const { node, role, parts, sample, timestamp, tokens, isDone, isPartial } = turn;
  const name = sample === undefined
    ? t(role)
    : t("{role}, diagnosis {number}", { role: t(role), number: sample });
  return (
    <Speech
      node={node}
      role={name}
      timestamp={timestamp}
      facts={
        <>
          {isPartial && <Badge tone="warn">{t("stopped")}</Badge>}
          <span class="note facts-line">
            {model !== undefined && <VisibleText text={model} limit={80} lines />}
            {tokens !== undefined && (
              <span class="count">{t("{count} tokens", { count: tokens.toLocaleString(LANGUAGE) })}</span>
            )}
          </span>
        </>
      }
    >
      {parts.map((part, index) => {
        switch (part.kind) {
          case "said":
            return <AgentText key={index} text={part.text} />;
          case "calls":
            return <CallList key={index} calls={part.calls} isDone={isDone} />;
          case "event":
            return (
              <p key={index} class="event">
                <EventNote event={part.event} />
              </p>
            );
          default:
            return part satisfies never;
        }
      })}
      {live !== undefined && <LiveText text={live} />}
    </Speech>
  );
}

/** The text that an agent writes. */
export function LiveText({ text }: { readonly text: string }): JSX.Element {
  return text === "" ? <p class="note thinking">{t("Thinking")}</p> : <AgentText text={text} />;
}

/** The text of an agent with its hypotheses and reviews as blocks. */
function AgentText({ text }: { readonly text: string }): JSX.Element {
  return <>{readAgentText(text).map((part, index) => <Part key={index} part={part} />)}</>;
}

const VERDICTS: Readonly<Record<Verdict, Tone>> = {
  accepted: "good",
  rejected: "bad",
  needs_evidence: "warn",
};

function Part({ part }: { readonly part: AgentPart }): JSX.Element {
  switch (part.kind) {
    case "text":
      return <Markdown text={part.text} />;
    case "hypothesis":
      return (
        <Block id={part.id} share={part.share} text={part.text}>
          <span class="unseen">{t("Hypothesis")}</span>
        </Block>
      );
    case "review":
      return (
        <Block id={part.id} share={part.share} text={part.text}>
          <Badge tone={VERDICTS[part.verdict]}>{t(part.verdict)}</Badge>
        </Block>
      );
    case "end":
      return (
        <p class="event">
          <Icon name="check" />
          <span>
            {t("Recommends to end the debate")}
            {part.share !== undefined && ` (${percent(part.share)})`}
            {part.text !== "" && (
              <>
                {": "}
                <VisibleText text={part.text} lines />
              </>
            )}
          </span>
        </p>
      );
    default:
      return part satisfies never;
  }
}

function Block(
  { id, share, text, children }: {
    readonly id: string;
    readonly share: number | undefined;
    readonly text: string;
    readonly children: ComponentChildren;
  },
): JSX.Element {
  return (
    <div class="block">
      <p class="block-head">
        <HypothesisId id={id} />
        {children}
        {share !== undefined && (
          <span class="share">
            <span class="unseen">{t("Probability")}</span>
            <svg viewBox="0 0 48 6" aria-hidden="true">
              <rect class="rail" width="48" height="6" rx="3" />
              <rect class="bar" width={Math.max(3, 48 * share)} height="6" rx="3" />
            </svg>
            {percent(share)}
          </span>
        )}
      </p>
      {text !== "" && <Markdown text={text} />}
    </div>
  );
}
