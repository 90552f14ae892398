import { announce, ask, attempt, formatDuration, formatTime, get, make } from "./api.js";

/** How often the list is asked for while somebody looks at it, in milliseconds. */
const REFRESH_MS = 3000;

let timer;
let isShown = false;
/** What the rows show. */
let listed;

/** Shows the list of runs, and keeps it up to date. */
export async function showRuns() {
  isShown = true;
  listed = undefined;
  try {
    await refresh();
  } finally {
    again();
  }
}

/** Stops keeping it up to date. */
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
    if (isShown) get("runs-note").textContent = `The list may be out of date: ${error.message}.`;
  } finally {
    again();
  }
}

async function refresh() {
  const { runs } = await ask("/api/runs");
  if (!isShown) return;
  get("runs-note").textContent = "";
  const text = JSON.stringify(runs);
  if (text === listed) return;
  listed = text;
  get("runs-empty").hidden = runs.length > 0;
  get("runs-table").hidden = runs.length === 0;
  const focused = document.activeElement;
  const row = focused?.closest("#runs-list tr")?.id;
  get("runs-list").replaceChildren(...runs.map(runRow));
  // Whoever works by keyboard stays where they are.
  if (row !== undefined) get(row)?.querySelector(focused.tagName)?.focus({ preventScroll: true });
}

function runRow(run) {
  const name = run.topic || run.run_id;
  const isLive = run.status === "running";
  const remove = make("button", {
    type: "button",
    attributes: { "aria-label": `${isLive ? "Stop" : "Delete"}: ${name}` },
  }, isLive ? "Stop" : "Delete");
  remove.addEventListener("click", () => {
    // It names the run, since the rows may just have moved.
    if (!confirm(`${isLive ? "Stop this run" : "Delete this run and its record"}?\n\n${name}`)) return;
    attempt(remove, async () => {
      await ask(`/api/runs/${run.run_id}`, { method: "DELETE" });
      await refresh();
      announce("Done.");
    });
  });
  const duration = run.duration_seconds === null ? "" : formatDuration(run.duration_seconds);
  return make(
    "tr",
    { id: `run-${run.run_id}` },
    make("td", {}, make("a", { href: `#/runs/${run.run_id}` }, name)),
    make("td", {}, formatTime(run.timestamp)),
    make("td", {}, duration),
    make("td", {}, make("span", { className: `status status-${run.status}` }, run.status ?? "unknown")),
    make("td", {}, remove),
  );
}

document.addEventListener("visibilitychange", () => {
  if (isShown && !document.hidden) refreshQuietly();
});
