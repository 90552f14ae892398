import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Code, VisibleText } from "@gateway/shared/ui";
import { Answer } from "./answer.tsx";
import { sendForm } from "./api.ts";
import { Approvals, CommentForm } from "./approvals.tsx";
import { Board } from "./board.tsx";
import { Conversation } from "./conversation.tsx";
import { type FollowedRun, useRun } from "./follow.ts";
import { formatAge, formatTime } from "./format.ts";
import { t } from "./language.ts";
import { useNow } from "./loaded.ts";
import { RunMap } from "./map.tsx";
import { useAction } from "./notices.tsx";
import { Fold, Part } from "./part.tsx";
import { Progress } from "./progress.tsx";
import { RunBar } from "./run_bar.tsx";
import { nameOf } from "./run_list.ts";
import { Shown, type Target } from "./shown.tsx";
import { modelsOf } from "./summary.ts";
import type { RunView } from "./views.ts";

/** A run: what it waits for, its answer, and the debate. */
export function RunPage({ runId }: { readonly runId: string }): JSX.Element {
  const [run, reload] = useRun(runId);
  return (
    <>
      <div class="stack tight">
        {/* The same element before and after the load, so that it keeps the focus. */}
        <h1 tabIndex={-1}>
          <VisibleText text={run === undefined ? t("Run") : nameOf(run.record)} lines />
        </h1>
        {run !== undefined && <Origin record={run.record} />}
      </div>
      {run !== undefined && <Parts run={run} reload={reload} />}
    </>
  );
}

/** When and how a run started. */
function Origin({ record }: { readonly record: RunView }): JSX.Element {
  const { timestamp, models, template, language, imported, imported_at, parent_run_id: parent } = record;
  const origin = [
    t("Started {age}", { age: formatAge(timestamp, useNow(30_000)) }),
    formatTime(timestamp),
    modelsOf(models),
    template ? t("template {name}", { name: `${template} (${language})` }) : "",
    imported ? t("imported {time}, not checked here", { time: formatTime(imported_at) }) : "",
  ];
  return (
    <p class="note">
      <VisibleText text={origin.filter((each) => each !== "").join(" · ")} lines />
      {parent && (
        <>
          {" · "}
          <a href={`#/runs/${encodeURIComponent(parent)}`}>
            {t("Resumes {run}", { run: parent.slice(0, 8) })}
          </a>
        </>
      )}
    </p>
  );
}

/** What waits for the operator is first, so that a failure of another part cannot hide it. */
function Parts({ run, reload }: {
  readonly run: FollowedRun;
  readonly reload: () => Promise<unknown>;
}): JSX.Element {
  const { record, summary, events, live, isOver } = run;
  const { approvals, pausedAt } = summary;
  const [target, show] = useState<Target>();
  const shown = useMemo(() => ({ target, show }), [target]);
  const isWaiting = approvals.size > 0 || pausedAt !== undefined;
  const title = nameOf(record);
  useEffect(() => {
    document.title = `${isWaiting ? t("Waiting for you: ") : ""}${title} – ${t("Diagnosis debate")}`;
  }, [isWaiting, title]);
  return (
    <Shown.Provider value={shown}>
      <Part of={[run]} show={() => <RunBar run={run} reload={reload} />} />
      <Part of={[summary]} show={() => <Approvals run={run} />} />
      {pausedAt !== undefined && (
        <Part
          key={pausedAt}
          of={[summary]}
          show={() => <CommentForm run={run} />}
        />
      )}
      {!isOver && <Part of={[summary, live]} show={() => <Progress run={run} />} />}
      <Part of={[summary, record]} show={() => <Answer run={run} />} />
      {isOver && <Part of={[record]} show={() => <Resume run={run} />} />}
      <Part of={[summary]} show={() => <Board summary={summary} isOpen={!isOver} />} />
      <Part of={[summary]} show={() => <RunMap summary={summary} />} />
      <Fold title={t("The incident as described")}>
        <Code>
          <VisibleText text={record.topic ?? ""} lines />
        </Code>
      </Fold>
      <Part
        of={[events, live, isOver, record]}
        show={() => (
          <Conversation events={events} live={live} isOver={isOver} models={record.models ?? undefined} />
        )}
      />
    </Shown.Provider>
  );
}

/** A new run that begins with what this one found. */
function Resume({ run: { record, settings } }: { readonly run: FollowedRun }): JSX.Element {
  const [isBusy, attempt] = useAction();
  const isOptional = record.status === "error" || record.status === "interrupted";
  const submit = async (form: HTMLFormElement) => {
    const { run_id } = await sendForm<{ run_id: string }>(`/api/runs/${record.run_id}/resume`, form);
    location.hash = `#/runs/${run_id}`;
  };
  return (
    <Fold title={t("Continue with new evidence")}>
      <form
        id="resume-form"
        onSubmit={(event) => {
          event.preventDefault();
          const form = event.currentTarget;
          attempt(() => submit(form));
        }}
      >
        <label>
          {t("New evidence")}
          {isOptional && <span class="note">{t("optional after a failed run")}</span>}
          <textarea name="new_evidence" rows={4} />
        </label>
        <label>
          {t("Files")}
          <input type="file" name="evidence_file" multiple />
        </label>
        <label class="check">
          <input type="checkbox" name="require_approval" defaultChecked={settings.tool_approval_required} />
          {t("Ask me before sensitive tools run")}
        </label>
        <label class="check">
          <input type="checkbox" name="pause_between_rounds" />
          {t("Pause between rounds for my comments")}
        </label>
        <p class="actions">
          <button type="submit" class="primary" disabled={isBusy}>{t("Start a new run from here")}</button>
        </p>
      </form>
    </Fold>
  );
}
