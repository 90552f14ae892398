import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Badge, Icon, type Tone } from "@gateway/shared/ui";
import { formatDuration } from "../../report/duration.ts";
import { ask, send } from "./api.ts";
import { DialogButton } from "./dialog.tsx";
import { agentName } from "./evidence.tsx";
import type { FollowedRun } from "./follow.ts";
import { formatClock } from "./format.ts";
import { goTo } from "./help.tsx";
import { t } from "./language.ts";
import { useLoaded, useNow } from "./loaded.ts";
import { useAction } from "./notices.tsx";
import { notify } from "./notify.ts";
import { TimeLeft } from "./part.tsx";
import { type Summary, timeLeft } from "./summary.ts";
import type { AccessView } from "./views.ts";

/** The provider with a login. */
const ASSIST = "assist";

const TONES: Readonly<Record<string, Tone>> = { running: "accent", error: "bad", interrupted: "warn" };

/** The state of a run in a line that stays in view, with what it waits for and its actions. */
export function RunBar({ run, reload }: {
  readonly run: FollowedRun;
  readonly reload: () => Promise<unknown>;
}): JSX.Element {
  const { record, summary, isOver, isBehind, isConnected } = run;
  const status = record.status ?? "unknown";
  const wait = waitOf(run);
  const canNeedLogin = (status === "running" || status === "error") &&
    Object.values(record.models ?? {}).some((id) => id.startsWith(`${ASSIST}/`));
  const [access] = useLoaded<AccessView>(canNeedLogin ? "/api/auth/status" : undefined);
  const needsLogin = canNeedLogin && access !== undefined &&
    !(access.copilot_configured && access.copilot_session_valid);
  const asks = wait !== undefined || needsLogin;
  const [isBusy, attempt] = useAction();
  const path = `/api/runs/${record.run_id}`;
  const end = () => ask(path, { method: "DELETE" });
  const rename = async (title: unknown) => {
    await send(`${path}/title`, { title });
    await reload();
  };
  const remove = async () => {
    await end();
    location.hash = "#/runs";
  };
  useEffect(() => {
    if (wait !== undefined && !isBehind) notify(record, wait.key, wait.text);
  }, [wait?.key, isBehind]);
  return (
    <div id="run-bar" class="row">
      <Badge tone={asks ? "warn" : TONES[status] ?? "idle"}>
        <span id="run-status">{t(asks && !isOver ? "waits for you" : status)}</span>
      </Badge>
      {wait !== undefined
        ? (
          <button type="button" id="run-asked" class="quiet" onClick={goTo("waiting")}>
            {`${wait.text} `}
            <TimeLeft since={wait.since} seconds={wait.seconds} />
          </button>
        )
        : needsLogin
        ? <a id="run-asked" href="#/login">{t("Log in to {provider}", { provider: ASSIST })}</a>
        : !isOver && <LiveLine summary={summary} />}
      <span class="note" role="status">
        {!isConnected && !isOver && t("Connection lost. Reconnecting …")}
      </span>
      <div class="actions">
        {isOver
          ? (
            <>
              <ShareMenu runId={record.run_id} />
              <DialogButton
                button={{ disabled: isBusy, children: t("Rename") }}
                title={t("Rename the run")}
                verb={t("Rename")}
                act={(fields) => attempt(() => rename(fields.get("title")))}
              >
                <label>
                  {t("Title")}
                  <span class="note">{t("replaces the beginning of the incident")}</span>
                  <input name="title" autocomplete="off" defaultValue={record.title ?? ""} />
                </label>
              </DialogButton>
              <DialogButton
                button={{ disabled: isBusy, children: t("Delete") }}
                title={t("Delete this run and its record?")}
                verb={t("Delete")}
                isDanger
                act={() => attempt(remove)}
              />
            </>
          )
          : (
            <button type="button" class="quiet" disabled={isBusy} onClick={() => attempt(end)}>
              <Icon name="stop" />
              {t("Stop")}
            </button>
          )}
      </div>
    </div>
  );
}

interface Wait {
  readonly key: string;
  readonly text: string;
  readonly since: string | undefined;
  readonly seconds: number;
}

/** The pending request of a run. */
function waitOf({ summary: { approvals, pausedAt }, settings }: FollowedRun): Wait | undefined {
  const [asked] = approvals.values();
  if (asked !== undefined) {
    const { call_id: key, tool_name: tool, timestamp: since } = asked;
    return { key, text: t("Decide on {tool}", { tool }), since, seconds: settings.approval_timeout_seconds };
  }
  if (pausedAt === undefined) return undefined;
  const text = t("Comment, or continue");
  return { key: pausedAt, text, since: pausedAt, seconds: settings.comment_timeout_seconds };
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
  const wait = timeLeft(limited?.timestamp, limited?.seconds, now) ?? 0;
  const parts: string[] = [];
  if (maxRounds !== undefined) {
    parts.push(t("Round {round} of {most}", { round: Math.min(round, maxRounds), most: maxRounds }));
  }
  if (doing !== undefined) {
    const { node, tool, since } = doing;
    const words = tool === undefined ? DOING[node] ?? "{agent} is working" : "{agent} is running {tool}";
    parts.push(t(words, { agent: agentName(node), tool }));
    const begun = Date.parse(since ?? "");
    if (!Number.isNaN(begun)) parts.push(formatDuration(Math.max(0, now - begun) / 1000));
  }
  return (
    <span class="live-line row">
      <span>{parts.length === 0 ? t("Starting …") : parts.join(" · ")}</span>
      {wait > 0 && (
        <Badge tone="warn" icon="clock">
          {t("Rate limited, retry {tries} in {time}", { tries: limited?.tries, time: formatClock(wait) })}
        </Badge>
      )}
    </span>
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
