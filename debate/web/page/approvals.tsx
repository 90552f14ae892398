import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Card, VisibleText } from "@gateway/shared/ui";
import { visibleJson } from "@gateway/shared/text";
import type { ToolArgs } from "../../engine/events.ts";
import { send } from "./api.ts";
import { callText } from "./call_text.ts";
import { CodeBlock } from "./code_block.tsx";
import type { FollowedRun } from "./follow.ts";
import { t } from "./language.ts";
import { useAction } from "./notices.tsx";
import { Part, TimeLeft } from "./part.tsx";
import type { PendingCall } from "./summary.ts";

/** A click this soon after a request appears or moves was meant for something else. */
const SETTLED_MS = 500;
const PROMPT = "$ ";

/** The pending requests of a run. */
export function Approvals(
  { run: { record, settings, summary } }: { readonly run: FollowedRun },
): JSX.Element {
  const calls = [...summary.approvals.values()];
  const ids = calls.map(({ call_id }) => call_id).join(" ");
  const newest = calls.at(-1);
  const [settled, setSettled] = useState("");
  const before = useRef(0);
  useEffect(() => {
    // The focus of a decided request goes to a heading, because a button of another request could be pressed by mistake.
    if (calls.length < before.current && document.activeElement === document.body) {
      const next = document.querySelector<HTMLElement>("#waiting .card h2") ?? document.querySelector("h1");
      next?.focus({ preventScroll: true });
    }
    before.current = calls.length;
    const timer = setTimeout(setSettled, SETTLED_MS, ids);
    return () => clearTimeout(timer);
  }, [ids]);
  return (
    <>
      {/* A live region announces only changes, so it is always on the page. */}
      <p class="unseen" role="status">
        {newest !== undefined &&
          t("{role} asks for approval to use {tool}.", {
            role: t(newest.agent_role),
            tool: newest.tool_name,
          })}
      </p>
      {calls.length > 0 && (
        <section id="waiting" class="waiting stack" aria-labelledby="asked-title" tabIndex={-1}>
          <h2 id="asked-title" class="unseen">{t("Waiting for your approval")}</h2>
          {calls.map((call) => (
            <Part
              key={call.call_id}
              of={[call, settled === ids]}
              show={() => (
                <Approval
                  runId={record.run_id}
                  call={call}
                  seconds={settings.approval_timeout_seconds}
                  isSettled={settled === ids}
                />
              )}
            />
          ))}
        </section>
      )}
    </>
  );
}

interface Answer {
  readonly approved: boolean;
  readonly for_run?: boolean;
  readonly args?: ToolArgs;
}

/**
 * A tool call that waits for the operator. The shown arguments are the approved arguments: while others are in the
 * editor, only those can be approved. The buttons belong to no form, so Enter in a field presses none.
 */
function Approval({ runId, call, seconds, isSettled }: {
  readonly runId: string;
  readonly call: PendingCall;
  readonly seconds: number;
  readonly isSettled: boolean;
}): JSX.Element {
  const { call_id, tool_name, agent_role, args, need, reason, timestamp } = call;
  const asked = editable(args);
  const [text, setText] = useState(asked);
  const [isBusy, attempt] = useAction();
  const isChanged = text !== asked;
  const edited = readArguments(text);
  const { isCommand, text: shown } = callText(tool_name, args);
  const answer = (given: Answer) => () => {
    if (!isSettled || (given.approved && given.args === undefined && isChanged)) return;
    attempt(() => send(`/api/runs/${runId}/approval`, { call_id, ...given }));
  };
  const button = { type: "button", "aria-disabled": isSettled ? undefined : "true" } as const;
  return (
    <Card
      id={`asked-${call_id}`}
      tone="warn"
      title={
        <>
          {t(isCommand ? "{role} wants to run a command" : "{role} wants to call a tool", {
            role: t(agent_role),
          })}
          <span class="note">
            <VisibleText text={tool_name} limit={80} />
          </span>
        </>
      }
    >
      <CodeBlock text={shown}>
        {isCommand && <span class="prompt muted" aria-hidden="true">{PROMPT}</span>}
        <VisibleText text={shown} />
      </CodeBlock>
      {need !== undefined && (
        <p class="warning">
          <VisibleText text={need} />
        </p>
      )}
      {reason !== undefined && reason !== "" && (
        <blockquote>
          <p class="note">{t("The agent wrote before this call:")}</p>
          <p>
            <VisibleText text={reason} limit={600} lines />
          </p>
        </blockquote>
      )}
      <div class="actions">
        <button
          {...button}
          class="approve"
          disabled={isBusy || isChanged}
          onClick={answer({ approved: true })}
        >
          {t("Approve once")}
        </button>
        <TimeLeft since={timestamp} seconds={seconds} />
        <button {...button} disabled={isBusy} onClick={answer({ approved: false })}>{t("Reject")}</button>
        <button
          {...button}
          class="quiet"
          disabled={isBusy || isChanged}
          title={t("Identical calls of this run need no approval, until you revoke it.")}
          onClick={answer({ approved: true, for_run: true })}
        >
          {t("Allow for this run")}
        </button>
      </div>
      <details class="more">
        <summary>{t("Arguments")}</summary>
        <label>
          <span class="note">{t("JSON. You can approve the call with other arguments.")}</span>
          <textarea
            class="mono"
            rows={Math.min(12, asked.split("\n").length + 1)}
            spellcheck={false}
            // A change of the language warns about text that differs from this.
            defaultValue={asked}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <p class="note" role="status">{edited === undefined && t("The arguments are not a JSON object.")}</p>
        <div class="actions">
          <button
            {...button}
            disabled={isBusy || !isChanged || edited === undefined}
            onClick={edited && answer({ approved: true, args: edited })}
          >
            {t("Approve with these arguments")}
          </button>
          <button type="button" class="quiet" disabled={!isChanged} onClick={() => setText(asked)}>
            {t("Undo the changes")}
          </button>
        </div>
      </details>
    </Card>
  );
}

/** Arguments as JSON, with hidden characters as escapes. */
function editable(args: ToolArgs): string {
  return JSON.stringify(args, null, 2).split("\n").map(visibleJson).join("\n");
}

/** The arguments, or `undefined` if the text is not a JSON object. */
function readArguments(text: string): ToolArgs | undefined {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The calls that are approved for the whole run. */
export function Allowed({ runId, calls }: {
  readonly runId: string;
  readonly calls: readonly PendingCall[];
}): JSX.Element | null {
  const [isBusy, attempt] = useAction();
  if (calls.length === 0) return null;
  const revoke = (call_id: string) =>
    attempt(() => send(`/api/runs/${runId}/approval`, { call_id, approved: false, for_run: true }));
  return (
    <section id="allowed" aria-labelledby="allowed-title">
      <h3 id="allowed-title">{t("Allowed for this run")}</h3>
      <ul class="stack tight">
        {calls.map(({ call_id, tool_name, args }) => (
          <li key={call_id} class="row">
            <code>
              <VisibleText text={callText(tool_name, args).text} />
            </code>
            <button
              type="button"
              class="quiet"
              disabled={isBusy}
              aria-label={t("Revoke: {tool}", { tool: tool_name })}
              onClick={() => revoke(call_id)}
            >
              {t("Revoke")}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The pause between rounds: a comment, which can be empty, and decisions on hypotheses. */
export function CommentForm(
  { run: { record, settings, summary } }: { readonly run: FollowedRun },
): JSX.Element {
  const [isBusy, attempt] = useAction();
  return (
    <Card
      id="waiting"
      tone="warn"
      title={t("The debate waits for you")}
      actions={<TimeLeft since={summary.pausedAt} seconds={settings.comment_timeout_seconds} />}
    >
      <form
        id="comment-form"
        onSubmit={(event) => {
          event.preventDefault();
          const body = chosenIn(event.currentTarget);
          attempt(() => send(`/api/runs/${record.run_id}/comment`, body));
        }}
      >
        <label>
          {t("Comment")}
          <textarea name="comment" rows={3} maxLength={20_000} />
        </label>
        <details id="steer" class="more">
          <summary>{t("Pin, drop or add hypotheses")}</summary>
          <ul class="stack tight">
            {summary.hypotheses.map(({ id, text, state }) => (
              <li key={id} class="row">
                <span>
                  <b>
                    <VisibleText text={id} />
                  </b>
                  {` (${t(state)}) `}
                  <VisibleText text={text} limit={160} lines />
                </span>
                <select data-id={id} aria-label={t("Decision on {id}", { id })}>
                  <option value="">{t("Leave it to the agents")}</option>
                  <option value="pin">{t("Pin: examine it further")}</option>
                  <option value="drop">{t("Drop: do not return to it")}</option>
                </select>
              </li>
            ))}
          </ul>
          <label>
            {t("Hypotheses to add")}
            <span class="note">{t("One per line. They need evidence like any other.")}</span>
            <textarea name="added" rows={2} />
          </label>
        </details>
        <div class="actions">
          <button type="submit" class="primary" disabled={isBusy}>{t("Send and continue")}</button>
        </div>
      </form>
    </Card>
  );
}

/** The content of the form as a request body. */
function chosenIn(form: HTMLFormElement): object {
  const fields = new FormData(form);
  const added = String(fields.get("added")).split("\n").map((line) => line.trim());
  const changes = [
    ...[...form.querySelectorAll("select")].map(({ value, dataset }) => ({ kind: value, id: dataset["id"] })),
    ...added.map((text) => ({ kind: text && "add", text })),
  ];
  return { comment: String(fields.get("comment")), changes: changes.filter(({ kind }) => kind !== "") };
}
