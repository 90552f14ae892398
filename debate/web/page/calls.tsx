import { createContext, type JSX } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { Badge, Chart, type Tone, VisibleText } from "@gateway/shared/ui";
import type { ToolArgs, ToolCallEvent } from "../../engine/events.ts";
import { callLine } from "./call_line.ts";
import { CodeBlock } from "./code_block.tsx";
import { formatDuration } from "./format.ts";
import { t } from "./language.ts";
import { useNow } from "./loaded.ts";
import { splitQuoted } from "./quotes.ts";
import { Shown, type Target } from "./shown.tsx";
import { type CallEvent, chartOf } from "./thread.ts";

/** Whether the run is over, so that no result can arrive. */
export const IsOver = createContext(false);

/** More calls in a turn of the past are folded. */
const MAX_UNFOLDED = 6;

/** The consecutive calls of an agent. */
export function CallList(
  { calls, isDone }: { readonly calls: readonly CallEvent[]; readonly isDone: boolean },
): JSX.Element {
  const { target } = useContext(Shown);
  const [isOpen, setOpen] = useState(!isDone || calls.length <= MAX_UNFOLDED);
  useEffect(() => {
    if (calls.some(({ call_id }) => call_id === target?.callId)) setOpen(true);
  }, [target]);
  const list = (
    <ul class="calls">
      {calls.map((call, index) => <Call key={index} event={call} />)}
    </ul>
  );
  if (calls.length === 1) return list;
  const failed = calls.filter((call) => call.type === "tool_call" && call.error).length;
  return (
    <details class="call-group" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {t("{count} tool calls", { count: calls.length })}
        {failed > 0 && <Badge tone="bad">{t("{count} failed", { count: failed })}</Badge>}
      </summary>
      {list}
    </details>
  );
}

const MAX_LINE = 300;

function Call({ event }: { readonly event: CallEvent }): JSX.Element {
  const { target } = useContext(Shown);
  const chosen = target?.callId === event.call_id ? target : undefined;
  const [isOpen, setOpen] = useState(false);
  const element = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (chosen !== undefined) setOpen(true);
  }, [chosen]);
  useEffect(() => {
    const details = element.current;
    if (chosen === undefined || !isOpen || details === null) return;
    const mark = details.querySelector("mark.quote");
    (mark ?? details).scrollIntoView({ block: mark === null ? "start" : "center" });
    details.querySelector("summary")?.focus({ preventScroll: true });
  }, [chosen, isOpen]);
  return (
    <li class={chosen === undefined ? "call" : "call chosen"}>
      <details ref={element} open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>
          {"number" in event && <span class="number">{`#${event.number}`}</span>}
          <code>
            <VisibleText text={callLine(event.tool_name, event.args)} limit={MAX_LINE} lines />
          </code>
          <State event={event} />
        </summary>
        {isOpen && <CallDetails event={event} target={chosen} />}
      </details>
    </li>
  );
}

const APPROVALS: Readonly<Record<string, readonly [Tone, string]>> = {
  approved: ["good", "approved"],
  rejected: ["bad", "rejected"],
  timeout: ["bad", "timeout"],
};

function State({ event }: { readonly event: CallEvent }): JSX.Element {
  const isOver = useContext(IsOver);
  if (event.type !== "tool_call") {
    if (isOver) return <Badge tone="warn">{t("no recorded result")}</Badge>;
    if (event.type === "tool_approval_request") return <Badge tone="warn">{t("waits for you")}</Badge>;
    return <Running since={event.timestamp} />;
  }
  const { approval, error, cached, duration_ms, proposed_args } = event;
  const [tone, word] = APPROVALS[approval] ?? [];
  return (
    <>
      {proposed_args !== undefined && <Badge tone="warn">{t("changed by the operator")}</Badge>}
      {tone !== undefined && word !== undefined && <Badge tone={tone}>{t(word)}</Badge>}
      {error && tone !== "bad" && <Badge tone="bad">{t("failed")}</Badge>}
      {cached && <span class="note">{t("cached")}</span>}
      {typeof duration_ms === "number" && !cached && <span class="note count">{formatMs(duration_ms)}</span>}
    </>
  );
}

function formatMs(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)}s` : formatDuration(ms / 1000);
}

function Running({ since }: { readonly since: string | undefined }): JSX.Element {
  const now = useNow(1000);
  const [shown] = useState(Date.now);
  const begun = Date.parse(since ?? "");
  // The clocks of server and browser can differ.
  const seconds = Math.max(0, now - (begun <= shown ? begun : shown)) / 1000;
  return <Badge tone="accent">{t("running, {time}", { time: formatDuration(seconds) })}</Badge>;
}

function CallDetails(
  { event, target }: { readonly event: CallEvent; readonly target: Target | undefined },
): JSX.Element {
  const { args } = event;
  const proposed = "proposed_args" in event ? event.proposed_args : undefined;
  return (
    <div class="stack">
      {event.type === "tool_call" && <Result event={event} target={target} />}
      {proposed !== undefined && <Arguments title={t("Requested by the agent")} args={proposed} isOpen />}
      <Arguments
        title={t("Arguments")}
        args={args}
        isOpen={event.type !== "tool_call" || proposed !== undefined}
      />
    </div>
  );
}

function Result(
  { event, target }: { readonly event: ToolCallEvent; readonly target: Target | undefined },
): JSX.Element {
  const { result, error } = event;
  const chart = chartOf(event);
  const parts = target?.line === undefined ? [result] : splitQuoted(result, target.line);
  return (
    <section>
      <p class="note">{error ? t("Reason") : t("Result")}</p>
      {chart !== undefined && <Chart label={t("Chart of the result")} {...chart} />}
      <CodeBlock text={result}>
        {parts.map((part, index) =>
          index % 2 === 0 ? <VisibleText key={index} text={part} lines /> : (
            <mark key={index} class="quote">
              <VisibleText text={part} lines />
            </mark>
          )
        )}
      </CodeBlock>
    </section>
  );
}

/** No character of the arguments may hide or reorder text, so that the operator sees what ran. */
function Arguments(
  { title, args, isOpen }: { readonly title: string; readonly args: ToolArgs; readonly isOpen: boolean },
): JSX.Element {
  return (
    <details open={isOpen}>
      <summary>{title}</summary>
      <CodeBlock text={JSON.stringify(args, null, 2) ?? ""} />
    </details>
  );
}
