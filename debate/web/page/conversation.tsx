import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { t } from "./language.ts";
import { Calls } from "./markdown.tsx";
import { Fold } from "./part.tsx";
import { ThreadRow } from "./row.tsx";
import type { Summary, TimedEvent } from "./summary.ts";
import { beginThread, extendThread, type Row } from "./thread.ts";

/**
 * The conversation of a run. `events` grows at its end. The page follows the end of the conversation only if the reader
 * is there.
 */
export function Conversation({ events, live, isOver, models }: {
  readonly events: readonly TimedEvent[];
  readonly live: Summary["live"];
  readonly isOver: boolean;
  readonly models: Readonly<Record<string, string>> | undefined;
}): JSX.Element {
  const thread = useMemo(beginThread, []);
  // A row that is the same element is not compared again.
  const drawn = useMemo(() => new WeakMap<Row, JSX.Element>(), [isOver, models]);
  const end = useRef<HTMLDivElement>(null);
  // The elements of the last event are still in their places.
  const wasAtEnd = isAtEnd(end.current);
  extendThread(thread, events);
  useLayoutEffect(() => {
    if (wasAtEnd) end.current?.scrollIntoView({ block: "end" });
  });
  const rows: Row[] = [...thread.rows];
  const last = rows.at(-1);
  const isInTurn = last?.kind === "turn" && !last.isDone && last.role === live?.role;
  if (live !== undefined && !isInTurn) {
    rows.push({ kind: "turn", role: live.role, events: [], isDone: false });
  }
  return (
    <Fold id="conversation" title={t("Conversation")} isOpen={!isOver}>
      <Calls.Provider value={thread.calls}>
        <ol class="thread stack">
          {rows.map((row, index) => {
            const text = index === rows.length - 1 ? live?.text : undefined;
            const element = text === undefined ? drawn.get(row) : undefined;
            if (element !== undefined) return element;
            const next = <ThreadRow key={index} row={row} live={text} isOver={isOver} models={models} />;
            if (text === undefined) drawn.set(row, next);
            return next;
          })}
        </ol>
      </Calls.Provider>
      <div ref={end} />
      <p class="unseen" role="status">{isOver ? "" : newsOf(events.at(-1))}</p>
    </Fold>
  );
}

/** The distance from the end in which the reader follows the conversation, in pixels. */
const NEAR = 64;

/** A reader who has not scrolled reads the beginning of the page. */
function isAtEnd(end: HTMLElement | null): boolean {
  if (end === null || scrollY === 0) return false;
  const { bottom } = end.getBoundingClientRect();
  return bottom > 0 && bottom < innerHeight + NEAR;
}

/** The newest event for screen readers. It can be broken. */
function newsOf(event: TimedEvent | undefined): string {
  switch (event?.type) {
    case "agent_completed":
      return t("{role} has spoken.", { role: t(String(event.role)) });
    case "tool_call_started":
      return t("{tool} is running.", { tool: event.tool_name });
    case "moderator_decision":
      return t("The moderator decided: {status}.", { status: t(String(event.decision?.status)) });
    case "error":
      return t("Error: {message}", { message: event.message });
    default:
      return "";
  }
}
