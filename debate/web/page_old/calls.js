/** @import { ToolCallEvent, ToolCallStartedEvent } from "../../engine/events.ts" */
/** @import { Group, Run, RunningTool, ShownCall } from "./types.js" */

import { announce, formatDuration, get, make } from "./api.js";
import { runningCard, toolCard } from "./cards.js";
import { visible } from "./visible.js";
import { t } from "./language.js";

/**
 * Shows a running tool.
 * @param {Run} run
 * @param {ToolCallStartedEvent} event
 */
export function startTool(run, event) {
  const element = runningCard(event);
  const begun = Date.now();
  /** @type {RunningTool} */
  const entry = { event, element, timer: undefined };
  const show = () => {
    const seconds = formatDuration((Date.now() - begun) / 1000);
    timeOf(element).textContent = t("running, {time}", { time: seconds });
  };
  show();
  entry.timer = setInterval(show, 1000);
  run.tools.set(event.call_id, entry);
  addCall(run, event, element);
  announce(t("{tool} is running.", { tool: event.tool_name }));
}

/**
 * The element that shows the elapsed time of a tool.
 * @param {HTMLElement} element
 */
function timeOf(element) {
  return element.querySelector(".time") ?? element;
}

/**
 * Replaces the running tool by its result. Calls that ran nothing have no running tool.
 * @param {Run} run
 * @param {ToolCallEvent} event
 */
export function endTool(run, event) {
  const running = run.tools.get(event.call_id);
  if (running === undefined) return addCall(run, event, toolCard(event));
  run.tools.delete(event.call_id);
  clearInterval(running.timer);
  const element = toolCard(event);
  running.element.replaceWith(element);
  replace(run, event, element);
}

/**
 * Marks the tools whose result will never arrive.
 * @param {Run} run
 */
export function endTools(run) {
  for (const { event, element, timer } of run.tools.values()) {
    clearInterval(timer);
    element.classList.remove("running");
    timeOf(element).textContent = t("ended without a recorded result");
    replace(run, { ...event, error: true }, element);
  }
  run.tools.clear();
}

/** @param {Run} run @param {ShownCall["event"]} event @param {HTMLElement} element */
function replace(run, event, element) {
  const group = run.groups.get(event.call_id);
  if (group === undefined) return;
  group.calls.set(event.call_id, { event, element });
  title(group);
}

/**
 * Consecutive calls of one agent are one collapsed group.
 * @param {Run} run
 * @param {ToolCallEvent | ToolCallStartedEvent} event
 * @param {HTMLElement} element
 */
function addCall(run, event, element) {
  if (run.group?.role !== event.agent_role) {
    run.group = undefined;
  }
  const group = run.group ??= { role: event.agent_role, calls: new Map(), fold: undefined };
  const first = [...group.calls.values()][0];
  group.calls.set(event.call_id, { event, element });
  run.groups.set(event.call_id, group);
  if (first === undefined) return get("thread").append(element);
  group.fold ??= foldAround(first.element);
  group.fold.list.append(element);
  title(group);
}

/** @param {HTMLElement} first */
function foldAround(first) {
  const [summary, list] = [make("summary"), make("ol")];
  const element = make("li", { className: "tools" }, make("details", {}, summary, list));
  first.replaceWith(element);
  list.append(first);
  return { summary, list };
}

/**
 * `3 tool calls for Rebuttal: http_get, query_loki (1 failed, 1 running)`.
 *
 * @param {Group} group
 */
function title({ role, calls, fold }) {
  if (fold === undefined) return;
  const { summary } = fold;
  const events = [...calls.values()].map(({ event }) => event);
  const failed = events.filter((event) => "error" in event && event.error).length;
  const running = events.filter((event) => !("error" in event)).length;
  const states = [
    failed > 0 ? t("{count} failed", { count: failed }) : "",
    running > 0 ? t("{count} running", { count: running }) : "",
  ].filter((each) => each !== "");
  const names = [...new Set(events.map(({ tool_name }) => tool_name))].join(", ");
  const said = t("{count} tool calls for {role}: ", { count: events.length, role: t(role) });
  summary.replaceChildren(
    said,
    ...visible(names),
    states.length === 0 ? "" : ` (${states.join(", ")})`,
  );
  summary.classList.toggle("busy", running > 0);
}
