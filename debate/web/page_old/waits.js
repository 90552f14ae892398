/** @import { ToolApprovalRequestEvent } from "../../engine/events.ts" */
/** @import { Summary } from "./summary.js" */
/** @import { Run, SettingsView } from "./types.js" */

import { announce, attempt, get, make, send } from "./api.js";
import { allowedItem, approvalCard } from "./cards.js";
import { runAll } from "./run_all.js";
import { notify } from "./notify.js";
import { showSteering } from "./steer.js";
import { percent } from "./drawing.js";
import { timeLeft, verdictOf } from "./summary.js";
import { t } from "./language.js";

/** A call without a decision at the end of its run, for example after a crash of the server. */
const UNANSWERED = t("ended: the run is over, and no answer was recorded");

/**
 * Shows a pending call above the rest of the page.
 * @param {Run} run
 * @param {ToolApprovalRequestEvent} event
 */
export function addApproval(run, event) {
  const element = approvalCard(
    event,
    (button, answer) =>
      attempt(button, () => send(`/api/runs/${run.id}/approval`, { call_id: event.call_id, ...answer })),
  );
  run.approvals.set(event.call_id, element);
  if (run.isOver) return endApproval(run, element, UNANSWERED);
  get("asked-list").append(element);
  announce(
    t("{role} asks for approval to use {tool}.", { role: t(event.agent_role), tool: event.tool_name }),
  );
}

/**
 * Removes a decided call. The conversation shows the decision and the result.
 * @param {Run} run
 * @param {{ readonly call_id: string }} event
 */
export function resolveApproval(run, { call_id }) {
  run.approvals.get(call_id)?.remove();
  run.approvals.delete(call_id);
}

/**
 * Marks calls whose decision can no longer arrive.
 * @param {Run} run
 */
export function endApprovals(run) {
  for (const element of run.approvals.values()) endApproval(run, element, UNANSWERED);
  run.approvals.clear();
}

/** @param {Run} run @param {HTMLElement} element @param {string} text */
function endApproval(run, element, text) {
  element.classList.remove("wait");
  element.querySelector(".change")?.remove();
  element.querySelector(".actions")?.replaceChildren(make("b", {}, text));
  run.add(element);
}

/**
 * Shows the calls that are approved for the whole run. Existing buttons are not redrawn, because the user may
 * be about to click.
 * @param {Run} run
 */
export function showAllowed(run) {
  const allowed = [...run.summary.allowed.values()];
  const list = get("allowed-list");
  const shown = allowed.map(({ call_id }) => call_id).join(" ");
  get("allowed").hidden = allowed.length === 0;
  if (list.dataset.shown === shown) return;
  list.dataset.shown = shown;
  list.replaceChildren(
    ...allowed.map((call) =>
      allowedItem(
        call,
        (button) =>
          attempt(button, () =>
            send(`/api/runs/${run.id}/approval`, { call_id: call.call_id, approved: false, for_run: true })),
      )
    ),
  );
}

/**
 * The pending request and its remaining time, or `undefined`.
 * @param {Pick<Summary, "approvals" | "pausedAt">} open
 * @param {Pick<SettingsView, "approval_timeout_seconds" | "comment_timeout_seconds"> | undefined} settings
 * @param {number} now
 */
function waitOf({ approvals, pausedAt }, settings, now, needsLogin = false) {
  const [first] = approvals.values();
  if (first !== undefined) {
    const left = timeLeft(first.timestamp, settings?.approval_timeout_seconds, now);
    const others = approvals.size > 1 ? t(" and {count} more", { count: approvals.size - 1 }) : "";
    return {
      kind: "approval",
      key: first.call_id,
      text: t("Decide on {tool}", { tool: first.tool_name }) + others,
      left,
    };
  }
  if (pausedAt === undefined) {
    return needsLogin
      ? { kind: "login", key: "login", text: t("Log in at provider B"), left: undefined }
      : undefined;
  }
  return {
    kind: "comment",
    key: pausedAt,
    text: t("Comment, or continue"),
    left: timeLeft(pausedAt, settings?.comment_timeout_seconds, now),
  };
}

/**
 * Shows the state and the pending request of a run in a line that stays visible. Sends a notification once the
 * state is certain.
 * @param {Run} run
 * @param {boolean} isBehind there are events that are not shown yet
 */
export function showBar(run, isBehind) {
  runAll(() => showWait(run, isBehind), () => showSure(run), () => showLimit(run.summary));
}

/** @param {Summary} summary */
function showLimit({ limited }) {
  const left = timeLeft(limited?.timestamp, limited?.seconds, Date.now()) ?? 0;
  get("run-limit").textContent = left === 0
    ? ""
    : t("Rate limited, retry in {seconds} s.", { seconds: Math.ceil(left / 1000) });
}

/** @param {Run} run */
function showSure({ summary, status }) {
  const pill = get("run-status");
  pill.textContent = t(status ?? "unknown");
  pill.className = `status status-${status}`;
  const { decision } = summary;
  const { tone, title } = verdictOf(summary, status);
  const sure = get("run-sure");
  // The end of a run is neutral. Its result has a color.
  sure.className = decision !== undefined && tone === "good" ? "sure-good" : "";
  sure.textContent = decision === undefined
    ? ""
    : `${t(title)}, ${percent(decision.confidence)}${
      summary.imported ? t(" stated elsewhere ").trimEnd() : ""
    }`;
}

/** @type {Pick<Summary, "approvals" | "pausedAt">} */
const NOTHING = { approvals: new Map(), pausedAt: undefined };

/** @param {Run} run @param {boolean} isBehind */
function showWait(run, isBehind) {
  const { summary, isOver } = run;
  const open = isOver ? NOTHING : summary;
  const wait = waitOf(open, run.settings, Date.now(), run.needsLogin);
  get("run-asked").hidden = wait === undefined;
  get("comment-form").hidden = wait?.kind !== "comment";
  get("asked").hidden = wait?.kind !== "approval";
  document.title = `${wait === undefined ? "" : t("Waiting for you: ")}${run.title} – ${
    t("Diagnosis debate")
  }`;
  if (wait === undefined) return;
  get("run-asked").dataset.kind = wait.kind;
  get("run-asked").textContent = wait.left === undefined
    ? wait.text
    : t("{what}: {time} left", { what: wait.text, time: clock(wait.left) });
  if (!isBehind) notify(run, wait.key, wait.text);
  if (wait.kind === "comment") showSteering(summary);
}

/** @param {number} ms */
function clock(ms) {
  const seconds = Math.ceil(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

get("run-asked").addEventListener("click", () => {
  if (get("run-asked").dataset.kind === "login") {
    location.hash = "#/login";
    return;
  }
  const form = get("comment-form");
  const target = form.hidden ? get("asked").querySelector("button") : form.elements.comment;
  target?.scrollIntoView({ block: "center" });
  target?.focus({ preventScroll: true });
});
