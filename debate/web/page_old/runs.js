/** @import { ListedRun } from "./types.js" */

import { announce, ask, attempt, find, formatDuration, formatTime, get, make, whyOf } from "./api.js";
import { percent } from "./drawing.js";
import { dollarsOf, modelsOf, titleOf, tokensOf } from "./summary.js";
import { plain, visible } from "./visible.js";
import { t } from "./language.js";

/** Refresh interval of the visible list, in milliseconds. */
const REFRESH_MS = 3000;

/** @type {number | undefined} */
let timer;
let isShown = false;
/**
 * A fingerprint of the shown rows, to detect changes.
 * @type {string | undefined}
 */
let listed;

/** Shows the list of runs and refreshes it. */
export async function showRuns() {
  isShown = true;
  listed = undefined;
  try {
    await refresh();
  } finally {
    again();
  }
}

/** Stops the refresh. */
export function leaveRuns() {
  isShown = false;
  clearTimeout(timer);
}

function again() {
  clearTimeout(timer);
  if (isShown) timer = setTimeout(refreshQuietly, REFRESH_MS);
}

async function refreshQuietly() {
  try {
    if (!document.hidden) await refresh();
  } catch (error) {
    if (isShown) {
      get("runs-note").textContent = t("The list may be out of date: {why}.", { why: whyOf(error) });
    }
  } finally {
    again();
  }
}

async function refresh() {
  /** @type {{ readonly runs: readonly ListedRun[] }} */
  const { runs } = await ask("/api/runs");
  if (!isShown) return;
  get("runs-note").textContent = "";
  const text = JSON.stringify(runs);
  if (text === listed) return;
  listed = text;
  all = runs;
  listModels();
  draw();
}

/** Number of rows that are added at a time. */
const PAGE = 50;

/** @type {readonly ListedRun[]} */
let all = [];
let room = PAGE;
/**
 * The selected runs in their order.
 * @type {readonly string[]}
 */
let ticked = [];

function draw() {
  const words = get("runs-search").value.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const kept = all.filter((run) =>
    passes(run, get("runs-filter").value) && hasModel(run, get("runs-model").value) &&
    words.every((word) => textOf(run).includes(word))
  );
  ticked = ticked.filter((id) => kept.some(({ run_id }) => run_id === id));
  get("runs-empty").hidden = all.length > 0;
  get("runs-none").hidden = all.length === 0 || kept.length > 0;
  get("runs-table").hidden = kept.length === 0;
  get("runs-more").hidden = kept.length <= room;
  const focused = document.activeElement;
  const row = focused?.closest("#runs-list tr")?.id;
  get("runs-list").replaceChildren(...kept.slice(0, room).map(runRow));
  // The keyboard focus stays in its row.
  const again = row === undefined ? null : find(row)?.querySelector(focused?.tagName ?? "");
  if (again instanceof HTMLElement) again.focus({ preventScroll: true });
  showTicked();
}

/** @param {ListedRun} run @param {string} model */
function hasModel({ models }, model) {
  return model === "" || Object.values(models ?? {}).includes(model);
}

/** The filter lists the models of all runs. */
function listModels() {
  const select = get("runs-model");
  const chosen = select.value;
  const names = [...new Set(all.flatMap(({ models }) => Object.values(models ?? {})))].filter((each) =>
    each !== ""
  );
  const options = names.sort().map((each) => make("option", { value: each }, plain(each)));
  select.replaceChildren(make("option", { value: "" }, t("any")), ...options);
  select.value = names.includes(chosen) ? chosen : "";
}

/** @param {ListedRun} run */
function textOf({ run_id, title, topic, conclusion, models }) {
  return [run_id, title, topic, conclusion?.cause, ...Object.values(models ?? {})].join(" ").toLowerCase();
}

/** @param {ListedRun} run @param {string} filter */
function passes({ status, conclusion, imported }, filter) {
  switch (filter) {
    case "":
      return true;
    case "stopped":
      return status === "cancelled" || status === "error" || status === "interrupted";
    case "imported":
      return imported;
    case "running":
      return status === "running";
    default:
      return conclusion?.outcome === filter;
  }
}

function showTicked() {
  get("runs-compare").disabled = ticked.length !== 2;
  for (const box of get("runs-list").querySelectorAll("input")) {
    box.checked = ticked.includes(box.value);
    box.disabled = ticked.length === 2 && !box.checked;
  }
}

/** @type {Readonly<Record<string, string>>} */
const OUTCOMES = { cause: "cause found", no_confident_cause: "no confident cause" };

/** @param {ListedRun} run */
function runRow(run) {
  const name = run.title || titleOf(run.topic) || run.run_id;
  const isLive = run.status === "running";
  const waits = isLive && typeof run.waits_for === "string";
  const [state, shown] = waits ? ["waiting", "waits for you"] : [run.status, run.status ?? "unknown"];
  const remove = make("button", {
    type: "button",
    attributes: { "aria-label": `${t(isLive ? "Stop" : "Delete")}: ${name}` },
  }, t(isLive ? "Stop" : "Delete"));
  remove.addEventListener("click", () => {
    // The question contains the title, because a refresh can move the rows.
    if (!confirm(`${t(isLive ? "Stop this run?" : "Delete this run and its record?")}\n\n${name}`)) return;
    attempt(remove, async () => {
      await ask(`/api/runs/${run.run_id}`, { method: "DELETE" });
      await refresh();
      announce(t("Done."));
    });
  });
  const box = make("input", {
    type: "checkbox",
    value: run.run_id,
    attributes: { "aria-label": t("Compare: {name}", { name }) },
  });
  box.addEventListener("change", () => {
    ticked = box.checked ? [...ticked, run.run_id] : ticked.filter((id) => id !== run.run_id);
    showTicked();
  });
  return make(
    "tr",
    { id: `run-${run.run_id}` },
    make("td", {}, box),
    make("td", {}, make("a", { href: `#/runs/${run.run_id}` }, ...visible(name)), ...conclusionOf(run)),
    make(
      "td",
      {},
      make("span", { className: "nowrap" }, formatTime(run.timestamp)),
      make("p", { className: "note" }, ...visible(modelsOf(run.models))),
    ),
    make("td", { className: "nowrap" }, costOf(run)),
    make("td", {}, make("span", { className: `status status-${state}` }, t(shown))),
    make("td", {}, remove),
  );
}

/** @param {ListedRun} run */
function conclusionOf({ conclusion, imported, parent_run_id: parent }) {
  const outcome = OUTCOMES[conclusion?.outcome ?? ""];
  const said = [
    imported ? t("imported, not checked here") : "",
    parent === null ? "" : t("resumed"),
    conclusion === null
      ? ""
      : `${outcome === undefined ? "" : `${t(outcome)}, `}${percent(conclusion.confidence)}`,
  ].filter((each) => each !== "").join(" · ");
  return [
    said === "" ? "" : make("p", { className: "note" }, said),
    conclusion === null || conclusion.cause === ""
      ? ""
      : make("p", { className: "note" }, ...visible(conclusion.cause)),
  ];
}

/** @param {ListedRun} run */
function costOf({ duration_seconds: seconds, token_totals, cost_estimate }) {
  const usd = cost_estimate?.total_usd;
  return [
    typeof seconds === "number" ? formatDuration(seconds) : "",
    tokensOf(token_totals?.total),
    typeof usd === "number" ? dollarsOf(usd) : "",
  ].filter((each) => each !== "").join(", ");
}

for (const control of [get("runs-search"), get("runs-filter"), get("runs-model")]) {
  control.addEventListener(control instanceof HTMLInputElement ? "input" : "change", () => {
    room = PAGE;
    draw();
  });
}
get("runs-more").addEventListener("click", () => {
  room += PAGE;
  draw();
});
get("runs-compare").addEventListener("click", () => {
  location.hash = `#/compare/${ticked.join("/")}`;
});
get("runs-import").addEventListener("change", () => {
  const input = get("runs-import");
  attempt(input, async () => {
    const file = input.files?.[0];
    if (file === undefined) return;
    const headers = { "content-type": "application/json" };
    const { run_id } = await ask("/api/runs/import", { method: "POST", headers, body: await file.text() })
      .finally(() => input.value = "");
    location.hash = `#/runs/${run_id}`;
  });
});

document.addEventListener("visibilitychange", () => {
  if (isShown && !document.hidden) refreshQuietly();
});
