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
} from "./api.js";
import { showBoard } from "./board.js";
import { doEach } from "./parts.js";
import { endTools } from "./calls.js";
import { factList, note } from "./cards.js";
import { endConversation, show } from "./conversation.js";
import { beginSummary, endSummary, modelsOf, tell, titleOf } from "./summary.js";
import { notify } from "./notify.js";
import { LANGUAGE, t } from "./words.js";
import { beginMap, showMap } from "./map.js";
import { chosenChanges } from "./steer.js";
import { showAllowed, showBar } from "./waits.js";

let shown;

/** Shows a run and follows it until it ends. */
export async function showRun(runId) {
  leaveRun();
  const run = {
    id: runId,
    source: undefined,
    live: undefined,
    lastId: "0",
    /** Events that have come and are not shown yet. */
    queue: [],
    draining: undefined,
    approvals: new Map(),
    tools: new Map(),
    round: 0,
    isOver: false,
    status: undefined,
    title: "",
    record: undefined,
    settings: undefined,
    summary: undefined,
    /** A model of the run needs a login that is missing. */
    needsLogin: false,
    frame: undefined,
    timer: undefined,
    /** The tool calls in a row that are being added to, and that of each call. */
    group: undefined,
    groups: new Map(),
    add: (element) => {
      run.group = undefined;
      get("thread").append(element);
    },
  };
  shown = run;
  beginMap();
  for (const id of ["thread", "asked-list", "answer", "board-list"]) get(id).replaceChildren();
  for (const id of ["report", "save-md"]) get(id).href = `/api/runs/${runId}/report`;
  get("save-html").href = `/api/runs/${runId}/report.html`;
  get("save-json").href = `/api/runs/${runId}`;
  get("save-json").download = `run-${runId.slice(0, 8)}.json`;
  const [record, settings] = await Promise.all([ask(`/api/runs/${runId}`), ask("/api/settings")]);
  if (shown !== run) return;
  run.summary = beginSummary(record.imported === true);
  showTitle(run, record);
  get("run-topic").textContent = record.topic ?? "";
  showFacts(run, record);
  run.settings = settings;
  run.isOver = record.status !== "running";
  if (record.status === "running" || record.status === "error") checkLogin(run, record);
  showStatus(run, record.status);
  get("resume-form").elements.require_approval.checked = settings.tool_approval_required;
  if (run.isOver) return await showStored(run, record.events ?? []);
  get("opt-pause").checked = false;
  get("opt-approval").checked = settings.tool_approval_required;
  // Changes nothing: this reads the current options.
  const options = await send(`/api/runs/${runId}/options`, {}).catch(() => undefined);
  if (shown !== run) return;
  if (options !== undefined) {
    get("opt-approval").checked = options.require_approval;
    get("opt-pause").checked = options.pause_between_rounds;
  }
  follow(run);
}

/** Provider B may have to be logged in at. */
async function checkLogin(run, { models }) {
  if (!Object.values(models ?? {}).some((id) => id.startsWith("assist/"))) return;
  const status = await ask("/api/auth/status").catch(() => undefined);
  if (status === undefined || shown !== run) return;
  run.needsLogin = !status.copilot_configured || !status.copilot_session_valid;
  showBar(run);
}

/** How many events of a stored run are shown before the browser may do something else. */
const AT_A_TIME = 100;

/** Shows a run that is over: the answer at once, then the conversation. */
async function showStored(run, events) {
  for (const event of events) doEach(() => tell(run.summary, event));
  endSummary(run.summary);
  draw(run);
  let broken = 0;
  for (let start = 0; start < events.length; start += AT_A_TIME) {
    await new Promise((resolve) => setTimeout(resolve));
    if (shown !== run) return;
    for (const event of events.slice(start, start + AT_A_TIME)) broken += doEach(() => show(run, event));
  }
  if (broken > 0) run.add(note(t("Events that cannot be shown: {count}", { count: broken })));
  doEach(() => endConversation(run));
}

/** Stops following. */
export function leaveRun() {
  if (shown !== undefined) {
    shown.source?.close();
    clearInterval(shown.timer);
    endTools(shown);
  }
  shown = undefined;
}

function follow(run) {
  const source = new EventSource(`/api/runs/${run.id}/events`);
  run.source = source;
  run.timer = setInterval(() => showBar(run), 1000);
  source.onopen = () => get("run-note").textContent = "";
  source.onmessage = ({ data, lastEventId }) => {
    if (shown !== run || !isLater(lastEventId, run.lastId)) return;
    run.lastId = lastEventId;
    run.queue.push(data);
    // Not with the next frame, which a page that nobody looks at does not have.
    run.draining ??= setTimeout(() => drain(run, BUSY_MS));
  };
  source.onerror = () => {
    if (shown !== run) return;
    if (source.readyState === EventSource.CLOSED) {
      drain(run, Infinity);
      return run.isOver ? undefined : finish(run);
    }
    get("run-note").textContent = t("Connection lost; trying again.");
  };
}

/** How long events are shown before the browser may do something else, in milliseconds. */
const BUSY_MS = 30;

/** Shows events that have come; what is read of the page's layout is read once for all of them. */
function drain(run, ms) {
  clearTimeout(run.draining);
  run.draining = undefined;
  if (shown !== run) return;
  // Whoever reads the end of the conversation stays there; others stay where they are, at first with the answer.
  const isAtEnd = !run.isOver && scrollY > innerHeight / 2 &&
    innerHeight + scrollY > document.body.scrollHeight - 100;
  const end = performance.now() + ms;
  let shownSo = 0;
  while (shownSo < run.queue.length && performance.now() < end) {
    doEach(() => apply(run, JSON.parse(run.queue[shownSo])));
    shownSo += 1;
  }
  run.queue.splice(0, shownSo);
  if (isAtEnd) scrollTo({ top: document.body.scrollHeight });
  if (run.queue.length > 0) run.draining = setTimeout(() => drain(run, BUSY_MS));
}

/** Ids are `12`, or `12.3` for events that are not stored. */
function isLater(id, than) {
  const [left, right] = [id, than].map((each) => each.split(".").map(Number));
  return left[0] > right[0] || (left[0] === right[0] && (left[1] ?? 0) > (right[1] ?? 0));
}

function showTitle(run, { title, topic }) {
  run.title = title || titleOf(topic) || t("Run without a topic");
  get("run-title").textContent = run.title;
  get("title-form").elements.title.value = title ?? "";
}

/** The answer is drawn once for all events that come together. */
function drawSoon(run) {
  run.frame ??= requestAnimationFrame(() => {
    run.frame = undefined;
    if (shown === run) draw(run);
  });
}

/** What somebody is asked for comes first, and is there whatever becomes of the rest. */
function draw(run) {
  doEach(
    () => showBar(run),
    () => keepFocus(get("answer"), () => showAnswer(run.summary, run.status, run.record)),
    () => showAllowed(run),
    () => keepFocus(get("board"), () => showBoard(run.summary)),
    () => showMap(run.summary),
  );
}

function apply(run, event) {
  doEach(() => tell(run.summary, event), () => show(run, event));
  if (event.type !== "agent_delta") drawSoon(run);
  if (event.type === "run_finished") finish(run);
}

async function finish(run) {
  run.source.close();
  run.isOver = true;
  clearInterval(run.timer);
  doEach(() => endConversation(run), () => endSummary(run.summary));
  try {
    const record = await ask(`/api/runs/${run.id}`);
    if (shown !== run) return;
    showFacts(run, record);
    showStatus(run, record.status);
    if (record.status === "error") checkLogin(run, record);
    const said = t("The run has ended: {status}.", { status: t(record.status) });
    announce(said);
    notify(run, "end", said);
  } catch (error) {
    if (shown === run) complain(error.message);
  }
}

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

function showFacts(run, record) {
  run.record = record;
  const { models = {}, token_totals, cost_estimate } = record;
  get("run-facts").replaceChildren(
    ...factList([
      [t("Started"), new Date(record.timestamp).toLocaleString()],
      [t("Duration"), record.duration_seconds === undefined ? "" : formatDuration(record.duration_seconds)],
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

get("cancel").addEventListener(
  "click",
  ({ target }) => attempt(target, () => ask(`/api/runs/${shown.id}`, { method: "DELETE" })),
);

get("delete").addEventListener("click", ({ target }) => {
  if (!confirm(t("Delete this run and its record?"))) return;
  attempt(target, async () => {
    await ask(`/api/runs/${shown.id}`, { method: "DELETE" });
    location.hash = "#/runs";
  });
});

for (const [id, option] of [["opt-approval", "require_approval"], ["opt-pause", "pause_between_rounds"]]) {
  get(id).addEventListener(
    "change",
    ({ target }) =>
      attempt(target, () => send(`/api/runs/${shown.id}/options`, { [option]: target.checked })),
  );
}

get("comment-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const { target: form, submitter } = event;
  const comment = submitter?.value === "skip" ? "" : form.elements.comment.value;
  attempt(submitter ?? form, async () => {
    const changes = submitter?.value === "skip" ? [] : chosenChanges(form);
    await send(`/api/runs/${shown.id}/comment`, { comment, changes });
    form.reset();
  });
});

get("title-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const { target: form, submitter } = event;
  attempt(submitter, async () => {
    await send(`/api/runs/${shown.id}/title`, { title: form.elements.title.value });
    showTitle(shown, await ask(`/api/runs/${shown.id}`));
    announce(t("Renamed."));
    drawSoon(shown);
  });
});

get("resume-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const { target: form, submitter } = event;
  attempt(submitter, async () => {
    const { run_id } = await sendForm(`/api/runs/${shown.id}/resume`, form);
    form.reset();
    location.hash = `#/runs/${run_id}`;
  });
});
