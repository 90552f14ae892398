import type { ComponentChildren, JSX } from "preact";
import { Badge, VisibleText } from "@gateway/shared/ui";
import { formatAge, formatTime } from "./format.ts";
import { t } from "./language.ts";
import { useLoaded } from "./loaded.ts";
import { nameOf, severityTone, stateOf, STATES } from "./run_list.ts";
import { sentenceOf } from "./summary.ts";
import type { Answer, ListedRun, RunsView } from "./views.ts";

/** The time between two refreshes of a list. */
export const REFRESH_MS = 5000;
/** More alerts are folded, and more runs are on their page. */
const MAX_ENTRIES = 5;

/** The open alerts, newest first. Without alerts, nothing is shown. */
export function OpenAlerts(): JSX.Element | null {
  const [{ alerts } = { alerts: [] }] = useLoaded<Answer<"alerts">>("/api/alerts", REFRESH_MS);
  if (alerts.length === 0) return null;
  const entries = alerts.map(({ id, title, severity, since, count, run_id, status, outcome }) => (
    <Entry
      key={id}
      name={title}
      runId={run_id}
      tone={severityTone(severity)}
      state={status === null
        ? <Badge tone="idle">{t("No run yet")}</Badge>
        : <StateBadge run={{ status, conclusion: { outcome } }} />}
      time={since}
    >
      <p class="note">
        <b class="severity">
          <VisibleText text={severity} limit={40} />
        </b>
        {count > 1 && ` · ${t("reported {count} times", { count })}`}
      </p>
    </Entry>
  ));
  return (
    <section aria-labelledby="alerts-title">
      <h2 id="alerts-title">{t("Open alerts")}</h2>
      <ul class="list">{entries.slice(0, MAX_ENTRIES)}</ul>
      {entries.length > MAX_ENTRIES && (
        <details class="more">
          <summary>{t("Show all {count}", { count: entries.length })}</summary>
          <ul class="list">{entries.slice(MAX_ENTRIES)}</ul>
        </details>
      )}
    </section>
  );
}

/** The newest runs, those in progress first. */
export function RecentRuns(): JSX.Element | null {
  const [{ runs } = { runs: [] }] = useLoaded<RunsView>("/api/runs", REFRESH_MS);
  if (runs.length === 0) return null;
  const inProgress = runs.filter(({ status }) => status === "running");
  const recent = [...new Set([...inProgress, ...runs])].slice(0, MAX_ENTRIES);
  return (
    <section aria-labelledby="recent-title">
      <div class="head">
        <h2 id="recent-title">{t("Recent runs")}</h2>
        <a class="actions note" href="#/runs">{t("All runs")}</a>
      </div>
      <ul class="list">
        {recent.map((run) => (
          <Entry
            key={run.run_id}
            name={nameOf(run)}
            runId={run.run_id}
            state={<StateBadge run={run} />}
            time={run.timestamp}
          >
            <Reason run={run} />
          </Entry>
        ))}
      </ul>
    </section>
  );
}

function Entry({ name, runId, tone = "idle", state, time, children }: {
  readonly name: string;
  readonly runId: string | null;
  readonly tone?: string;
  readonly state: JSX.Element;
  readonly time: string | null;
  readonly children: ComponentChildren;
}): JSX.Element {
  const text = <VisibleText text={name} lines limit={200} />;
  return (
    <li class={`entry row ${tone}`}>
      <div class="main">
        <p class="name">{runId === null ? text : <a href={`#/runs/${runId}`}>{text}</a>}</p>
        {children}
      </div>
      {state}
      <span class="note when">
        <Since time={time} />
      </span>
    </li>
  );
}

export function StateBadge({ run }: { readonly run: Parameters<typeof stateOf>[0] }): JSX.Element {
  const { tone, text } = STATES[stateOf(run)];
  return <Badge tone={tone}>{text}</Badge>;
}

/** A relative time, with the exact one as its title. A refresh of the list updates it. */
export function Since({ time }: { readonly time: string | null }): JSX.Element {
  return <time dateTime={time ?? ""} title={formatTime(time)}>{formatAge(time, Date.now())}</time>;
}

/** The cause of a run, or the reason of its failure. */
export function Reason({ run }: { readonly run: ListedRun }): JSX.Element | null {
  const failure = run.status === "error" ? run.problem ?? "" : "";
  const text = failure || sentenceOf(run.conclusion?.cause ?? "");
  if (text === "") return null;
  return (
    <p class={`note reason ${failure === "" ? "" : "failure"}`}>
      <VisibleText text={text} lines limit={300} />
    </p>
  );
}
