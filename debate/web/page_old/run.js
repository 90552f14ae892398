/** @import { RunEvent } from "../../engine/events.ts" */
/** @import { TimedEvent } from "./summary.js" */
/** @import { AccessView, Control, Run, RunView, SettingsView } from "./types.js" */

import { showAnswer } from "./answer.js";
import {
  announce,
  ask,
  attempt,
  complain,
  formatDuration,
  formatTime,
  get,
  keepFocus,
  send,
  sendForm,
  whyOf,
} from "./api.js";
import { showBoard } from "./board.js";
import { runAll } from "./run_all.js";
import { endTools } from "./calls.js";
import { factList, note } from "./cards.js";
import { endConversation, show } from "./conversation.js";
import { beginSummary, endSummary, modelsOf, tell, titleOf } from "./summary.js";
import { notify } from "./notify.js";
import { LANGUAGE, t } from "./language.js";
import { beginMap, showMap } from "./map.js";
import { chosenChanges } from "./steer.js";
import { showAllowed, showBar } from "./waits.js";

/** @type {Run | undefined} */
let shown;

/**
 * Shows a run and follows it until it ends.
 *
 * @param {string} runId
 */
export async function showRun(runId) {
  leaveRun();
  /** @type {Run} */
  const run = {
    id: runId,
    source: undefined,
    live: undefined,
    lastId: "0",
    known: 0,
    /** Received events that are not shown yet. */
    queue: [],
    draining: undefined,
    approvals: new Map(),
    tools: new Map(),
    round: 0,
    maxRounds: undefined,
    isOver: false,
    status: undefined,
    title: "",
    record: undefined,
    settings: undefined,
    summary: beginSummary(),
    /** A model of the run needs a missing login. */
    needsLogin: false,
    frame: undefined,
    timer: undefined,
    /** The open group of tool calls, and the group of each call. */
    group: undefined,
    groups: new Map(),
    add: (element) => {
      run.group = undefined;
      get("thread").append(element);
    },
  };
  shown = run;
  beginMap();
  for (const part of [get("thread"), get("asked-list"), get("answer"), get("board-list")]) {
    part.replaceChildren();
  }
  for (const link of [get("report"), get("save-md")]) link.href = `/api/runs/${runId}/report`;
  get("save-html").href = `/api/runs/${runId}/report.html`;
  get("save-json").href = `/api/runs/${runId}`;
  get("save-json").download = `run-${runId.slice(0, 8)}.json`;
  /** @type {[RunView, SettingsView]} */
  const [record, settings] = await Promise.all([ask(`/api/runs/${runId}`), ask("/api/settings")]);
  if (shown !== run) return;
  run.summary = beginSummary(record.imported === true);
  showTitle(run, record);
  get("run-topic").textContent = record.topic ?? "";
  showFacts(run, record);
  run.settings = settings;
  run.isOver = record.status !== "running";
  if (record.status === "running" || record.status === "error") checkLogin(run, record);
  showStatus(run, record.status ?? undefined);
  get("resume-form").elements.require_approval.checked = settings.tool_approval_required;
  if (run.isOver) return await showStored(run, record.events ?? []);
  get("opt-pause").checked = false;
  get("opt-approval").checked = settings.tool_approval_required;
  // An empty change returns the current options.
  /** @type {{ readonly require_approval: boolean, readonly pause_between_rounds: boolean } | undefined} */
  const options = await send(`/api/runs/${runId}/options`, {}).catch(() => undefined);
  if (shown !== run) return;
  if (options !== undefined) {
    get("opt-approval").checked = options.require_approval;
    get("opt-pause").checked = options.pause_between_rounds;
  }
  run.known = record.events?.length ?? 0;
  follow(run);
}

/**
 * Shows a login for provider B if a model of the run needs it.
 * @param {Run} run
 * @param {RunView} record
 */
async function checkLogin(run, { models }) {
  if (!Object.values(models ?? {}).some((id) => id.startsWith("assist/"))) return;
  /** @type {AccessView | undefined} */
  const status = await ask("/api/auth/status").catch(() => undefined);
  if (status === undefined || shown !== run) return;
  run.needsLogin = !status.copilot_configured || !status.copilot_session_valid;
  showBar(run, isBehind(run));
}

/** The number of events of a stored run between two pauses for the browser. */
const AT_A_TIME = 100;

/**
 * Shows a finished run: first the answer, then the conversation.
 * @param {Run} run
 * @param {readonly TimedEvent[]} events
 */
async function showStored(run, events) {
  for (const event of events) runAll(() => tell(run.summary, event));
  endSummary(run.summary);
  draw(run);
  let broken = 0;
  for (let start = 0; start < events.length; start += AT_A_TIME) {
    await new Promise((resolve) => setTimeout(resolve));
    if (shown !== run) return;
    for (const event of events.slice(start, start + AT_A_TIME)) broken += runAll(() => show(run, event));
  }
  if (broken > 0) run.add(note(t("Events that cannot be shown: {count}", { count: broken })));
  runAll(() => endConversation(run));
}

export function leaveRun() {
  if (shown !== undefined) {
    shown.source?.close();
    clearInterval(shown.timer);
    endTools(shown);
  }
  shown = undefined;
}

/** @param {Run} run */
function follow(run) {
  const source = new EventSource(`/api/runs/${run.id}/events`);
  run.source = source;
  run.timer = setInterval(() => showBar(run, isBehind(run)), 1000);
  source.onopen = () => {
    get("run-note").textContent = "";
  };
  source.onmessage = ({ data, lastEventId }) => {
    if (shown !== run || !isLater(lastEventId, run.lastId)) return;
    run.lastId = lastEventId;
    run.queue.push(data);
    // An invisible page has no animation frames, so this is a timer.
    run.draining ??= setTimeout(() => drain(run, BUSY_MS));
  };
  source.onerror = () => {
    if (shown !== run) return;
    if (source.readyState === EventSource.CLOSED) {
      drain(run, Infinity);
      if (!run.isOver) finish(run);
      return;
    }
    get("run-note").textContent = t("Connection lost; trying again.");
  };
}

/** Milliseconds between two pauses for the browser. */
const BUSY_MS = 30;

/**
 * Shows received events. The layout is read once for all of them.
 * @param {Run} run
 * @param {number} ms
 */
function drain(run, ms) {
  clearTimeout(run.draining);
  run.draining = undefined;
  if (shown !== run) return;
  // The page scrolls only for users who read the end of the conversation.
  const isAtEnd = !run.isOver && scrollY > innerHeight / 2 &&
    innerHeight + scrollY > document.body.scrollHeight - 100;
  const end = performance.now() + ms;
  let shownSo = 0;
  while (shownSo < run.queue.length && performance.now() < end) {
    const data = run.queue[shownSo] ?? "";
    runAll(() => apply(run, JSON.parse(data)));
    shownSo += 1;
  }
  run.queue.splice(0, shownSo);
  if (isAtEnd) scrollTo({ top: document.body.scrollHeight });
  if (run.queue.length > 0) run.draining = setTimeout(() => drain(run, BUSY_MS));
}

/**
 * There are unshown events, which can contain the decision on a pending request.
 * @param {Run} run
 */
function isBehind({ queue, known, lastId }) {
  return queue.length > 0 || isLater(String(known), lastId);
}

/**
 * Event IDs are `12`, or `12.3` for events that are not stored.
 * @param {string} id
 * @param {string} than
 */
function isLater(id, than) {
  const [stored = 0, part = 0] = id.split(".").map(Number);
  const [storedBefore = 0, partBefore = 0] = than.split(".").map(Number);
  return stored > storedBefore || (stored === storedBefore && part > partBefore);
}

/** @param {Run} run @param {RunView} record */
function showTitle(run, { title, topic }) {
  run.title = title || titleOf(topic) || t("Run without a topic");
  get("run-title").textContent = run.title;
  get("title-form").elements.title.value = title ?? "";
}

/**
 * The answer is drawn once for all events of one batch.
 * @param {Run} run
 */
function drawSoon(run) {
  run.frame ??= requestAnimationFrame(() => {
    run.frame = undefined;
    if (shown === run) draw(run);
  });
}

/**
 * Pending requests are drawn first, so that a failure of another part cannot hide them.
 * @param {Run} run
 */
function draw(run) {
  runAll(
    () => showBar(run, isBehind(run)),
    () => keepFocus(get("answer"), () => showAnswer(run.summary, run.status, run.record)),
    () => showAllowed(run),
    () => keepFocus(get("board"), () => showBoard(run.summary)),
    () => showMap(run.summary),
  );
}

/** @param {Run} run @param {RunEvent} event */
function apply(run, event) {
  runAll(() => tell(run.summary, event), () => show(run, event));
  if (event.type !== "agent_delta") drawSoon(run);
  if (event.type === "run_finished") finish(run);
}

/** @param {Run} run */
async function finish(run) {
  run.source?.close();
  run.isOver = true;
  clearInterval(run.timer);
  runAll(() => endConversation(run), () => endSummary(run.summary));
  try {
    /** @type {RunView} */
    const record = await ask(`/api/runs/${run.id}`);
    if (shown !== run) return;
    showFacts(run, record);
    showStatus(run, record.status ?? undefined);
    if (record.status === "error") checkLogin(run, record);
    const said = t("The run has ended: {status}.", { status: t(record.status ?? "unknown") });
    announce(said);
    notify(run, "end", said);
  } catch (error) {
    if (shown === run) complain(whyOf(error));
  }
}

/** @param {Run} run @param {string | undefined} status */
function showStatus(run, status) {
  run.status = status;
  const isLive = status === "running";
  get("cancel").hidden = !isLive;
  get("options").hidden = !isLive;
  get("delete").hidden = isLive;
  get("resume-form").hidden = isLive;
  get("title-form").hidden = isLive;
  if (!isLive) get("run-note").textContent = "";
  drawSoon(run);
}

/** @param {Run} run @param {RunView} record */
function showFacts(run, record) {
  run.record = record;
  const { models, token_totals, cost_estimate, timestamp, duration_seconds: seconds } = record;
  get("run-facts").replaceChildren(
    ...factList([
      [t("Started"), formatTime(timestamp)],
      [t("Duration"), typeof seconds === "number" ? formatDuration(seconds) : ""],
      [t("Models"), modelsOf(models)],
      [t("Template"), `${record.template} (${record.language})`],
      [t("Resumes"), record.parent_run_id],
      [
        t("Origin"),
        record.imported
          ? `${t("imported; nothing in it was checked here")} ${formatTime(record.imported_at)}`.trimEnd()
          : "",
      ],
      [t("Tokens"), token_totals?.total?.total_tokens?.toLocaleString(LANGUAGE)],
      [t("Cost"), typeof cost_estimate?.total_usd === "number" ? `$${cost_estimate.total_usd}` : ""],
    ]).children,
  );
}

/**
 * Runs an action for the shown run. A change of the view does not change the run of the action.
 * @param {Control} control
 * @param {(run: Run, path: string) => unknown} act
 */
function withRun(control, act) {
  const run = shown;
  if (run !== undefined) attempt(control, () => act(run, `/api/runs/${run.id}`));
}

get("cancel").addEventListener(
  "click",
  () => withRun(get("cancel"), (_run, path) => ask(path, { method: "DELETE" })),
);

get("delete").addEventListener("click", () => {
  if (!confirm(t("Delete this run and its record?"))) return;
  withRun(get("delete"), async (_run, path) => {
    await ask(path, { method: "DELETE" });
    location.hash = "#/runs";
  });
});

for (
  const [box, option] of /** @type {const} */ ([
    [get("opt-approval"), "require_approval"],
    [get("opt-pause"), "pause_between_rounds"],
  ])
) {
  box.addEventListener(
    "change",
    () => withRun(box, (_run, path) => send(`${path}/options`, { [option]: box.checked })),
  );
}

get("comment-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const { submitter } = event;
  const form = get("comment-form");
  const isSkipped = submitter instanceof HTMLButtonElement && submitter.value === "skip";
  const comment = isSkipped ? "" : form.elements.comment.value;
  withRun(submitter ?? form, async (_run, path) => {
    await send(`${path}/comment`, { comment, changes: isSkipped ? [] : chosenChanges(form) });
    form.reset();
  });
});

get("title-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const form = get("title-form");
  withRun(event.submitter ?? form, async (run, path) => {
    await send(`${path}/title`, { title: form.elements.title.value });
    const record = await ask(path);
    if (shown !== run) return;
    showTitle(run, record);
    announce(t("Renamed."));
    drawSoon(run);
  });
});

get("resume-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const form = get("resume-form");
  withRun(event.submitter ?? form, async (_run, path) => {
    const { run_id } = await sendForm(`${path}/resume`, form);
    form.reset();
    location.hash = `#/runs/${run_id}`;
  });
});
