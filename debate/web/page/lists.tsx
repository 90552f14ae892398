import type { JSX } from "preact";
import { Badge, VisibleText } from "@gateway/shared/ui";
import { formatAge, formatTime } from "./format.ts";
import { t } from "./language.ts";
import { useLoaded, useNow } from "./loaded.ts";
import { nameOf, recentRuns, severityTone, stateOf } from "./run_list.ts";
import { sentenceOf } from "./summary.ts";
import type { AlertView, ListedRun } from "./views.ts";

const REFRESH_MS = 5000;
const IDLE_REFRESH_MS = 15_000;
const AGE_MS = 10_000;
const MAX_RECENT = 5;

/** The runs of the server, refreshed while something runs. */
export function useRuns(): readonly [
  runs: readonly ListedRun[] | undefined,
  reload: () => Promise<void>,
  stale: string,
] {
  const [view, reload, stale] = useLoaded<{ readonly runs: readonly ListedRun[] }>(
    "/api/runs",
    ({ runs }) => runs.some(({ status }) => status === "running") ? REFRESH_MS : IDLE_REFRESH_MS,
  );
  return [view?.runs, reload, stale];
}

/** The open alerts. Without alerts, nothing is shown. */
export function OpenAlerts(): JSX.Element | null {
  const [view] = useLoaded<{ readonly alerts: readonly AlertView[] }>("/api/alerts", REFRESH_MS);
  const now = useNow(AGE_MS);
  if (view === undefined || view.alerts.length === 0) return null;
  return (
    <section aria-labelledby="alerts-title">
      <h2 id="alerts-title">{t("Open alerts")}</h2>
      <ul class="entries" id="alerts-list">
        {view.alerts.map((alert) => <Alert key={alert.id} alert={alert} now={now} />)}
      </ul>
    </section>
  );
}

function Alert({ alert, now }: { readonly alert: AlertView; readonly now: number }): JSX.Element {
  const { title, severity, since, count, run_id, status, outcome } = alert;
  const state = status === null
    ? { tone: "idle", text: t("No run yet") } as const
    : stateOf({ status, conclusion: { cause: "", confidence: null, outcome } });
  const name = <VisibleText text={title} lines limit={200} />;
  return (
    <li class={`entry ${severityTone(severity)}`}>
      <div class="main">
        <p class="name">{run_id === null ? name : <a href={`#/runs/${run_id}`}>{name}</a>}</p>
        <p class="note">
          {severity !== "" && (
            <b class="severity">
              <VisibleText text={severity} limit={40} />
            </b>
          )}
          {severity !== "" && " · "}
          <Since time={since} now={now} />
          {count > 1 && ` · ${t("reported {count} times", { count })}`}
        </p>
      </div>
      <Badge tone={state.tone}>{state.text}</Badge>
    </li>
  );
}

/** A relative time, with the exact one as its title. */
export function Since(
  { time, now }: { readonly time: string | null | undefined; readonly now: number },
): JSX.Element {
  return <time dateTime={time ?? ""} title={formatTime(time)}>{formatAge(time, now)}</time>;
}

/** The newest runs, those in progress first. */
export function RecentRuns(): JSX.Element | null {
  const [runs] = useRuns();
  const now = useNow(AGE_MS);
  if (runs === undefined || runs.length === 0) return null;
  return (
    <section aria-labelledby="recent-title">
      <div class="head">
        <h2 id="recent-title">{t("Recent runs")}</h2>
        <a class="actions note" href="#/runs">{t("All runs")}</a>
      </div>
      <ul class="entries" id="recent-list">
        {recentRuns(runs, MAX_RECENT).map((run) => {
          const state = stateOf(run);
          return (
            <li key={run.run_id} class="entry">
              <div class="main">
                <p class="name">
                  <a href={`#/runs/${run.run_id}`}>
                    <VisibleText text={nameOf(run)} lines limit={200} />
                  </a>
                </p>
                <Reason run={run} />
              </div>
              <Badge tone={state.tone}>{state.text}</Badge>
              <span class="note when">
                <Since time={run.timestamp} now={now} />
              </span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** The cause of a run, or the reason of its failure. */
export function Reason({ run }: { readonly run: ListedRun }): JSX.Element | null {
  const isFailed = run.status === "error" && typeof run.problem === "string" && run.problem !== "";
  const text = isFailed ? run.problem ?? "" : sentenceOf(run.conclusion?.cause ?? "");
  if (text === "") return null;
  return (
    <p class={`note reason ${isFailed ? "failure" : ""}`}>
      <VisibleText text={text} lines limit={300} />
    </p>
  );
}
