import type { JSX } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { Badge, Chart, VisibleText } from "@gateway/shared/ui";
import type { ToolCallEvent } from "../../engine/events.ts";
import { formatDuration } from "../../report/duration.ts";
import { callLine } from "./call_line.ts";
import { CodeBlock } from "./code_block.tsx";
import { t } from "./language.ts";
import { useNow } from "./loaded.ts";
import { splitQuoted } from "./quotes.ts";
import { Shown } from "./shown.tsx";
import type { CallEvent } from "./thread.ts";

/** More calls in a turn of the past are folded. */
const MAX_UNFOLDED = 6;

/** The consecutive calls of an agent. After the end of a run no result can arrive. */
export function CallList({ calls, isDone, isOver }: {
  readonly calls: readonly CallEvent[];
  readonly isDone: boolean;
  readonly isOver: boolean;
}): JSX.Element {
  // A constant, so that the browser keeps what the user opens and closes.
  const [isOpen] = useState(!isDone || calls.length <= MAX_UNFOLDED);
  const list = (
    <ul class="list">
      {calls.map((call, index) => <Call key={index} event={call} isOver={isOver} />)}
    </ul>
  );
  if (calls.length === 1) return list;
  const failed = calls.filter((call) => call.type === "tool_call" && call.error).length;
  return (
    <details class="call-group more" open={isOpen}>
      <summary>
        {t("{count} tool calls", { count: calls.length })}
        {failed > 0 && <Badge tone="bad">{t("{count} failed", { count: failed })}</Badge>}
      </summary>
      {list}
    </details>
  );
}

const MAX_LINE = 300;

function Call({ event, isOver }: { readonly event: CallEvent; readonly isOver: boolean }): JSX.Element {
  const { target } = useContext(Shown);
  const chosen = target?.callId === event.call_id ? target : undefined;
  const [isOpen, setOpen] = useState(false);
  const element = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (chosen === undefined) return;
    for (const each of document.querySelectorAll("details")) {
      if (each.contains(element.current)) each.open = true;
    }
    setOpen(true);
    // The result is drawn before.
    setTimeout(() => {
      const mark = element.current?.querySelector("mark.quote");
      (mark ?? element.current)?.scrollIntoView({ block: mark ? "center" : "start" });
      element.current?.querySelector("summary")?.focus({ preventScroll: true });
    });
  }, [chosen]);
  return (
    <li class={chosen === undefined ? "call" : "call chosen"}>
      <details
        class="more"
        ref={element}
        open={isOpen}
        onToggle={({ currentTarget }) => setOpen(currentTarget.open)}
      >
        <summary>
          {"number" in event && <span class="muted">{`#${event.number}`}</span>}
          <code>
            <VisibleText text={callLine(event.tool_name, event.args)} limit={MAX_LINE} lines />
          </code>
          {event.type === "tool_call"
            ? <Outcome event={event} />
            : isOver
            ? <Badge tone="warn">{t("no recorded result")}</Badge>
            : event.type === "tool_approval_request"
            ? <Badge tone="warn">{t("waits for you")}</Badge>
            : <Running since={event.timestamp} />}
        </summary>
        {isOpen && (
          <div class="stack">
            {event.type === "tool_call" && (
              <Section
                title={event.error ? t("Reason") : t("Result")}
                text={event.result}
                line={chosen?.line}
                chart={event.chart}
              />
            )}
            {"proposed_args" in event && (
              <Section
                title={t("Requested by the agent")}
                text={JSON.stringify(event.proposed_args, null, 2)}
              />
            )}
            <Section title={t("Arguments")} text={JSON.stringify(event.args, null, 2) ?? ""} />
          </div>
        )}
      </details>
    </li>
  );
}

function Outcome({ event }: { readonly event: ToolCallEvent }): JSX.Element {
  const { approval, error, cached, duration_ms: ms, proposed_args } = event;
  const isDenied = approval === "rejected" || approval === "timeout";
  return (
    <>
      {proposed_args !== undefined && <Badge tone="warn">{t("changed by the operator")}</Badge>}
      {approval === "approved" && <Badge tone="good">{t("approved")}</Badge>}
      {(isDenied || error) && <Badge tone="bad">{t(isDenied ? approval : "failed")}</Badge>}
      {cached && <span class="note">{t("cached")}</span>}
      {typeof ms === "number" && !cached && (
        <span class="note count">{ms < 1000 ? `${Math.round(ms)} ms` : formatDuration(ms / 1000)}</span>
      )}
    </>
  );
}

function Running({ since }: { readonly since: string | undefined }): JSX.Element {
  const [begun] = useState(() => Date.parse(since ?? "") || Date.now());
  // The clocks of server and browser can differ.
  const seconds = Math.max(0, useNow(1000) - begun) / 1000;
  return <Badge tone="accent">{t("running, {time}", { time: formatDuration(seconds) })}</Badge>;
}

/** No character may hide or reorder text, so that the operator sees what ran. */
function Section({ title, text, line = "", chart }: {
  readonly title: string;
  readonly text: string;
  /** The line of evidence whose quotes are marked. */
  readonly line?: string | undefined;
  readonly chart?: ToolCallEvent["chart"];
}): JSX.Element {
  return (
    <section class="stack tight">
      <p class="note">{title}</p>
      {chart !== undefined && <Chart label={t("Chart of the result")} {...chart} />}
      <CodeBlock text={text}>
        {splitQuoted(text, line).map((part, index) => {
          const shown = <VisibleText key={index} text={part} lines />;
          return index % 2 === 0 ? shown : <mark key={index} class="quote">{shown}</mark>;
        })}
      </CodeBlock>
    </section>
  );
}
