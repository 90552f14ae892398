import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Empty, Icon, Table, VisibleText } from "@gateway/shared/ui";
import { formatDuration } from "../../report/duration.ts";
import { ask } from "./api.ts";
import { FilePick, Pick } from "./controls.tsx";
import { DialogButton } from "./dialog.tsx";
import { percent } from "./format.ts";
import { t } from "./language.ts";
import { Reason, REFRESH_MS, Since, StateBadge } from "./lists.tsx";
import { useLoaded } from "./loaded.ts";
import { useAction, useNotices } from "./notices.tsx";
import { costOf, nameOf, passes, STATES } from "./run_list.ts";
import { modelsOf } from "./summary.ts";
import type { Answer, ListedRun, RunsView } from "./views.ts";

/** The number of rows that are added at a time. */
const PAGE = 50;

const STATE_CHOICES = [
  ["", t("All runs")],
  ...Object.entries(STATES).map(([state, { text }]) => [state, text] as const),
] as const;

export function Runs(): JSX.Element {
  const { announce } = useNotices();
  const [, attempt] = useAction();
  const [view, reload, stale] = useLoaded<RunsView>("/api/runs", REFRESH_MS);
  const [search, setSearch] = useState("");
  const [state, setState] = useState("");
  const [room, setRoom] = useState(PAGE);
  const [ticked, setTicked] = useState<readonly string[]>([]);
  const runs = view?.runs ?? [];
  const kept = runs.filter((run) => passes(run, search, state));
  const chosen = ticked.filter((id) => kept.some(({ run_id }) => run_id === id));
  const remove = ({ run_id, status }: ListedRun) =>
    attempt(async () => {
      await ask(`/api/runs/${run_id}`, { method: "DELETE" });
      await reload();
      // The row with the focus can be gone.
      if (document.activeElement === document.body) document.querySelector("h1")?.focus();
      announce(status === "running" ? t("The run stops") : t("Run deleted"));
    });
  const importRun = ([file]: readonly File[]) =>
    attempt(async () => {
      const headers = { "content-type": "application/json" };
      const body = await file?.text() ?? "";
      const { run_id } = await ask<Answer<"started">>("/api/runs/import", { method: "POST", headers, body });
      location.hash = `#/runs/${run_id}`;
    });
  const showIncident = (run: ListedRun) => {
    const { run_id: id } = run;
    const name = nameOf(run);
    const isTicked = chosen.includes(id);
    return (
      <div class="pick">
        <input
          type="checkbox"
          checked={isTicked}
          disabled={!isTicked && chosen.length >= 2}
          aria-label={t("Compare: {name}", { name })}
          onChange={() => setTicked(isTicked ? chosen.filter((each) => each !== id) : [...chosen, id])}
        />
        <div>
          <a class="name" href={`#/runs/${id}`}>
            <VisibleText text={name} lines limit={200} />
          </a>
          <Reason run={run} />
          <p class="note">
            <VisibleText text={modelsOf(run.models)} limit={200} />
          </p>
        </div>
      </div>
    );
  };
  const showRemoval = (run: ListedRun) => {
    const isLive = run.status === "running";
    const label = t(isLive ? "Stop: {name}" : "Delete: {name}", { name: nameOf(run) });
    return (
      // A run that ends while the dialog is open must not be deleted by the button that stops it.
      <DialogButton
        button={{
          class: "quiet small act",
          title: label,
          "aria-label": label,
          children: <Icon name={isLive ? "stop" : "trash"} />,
        }}
        title={isLive ? t("Stop this run?") : t("Delete this run and its record?")}
        verb={isLive ? t("Stop") : t("Delete")}
        isDanger
        act={() => remove(run)}
      >
        <p>
          <VisibleText text={nameOf(run)} lines limit={200} />
        </p>
      </DialogButton>
    );
  };
  return (
    <>
      <div class="head">
        <h1 tabIndex={-1}>{t("Runs")}</h1>
        <div class="actions">
          <button
            type="button"
            disabled={chosen.length !== 2}
            title={t("Select two runs to compare them")}
            onClick={() => location.hash = `#/compare/${chosen.join("/")}`}
          >
            <Icon name="compare" />
            {t("Compare ({count} of 2)", { count: chosen.length })}
          </button>
          <FilePick label={t("Import")} icon="upload" onPick={importRun} />
        </div>
      </div>
      <div class="filters row" role="search">
        <label class="search">
          <span class="unseen">{t("Search")}</span>
          <Icon name="search" />
          <input
            id="runs-search"
            type="search"
            autocomplete="off"
            placeholder={t("Search title, incident, cause or model")}
            onInput={({ currentTarget: { value } }) => setSearch(value)}
          />
        </label>
        <Pick label={t("State")} isQuiet options={STATE_CHOICES} picked={state} onPick={setState} />
      </div>
      <p class="note" role="status">
        {stale === "" ? "" : t("The list can be out of date: {why}", { why: stale })}
      </p>
      {view !== undefined && kept.length === 0 && (
        <Empty title={runs.length === 0 ? t("There are no runs yet") : t("No run matches")}>
          <a class="button" href="#/">{t("New run")}</a>
        </Empty>
      )}
      {kept.length > 0 && (
        <div class="runs">
          <Table
            id="runs-table"
            caption={<span class="unseen">{t("Runs")}</span>}
            columns={[
              { name: t("Incident"), show: showIncident },
              { name: t("State"), show: (run) => <StateBadge run={run} /> },
              { name: t("Confidence"), show: showConfidence },
              { name: t("Started"), show: (run) => <Since time={run.timestamp} /> },
              { name: t("Cost"), show: showCost },
              { name: t("Actions"), isNameHidden: true, show: showRemoval },
            ]}
            rows={kept.slice(0, room)}
            keyOf={({ run_id }) => run_id}
          />
        </div>
      )}
      {kept.length > room && (
        <div class="actions">
          <button type="button" onClick={() => setRoom(room + PAGE)}>{t("Show more")}</button>
        </div>
      )}
    </>
  );
}

const NOTHING = <span class="nothing">–</span>;

function showConfidence({ conclusion }: ListedRun): JSX.Element {
  return conclusion === null ? NOTHING : <span class="count">{percent(conclusion.confidence)}</span>;
}

function showCost(run: ListedRun): JSX.Element {
  const { duration_seconds: seconds } = run;
  return seconds === null ? NOTHING : (
    <span class="count">
      {costOf(run)}
      <span class="sub">{formatDuration(seconds)}</span>
    </span>
  );
}
