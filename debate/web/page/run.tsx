import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { VisibleText } from "@gateway/shared/ui";
import { About, Resume } from "./about.tsx";
import { Answer } from "./answer.tsx";
import { Approvals } from "./approvals.tsx";
import { Board } from "./board.tsx";
import { CommentForm } from "./comment.tsx";
import { Conversation } from "./conversation.tsx";
import { type FollowedRun, useRun } from "./follow.ts";
import { formatAge } from "./format.ts";
import { t } from "./language.ts";
import { useNow } from "./loaded.ts";
import { RunMap } from "./map.tsx";
import { Part } from "./part.tsx";
import { Progress } from "./progress.tsx";
import { RunBar } from "./run_bar.tsx";
import { nameOf } from "./run_list.ts";
import { Shown, type Target } from "./shown.tsx";
import { modelsOf } from "./summary.ts";

/** A run: what it waits for, its answer, and the debate. */
export function RunPage({ runId }: { readonly runId: string }): JSX.Element {
  const [run, reload] = useRun(runId);
  const now = useNow(30_000);
  if (run === undefined) return <h1 tabIndex={-1}>{t("Run")}</h1>;
  const { record } = run;
  const origin = [t("Started {age}", { age: formatAge(record.timestamp, now) }), modelsOf(record.models)];
  return (
    <>
      <div class="run-head">
        <h1 tabIndex={-1}>
          <VisibleText text={nameOf(record)} lines />
        </h1>
        <p class="note">
          <VisibleText text={origin.filter((each) => each !== "").join(" · ")} lines />
        </p>
      </div>
      <Parts run={run} reload={reload} />
    </>
  );
}

/** What waits for the operator is first, so that a failure of another part cannot hide it. */
function Parts({ run, reload }: {
  readonly run: FollowedRun;
  readonly reload: () => Promise<unknown>;
}): JSX.Element {
  const { record, settings, summary, events, live, isOver } = run;
  const { approvals, pausedAt, hypotheses } = summary;
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
      <Part
        of={[summary]}
        show={() => (
          <Approvals
            runId={record.run_id}
            calls={[...approvals.values()]}
            seconds={settings.approval_timeout_seconds}
          />
        )}
      />
      {pausedAt !== undefined && (
        <Part
          key={pausedAt}
          of={[summary]}
          show={() => (
            <CommentForm
              runId={record.run_id}
              since={pausedAt}
              seconds={settings.comment_timeout_seconds}
              hypotheses={hypotheses}
            />
          )}
        />
      )}
      {!isOver && <Part of={[summary, live]} show={() => <Progress run={run} />} />}
      <Part of={[summary, record]} show={() => <Answer run={run} />} />
      {isOver && <Part of={[record]} show={() => <Resume run={run} />} />}
      <Part of={[summary]} show={() => <Board summary={summary} />} />
      <Part of={[summary]} show={() => <RunMap summary={summary} />} />
      <Part of={[record]} show={() => <About record={record} />} />
      <Part
        of={[events, live, isOver, record]}
        show={() => (
          <Conversation events={events} live={live} isOver={isOver} models={record.models ?? undefined} />
        )}
      />
    </Shown.Provider>
  );
}
