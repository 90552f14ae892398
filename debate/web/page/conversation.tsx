import type { JSX, VNode } from "preact";
import { useEffect, useErrorBoundary, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { IsOver } from "./calls.tsx";
import { UnknownNote } from "./event_note.tsx";
import { EventRow } from "./event_row.tsx";
import { t } from "./language.ts";
import { Calls } from "./mark_link.tsx";
import { Speech } from "./speech.tsx";
import type { TimedEvent } from "./summary.ts";
import { beginThread, extendThread, type Row } from "./thread.ts";
import { LiveText, TurnCard } from "./turn.tsx";

interface Live {
  readonly role: string;
  readonly text: string;
}

type Models = Readonly<Record<string, string>>;

/**
 * The conversation of a run. `events` grows at its end. The page follows the end of the conversation only if the reader
 * is there.
 */
export function Conversation(
  { events, live, isOver, models = NO_MODELS }: {
    readonly events: readonly TimedEvent[];
    readonly live: Live | undefined;
    readonly isOver: boolean;
    readonly models?: Models | undefined;
  },
): JSX.Element {
  const text = useSlowly(live?.text);
  const thread = useMemo(beginThread, []);
  const drawn = useRef(new WeakMap<Row, VNode>());
  const end = useRef<HTMLDivElement>(null);
  // The elements of the last event are still in their places.
  const wasAtEnd = isAtEnd(end.current);
  extendThread(thread, events);
  useLayoutEffect(() => {
    if (wasAtEnd) end.current?.scrollIntoView({ block: "end" });
  });
  const news = useNews(events, isOver);
  const last = thread.rows.at(-1);
  const isInTurn = live !== undefined && last?.kind === "turn" && !last.isDone && last.role === live.role;
  return (
    <section id="conversation" aria-labelledby="conversation-title">
      <h2 id="conversation-title">{t("Conversation")}</h2>
      <Calls.Provider value={thread.calls}>
        <IsOver.Provider value={isOver}>
          <ol class="thread">
            {thread.rows.map((row, index) => {
              if (isInTurn && row === last) return draw(row, index, models, text);
              // A row that is the same element is not compared again.
              const element = drawn.current.get(row) ?? draw(row, index, models);
              drawn.current.set(row, element);
              return element;
            })}
            {live !== undefined && !isInTurn && (
              <Speech key="live" node={nodeOf(live.role)} role={t(live.role)}>
                <LiveText text={text ?? ""} />
              </Speech>
            )}
          </ol>
        </IsOver.Provider>
      </Calls.Provider>
      <div ref={end} />
      <p class="unseen" role="status">{news}</p>
    </section>
  );
}

const NO_MODELS: Models = {};

const MODEL_KEYS: Readonly<Record<string, string>> = {
  diagnostic_agent: "diagnostic",
  diagnostic_rebuttal_agent: "diagnostic",
  skeptic_agent: "skeptic",
  moderator_agent: "moderator",
};

/** The models of an imported run can be anything. */
function modelOf(models: Models, node: string): string | undefined {
  const model: unknown = models[MODEL_KEYS[node] ?? ""];
  return typeof model === "string" ? model : undefined;
}

function draw(row: Row, key: number, models: Models, live?: string): VNode {
  return <SafeRow key={key} row={row}>{drawRow(row, models, live)}</SafeRow>;
}

/** The failure of a row hides no other row. */
function SafeRow({ row, children }: { readonly row: Row; readonly children: VNode }): JSX.Element {
  const [error] = useErrorBoundary();
  if (error === undefined) return children;
  return <UnknownRow type={row.kind === "event" ? row.event.type : row.kind} />;
}

function UnknownRow({ type }: { readonly type: string }): JSX.Element {
  return (
    <li class="event">
      <UnknownNote type={type} />
    </li>
  );
}

function drawRow(row: Row, models: Models, live: string | undefined): VNode {
  switch (row.kind) {
    case "round":
      return (
        <li class="round">
          <h3>{t("Round {round}", { round: row.round })}</h3>
        </li>
      );
    case "turn":
      return <TurnCard turn={row} live={live} model={modelOf(models, row.node)} />;
    case "event":
      return <EventRow event={row.event} model={modelOf(models, "moderator_agent")} />;
    case "unknown":
      return <UnknownRow type={row.type} />;
    default:
      return row satisfies never;
  }
}

const ROLE_NODES: Readonly<Record<string, string>> = {
  "Primary Diagnosis": "diagnostic_agent",
  "Skeptical Reviewer": "skeptic_agent",
  Rebuttal: "diagnostic_rebuttal_agent",
  Moderator: "moderator_agent",
};

function nodeOf(role: string): string {
  return ROLE_NODES[role] ?? "";
}

/** The distance from the end in which the reader follows the conversation, in pixels. */
const NEAR = 64;

/** A reader who has not scrolled reads the beginning of the page. */
function isAtEnd(end: HTMLElement | null): boolean {
  if (end === null || scrollY === 0) return false;
  const { bottom } = end.getBoundingClientRect();
  return bottom > 0 && bottom < innerHeight + NEAR;
}

/** Time between two layouts of streamed text, in milliseconds. */
const LIVE_MS = 120;

/** A growing text, updated at intervals. The layout of a long text is slow, so it is repeated less often. */
function useSlowly(text: string | undefined): string | undefined {
  const [shown, show] = useState(text);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const newest = useRef(text);
  newest.current = text;
  const tookMs = useRef(0);
  const begun = performance.now();
  useEffect(() => {
    tookMs.current = performance.now() - begun;
  }, [shown]);
  useEffect(() => {
    if (timer.current !== undefined || text === shown) return;
    timer.current = setTimeout(() => {
      timer.current = undefined;
      show(newest.current);
    }, Math.max(LIVE_MS, 8 * tookMs.current));
  }, [text, shown]);
  useEffect(() => () => clearTimeout(timer.current), []);
  // A new turn does not show the text of the turn before.
  return shown === undefined || text?.startsWith(shown) !== true ? text : shown;
}

/** The newest event for screen readers. Stored events are not announced. */
function useNews(events: readonly TimedEvent[], isOver: boolean): string {
  const [news, tell] = useState("");
  const known = useRef(0);
  useEffect(() => {
    const isFirst = known.current === 0;
    known.current = events.length;
    const last = events.at(-1);
    if (last === undefined || isFirst || isOver) return;
    try {
      const text = newsOf(last);
      if (text !== "") tell(text);
    } catch {
      // The conversation shows that the event is broken.
    }
  }, [events.length]);
  return news;
}

function newsOf(event: TimedEvent): string {
  switch (event.type) {
    case "agent_completed":
      return t("{role} has spoken.", { role: t(event.role) });
    case "tool_call_started":
      return t("{tool} is running.", { tool: event.tool_name });
    case "moderator_decision":
      return t("The moderator decided: {status}.", { status: t(event.decision.status) });
    case "error":
      return t("Error: {message}", { message: event.message });
    default:
      return "";
  }
}
