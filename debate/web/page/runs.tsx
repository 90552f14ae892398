import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Empty, Icon, Table, VisibleText } from "@gateway/shared/ui";
import { ask } from "./api.ts";
import { Pick } from "./controls.tsx";
import { formatDuration, percent } from "./format.ts";
import { t } from "./language.ts";
import { Reason, Since, useRuns } from "./lists.tsx";
import { useNow } from "./loaded.ts";
import { useAction, useNotices } from "./notices.tsx";
import { type Filter, modelsIn, nameOf, passes, stateOf } from "./run_list.ts";
import { dollarsOf, modelsOf, tokensOf } from "./summary.ts";
import type { ListedRun } from "./views.ts";

/** The number of rows that are added at a time. */
const PAGE = 50;
const AGE_MS = 10_000;

const STATES = [
  ["", t("All runs")],
  ["running", t("Running")],
  ["cause", t("Cause found")],
  ["no_confident_cause", t("No confident cause")],
  ["stopped", t("Stopped or failed")],
  ["imported", t("Imported")],
] as const;

/** The list of runs. */
export function Runs(): JSX.Element {
  const { announce } = useNotices();
  const [isBusy, attempt] = useAction();
  const [runs, reload, stale] = useRuns();
  const now = useNow(AGE_MS);
  const [filter, setFilter] = useState<Filter>({ search: "", state: "", model: "" });
  const [room, setRoom] = useState(PAGE);
  const [ticked, setTicked] = useState<readonly string[]>([]);
  const narrow = (part: Partial<Filter>) => {
    setFilter({ ...filter, ...part });
    setRoom(PAGE);
  };
  const kept = (runs ?? []).filter((run) => passes(run, filter));
  const chosen = ticked.filter((id) => kept.some(({ run_id }) => run_id === id));
  const remove = (run: ListedRun) => {
    const question = run.status === "running" ? t("Stop this run?") : t("Delete this run and its record?");
    // The question contains the title, because a refresh can move the rows.
    if (!confirm(`${question}\n\n${nameOf(run)}`)) return;
    attempt(async () => {
      await ask(`/api/runs/${run.run_id}`, { method: "DELETE" });
      await reload();
      // The row with the focus can be gone.
      if (document.activeElement === document.body) document.querySelector("h1")?.focus();
      announce(run.status === "running" ? t("The run stops") : t("Run deleted"));
    });
  };
  const importFile = (input: HTMLInputElement) =>
    attempt(async () => {
      const file = input.files?.[0];
      if (file === undefined) return;
      const { run_id } = await ask<{ readonly run_id: string }>("/api/runs/import", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: await file.text(),
      }).finally(() => input.value = "");
      location.hash = `#/runs/${run_id}`;
    });
  const showIncident = (run: ListedRun) => {
    const { run_id: id, parent_run_id: parent } = run;
    const name = nameOf(run);
    const models = modelsOf(run.models);
    const isTicked = chosen.includes(id);
    return (
      <div class="pick">
        <input
          type="checkbox"
          checked={isTicked}
          disabled={!isTicked && chosen.length >= 2}
          aria-label={t("Compare: {name}", { name })}
          onChange={({ currentTarget: { checked } }) =>
            setTicked(checked ? [...chosen, id] : chosen.filter((each) => each !== id))}
        />
        <div>
          <a class="name" href={`#/runs/${id}`}>
            <VisibleText text={name} lines limit={200} />
          </a>
          <Reason run={run} />
          <p class="note">
            {typeof parent === "string" && t("resumed")}
            {typeof parent === "string" && models !== "" && " · "}
            <VisibleText text={models} limit={200} />
          </p>
        </div>
      </div>
    );
  };
  const showRemoval = (run: ListedRun) => {
    const isLive = run.status === "running";
    const label = t(isLive ? "Stop: {name}" : "Delete: {name}", { name: nameOf(run) });
    return (
      <button
        type="button"
        class="quiet small act"
        aria-label={label}
        title={label}
        onClick={() => remove(run)}
      >
        <Icon name={isLive ? "stop" : "trash"} />
      </button>
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
            {chosen.length === 0 ? t("Compare") : t("Compare ({count} of 2)", { count: chosen.length })}
          </button>
          <label class="button">
            <Icon name="upload" />
            {t("Import")}
            <input
              class="unseen"
              type="file"
              accept=".json,application/json"
              disabled={isBusy}
              aria-label={t("Import a run from its JSON")}
              onChange={(event) => importFile(event.currentTarget)}
            />
          </label>
        </div>
      </div>
      <div class="filters" role="search">
        <label class="search">
          <span class="unseen">{t("Search")}</span>
          <Icon name="search" />
          <input
            id="runs-search"
            type="search"
            autocomplete="off"
            placeholder={t("Search title, incident, cause or model")}
            onInput={({ currentTarget: { value } }) => narrow({ search: value })}
          />
        </label>
        <Pick
          label={t("State")}
          isQuiet
          options={STATES}
          picked={filter.state}
          onPick={(state) => narrow({ state })}
        />
        <Pick
          label={t("Model")}
          isQuiet
          options={[["", t("All models")], ...modelsIn(runs ?? []).map((each) => [each, each] as const)]}
          picked={filter.model}
          onPick={(model) => narrow({ model })}
        />
      </div>
      <p class="note" role="status">
        {stale === "" ? "" : t("The list can be out of date: {why}", { why: stale })}
      </p>
      {runs?.length === 0 && (
        <Empty title={t("There are no runs yet")}>
          <a class="button" href="#/">{t("Start the first run")}</a>
        </Empty>
      )}
      {runs !== undefined && runs.length > 0 && kept.length === 0 && (
        <Empty icon="search" title={t("No run matches")} />
      )}
      {kept.length > 0 && (
        <div class="runs">
          <Table
            id="runs-table"
            caption={<span class="unseen">{t("Runs")}</span>}
            columns={[
              { name: t("Incident"), show: showIncident },
              { name: t("State"), show: showState },
              { name: t("Confidence"), show: showConfidence },
              { name: t("Started"), show: (run) => <Since time={run.timestamp} now={now} /> },
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

function showState(run: ListedRun): JSX.Element {
  const { tone, text } = stateOf(run);
  return <Badge tone={tone}>{text}</Badge>;
}

function showConfidence({ conclusion }: ListedRun): JSX.Element {
  const confidence = conclusion?.confidence;
  return typeof confidence === "number" ? <span class="count">{percent(confidence)}</span> : NOTHING;
}

function showCost({ duration_seconds: seconds, cost_estimate, token_totals }: ListedRun): JSX.Element {
  const usd = cost_estimate?.total_usd;
  if (typeof seconds !== "number") return NOTHING;
  return (
    <span class="count">
      {typeof usd === "number" ? dollarsOf(usd) : tokensOf(token_totals?.total)}
      <span class="sub">{formatDuration(seconds)}</span>
    </span>
  );
}
