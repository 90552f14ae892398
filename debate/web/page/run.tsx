import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { VisibleText } from "@gateway/shared/ui";
import { About, Resume } from "./about.tsx";
import { Answer } from "./answer.tsx";
import { ask, send } from "./api.ts";
import { Approvals } from "./approvals.tsx";
import { Board } from "./board.tsx";
import { CommentForm } from "./comment.tsx";
import { Conversation } from "./conversation.tsx";
import { type FollowedRun, useRun } from "./follow.ts";
import { formatAge } from "./format.ts";
import { t } from "./language.ts";
import { useNow } from "./loaded.ts";
import { RunMap } from "./map.tsx";
import { useAction, useNotices } from "./notices.tsx";
import { notify } from "./notify.ts";
import { Part } from "./part.tsx";
import { Progress } from "./progress.tsx";
import { RunBar } from "./run_bar.tsx";
import { Shown, type Target } from "./shown.tsx";
import { modelsOf, titleOf } from "./summary.ts";
import type { AccessView, RunView } from "./views.ts";

/** A run: what it waits for, its answer, and the debate. */
export function RunPage({ runId }: { readonly runId: string }): JSX.Element {
  const [run, reload] = useRun(runId);
  const [isRenamed, setRenamed] = useState(false);
  const title = run === undefined ? t("Run") : titleOfRun(run.record);
  useTitle(run, title);
  const endRename = () => {
    setRenamed(false);
    requestAnimationFrame(() => document.querySelector("h1")?.focus());
  };
  return (
    <>
      <div class="run-head">
        {isRenamed && run !== undefined
          ? <Rename record={run.record} onDone={endRename} reload={reload} />
          : (
            <h1 id="run-title" tabIndex={-1}>
              <VisibleText text={title} lines />
            </h1>
          )}
        {run !== undefined && <Origin record={run.record} />}
      </div>
      {run !== undefined && <Parts run={run} title={title} onRename={() => setRenamed(true)} />}
    </>
  );
}

/** What waits for the operator is first, so that a failure of another part cannot hide it. */
function Parts({ run, title, onRename }: {
  readonly run: FollowedRun;
  readonly title: string;
  readonly onRename: () => void;
}): JSX.Element {
  const { record, settings, summary, events, live, isOver } = run;
  const [target, show] = useState<Target>();
  const shown = useMemo(() => ({ target, show }), [target]);
  const needsLogin = useLogin(record);
  const isRunning = record.status === "running";
  const { pausedAt } = summary;
  return (
    <Shown.Provider value={shown}>
      <Part>
        <RunBar run={run} title={title} needsLogin={needsLogin} onRename={onRename} />
      </Part>
      {!isOver && (
        <Part>
          <Approvals
            runId={record.run_id}
            calls={[...summary.approvals.values()]}
            seconds={settings.approval_timeout_seconds}
          />
          {pausedAt !== undefined && (
            <CommentForm
              key={pausedAt}
              runId={record.run_id}
              since={pausedAt}
              seconds={settings.comment_timeout_seconds}
              hypotheses={summary.hypotheses}
            />
          )}
        </Part>
      )}
      {isRunning && !isOver && (
        <Part>
          <Progress run={run} />
        </Part>
      )}
      {useMemo(() => (
        <Part>
          <Answer run={run} />
        </Part>
      ), [summary, record])}
      {!isRunning && (
        <Part>
          <Resume run={run} />
        </Part>
      )}
      {useMemo(() => (
        <Part>
          <Board summary={summary} />
        </Part>
      ), [summary])}
      {useMemo(() => (
        <Part>
          <RunMap summary={summary} />
        </Part>
      ), [summary])}
      {useMemo(() => (
        <Part>
          <About run={run} />
        </Part>
      ), [record])}
      {useMemo(
        () => (
          <Part>
            <Conversation events={events} live={live} isOver={isOver} models={record.models ?? undefined} />
          </Part>
        ),
        [events, live, isOver, record],
      )}
    </Shown.Provider>
  );
}

function titleOfRun({ title, topic }: RunView): string {
  return title || titleOf(topic) || t("Run without a topic");
}

/** The title of the window says that a run waits. The end of a run is notified once. */
function useTitle(run: FollowedRun | undefined, title: string): void {
  const { record, summary, isOver = true } = run ?? {};
  const isWaiting = !isOver && summary !== undefined &&
    (summary.approvals.size > 0 || summary.pausedAt !== undefined);
  useEffect(() => {
    if (run === undefined) return;
    document.title = `${isWaiting ? t("Waiting for you: ") : ""}${title} – ${t("Diagnosis debate")}`;
  }, [run === undefined, isWaiting, title]);
  const [first, setFirst] = useState<string | null>();
  const status = record?.status;
  useEffect(() => {
    if (record === undefined) return;
    if (first === undefined) return setFirst(status ?? null);
    if (first !== "running" || status === "running") return;
    notify(
      { id: record.run_id, title },
      "end",
      t("The run has ended: {status}.", { status: t(status ?? "") }),
    );
  }, [status, first]);
}

/** A model of the run needs a missing login at provider B. */
function useLogin({ status, models }: RunView): boolean {
  const [isMissing, setMissing] = useState(false);
  const isAsked = (status === "running" || status === "error") &&
    Object.values(models ?? {}).some((id) => id.startsWith("assist/"));
  useEffect(() => {
    if (!isAsked) return setMissing(false);
    ask<AccessView>("/api/auth/status").then(
      (access) => setMissing(!access.copilot_configured || !access.copilot_session_valid),
      () => {},
    );
  }, [isAsked]);
  return isMissing;
}

function Origin({ record }: { readonly record: RunView }): JSX.Element {
  const now = useNow(30_000);
  const parts = [t("Started {age}", { age: formatAge(record.timestamp, now) }), modelsOf(record.models)]
    .filter((each) => each !== "");
  return (
    <p class="note">
      <VisibleText text={parts.join(" · ")} lines />
    </p>
  );
}

function Rename({ record, onDone, reload }: {
  readonly record: RunView;
  readonly onDone: () => void;
  readonly reload: () => Promise<unknown>;
}): JSX.Element {
  const { announce } = useNotices();
  const [isBusy, attempt] = useAction();
  useLayoutEffect(() => document.querySelector<HTMLElement>("#title-form input")?.focus(), []);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget;
    if (!(form instanceof HTMLFormElement)) return;
    const title = String(new FormData(form).get("title") ?? "");
    attempt(async () => {
      await send(`/api/runs/${record.run_id}/title`, { title });
      await reload();
      announce(t("Renamed."));
      onDone();
    });
  };
  return (
    <form id="title-form" class="row" onSubmit={submit}>
      <h1 class="unseen" tabIndex={-1}>{titleOfRun(record)}</h1>
      <label>
        {t("Title")}
        <span class="note">{t("replaces the beginning of the incident")}</span>
        <input name="title" maxLength={200} autocomplete="off" defaultValue={record.title ?? ""} />
      </label>
      <div class="actions">
        <button type="submit" class="primary" disabled={isBusy}>{t("Save")}</button>
        <button type="button" onClick={onDone}>{t("Cancel")}</button>
      </div>
    </form>
  );
}
