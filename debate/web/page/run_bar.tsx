import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Badge, Icon, type Tone } from "@gateway/shared/ui";
import { ask } from "./api.ts";
import { agentName } from "./evidence.tsx";
import type { FollowedRun } from "./follow.ts";
import { formatClock, formatDuration, percent } from "./format.ts";
import { t } from "./language.ts";
import { useNow } from "./loaded.ts";
import { useAction } from "./notices.tsx";
import { notify } from "./notify.ts";
import { type Summary, timeLeft, verdictOf } from "./summary.ts";

const TONES: Readonly<Record<string, Tone>> = { running: "accent", error: "bad", interrupted: "warn" };

/** The state of a run in a line that stays in view, with what it waits for and its actions. */
export function RunBar({ run, title, needsLogin, onRename }: {
  readonly run: FollowedRun;
  readonly title: string;
  readonly needsLogin: boolean;
  readonly onRename: () => void;
}): JSX.Element {
  const { record, summary, isOver, isConnected } = run;
  const status = record.status ?? "unknown";
  const wait = waitOf(run, needsLogin);
  return (
    <div id="run-bar">
      <Badge tone={wait === undefined ? TONES[status] ?? "idle" : "warn"}>
        <span id="run-status">{t(wait === undefined || isOver ? status : "waits for you")}</span>
      </Badge>
      {wait !== undefined
        ? <Waiting run={run} title={title} wait={wait} />
        : isOver
        ? <Verdict summary={summary} status={status} />
        : <LiveLine summary={summary} />}
      <span class="note" role="status">
        {!isConnected && !isOver && t("Connection lost. Reconnecting …")}
      </span>
      <div class="actions">
        {record.status === "running" ? <Stop runId={record.run_id} /> : (
          <>
            <ShareMenu runId={record.run_id} />
            <button type="button" class="quiet" onClick={onRename}>{t("Rename")}</button>
            <Delete runId={record.run_id} />
          </>
        )}
      </div>
    </div>
  );
}

interface Wait {
  readonly kind: "approval" | "comment" | "login";
  readonly key: string;
  readonly text: string;
  readonly since: string | undefined;
  readonly seconds: number | undefined;
}

/** The pending request of a run. */
function waitOf({ summary, settings, isOver }: FollowedRun, needsLogin: boolean): Wait | undefined {
  const { approvals, pausedAt } = summary;
  const [first] = isOver ? [] : approvals.values();
  if (first !== undefined) {
    const others = approvals.size > 1 ? t(" and {count} more", { count: approvals.size - 1 }) : "";
    return {
      kind: "approval",
      key: first.call_id,
      text: t("Decide on {tool}", { tool: first.tool_name }) + others,
      since: first.timestamp,
      seconds: settings.approval_timeout_seconds,
    };
  }
  if (pausedAt !== undefined && !isOver) {
    const text = t("Comment, or continue");
    return {
      kind: "comment",
      key: pausedAt,
      text,
      since: pausedAt,
      seconds: settings.comment_timeout_seconds,
    };
  }
  if (!needsLogin) return undefined;
  return {
    kind: "login",
    key: "login",
    text: t("Log in to {provider}", { provider: ASSIST }),
    since: undefined,
    seconds: undefined,
  };
}

/** The provider with a login. */
const ASSIST = "assist";

const PLACES: Readonly<Record<"approval" | "comment", string>> = {
  approval: "#waiting .card h2",
  comment: "#comment-form textarea",
};

function Waiting({ run, title, wait: { kind, key, text, since, seconds } }: {
  readonly run: FollowedRun;
  readonly title: string;
  readonly wait: Wait;
}): JSX.Element {
  const left = timeLeft(since, seconds, useNow(1000));
  useEffect(() => {
    if (!run.isBehind) notify({ id: run.record.run_id, title }, key, text);
  }, [key, run.isBehind]);
  const go = () => {
    if (kind === "login") return void (location.hash = "#/login");
    const target = document.querySelector<HTMLElement>(PLACES[kind]);
    target?.scrollIntoView({ block: "center" });
    target?.focus({ preventScroll: true });
  };
  return (
    <button type="button" id="run-asked" class="quiet" onClick={go}>
      {left === undefined ? text : t("{what}: {time} left", { what: text, time: formatClock(left) })}
    </button>
  );
}

const DOING: Readonly<Record<string, string>> = {
  diagnostic_agent: "{agent} is looking for causes",
  skeptic_agent: "{agent} is reviewing",
  diagnostic_rebuttal_agent: "{agent} is answering the review",
  moderator_agent: "{agent} is deciding",
};

function LiveLine(
  { summary: { round, maxRounds, doing, limited } }: { readonly summary: Summary },
): JSX.Element {
  const now = useNow(1000);
  const since = Date.parse(doing?.since ?? "");
  const wait = timeLeft(limited?.timestamp, limited?.seconds, now) ?? 0;
  const agent = agentName(doing?.node ?? "");
  const parts = [
    round > 0 && maxRounds !== undefined
      ? t("Round {round} of {most}", { round: Math.min(round, maxRounds), most: maxRounds })
      : "",
    doing === undefined
      ? ""
      : doing.tool !== undefined
      ? t("{agent} is running {tool}", { agent, tool: doing.tool })
      : t(DOING[doing.node] ?? "{agent} is working", { agent }),
    Number.isNaN(since) ? "" : formatDuration(Math.max(0, now - since) / 1000),
  ].filter((part) => part !== "");
  return (
    <span class="live-line">
      <span>{parts.length === 0 ? t("Starting …") : parts.join(" · ")}</span>
      {wait > 0 && (
        <Badge tone="warn" icon="clock">
          {t("Rate limited, retry {tries} in {time}", { tries: limited?.tries, time: formatClock(wait) })}
        </Badge>
      )}
    </span>
  );
}

function Verdict(
  { summary, status }: { readonly summary: Summary; readonly status: string },
): JSX.Element | null {
  const { decision, imported } = summary;
  if (decision === undefined) return null;
  const { tone, title } = verdictOf(summary, status);
  const share = `${percent(decision.confidence)}${imported ? t(" stated elsewhere ").trimEnd() : ""}`;
  // The end of a run is neutral. Its result has a color.
  return <b id="run-sure" class={tone === "good" ? "good" : ""}>{`${t(title)}, ${share}`}</b>;
}

function Stop({ runId }: { readonly runId: string }): JSX.Element {
  const [isBusy, attempt] = useAction();
  return (
    <button
      type="button"
      class="quiet"
      disabled={isBusy}
      onClick={() => attempt(() => ask(`/api/runs/${runId}`, { method: "DELETE" }))}
    >
      <Icon name="stop" />
      {t("Stop")}
    </button>
  );
}

function Delete({ runId }: { readonly runId: string }): JSX.Element {
  const [isBusy, attempt] = useAction();
  const remove = async () => {
    if (!confirm(t("Delete this run and its record?"))) return;
    await ask(`/api/runs/${runId}`, { method: "DELETE" });
    location.hash = "#/runs";
  };
  return (
    <button type="button" class="quiet" disabled={isBusy} onClick={() => attempt(remove)}>
      {t("Delete")}
    </button>
  );
}

/** The files of a run. The browser closes a popover on Escape and on a click elsewhere. */
function ShareMenu({ runId }: { readonly runId: string }): JSX.Element {
  const path = `/api/runs/${runId}`;
  return (
    <>
      <button type="button" id="share-button" popovertarget="share">
        <Icon name="download" />
        {t("Share")}
      </button>
      <div id="share" popover class="menu" onClick={({ currentTarget }) => currentTarget.hidePopover()}>
        <a href={`${path}/report`} download>{t("Report as Markdown")}</a>
        <a href={`${path}/report.html`} download>{t("Report as one HTML file")}</a>
        <a href={path} download={`run-${runId.slice(0, 8)}.json`}>
          {t("Record as JSON, for an import elsewhere")}
        </a>
      </div>
    </>
  );
}
