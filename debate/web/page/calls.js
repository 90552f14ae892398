// @ts-check
/** @import { ToolCallEvent, ToolCallStartedEvent } from "../../events.ts" */

/**
 * Calls in a row.
 *
 * @typedef {object} Group
 * @property {string} role
 * @property {Map<string, { event: Partial<ToolCallEvent>, element: any }>} calls
 * @property {any} summary
 * @property {any} list
 */

import { announce, formatDuration, get, make } from "./api.js";
import { runningCard, toolCard } from "./cards.js";
import { visible } from "./visible.js";
import { t } from "./words.js";

/**
 * Shows a tool that runs.
 *
 * @param {any} run
 * @param {ToolCallStartedEvent} event
 */
export function startTool(run, event) {
  const element = runningCard(event);
  const begun = Date.now();
  /** @type {{ event: ToolCallStartedEvent, element: any, timer: any }} */
  const entry = { event, element, timer: undefined };
  const show = () => {
    const seconds = formatDuration((Date.now() - begun) / 1000);
    element.querySelector(".time").textContent = t("running, {time}", { time: seconds });
  };
  show();
  entry.timer = setInterval(show, 1000);
  run.tools.set(event.call_id, entry);
  addCall(run, event, element);
  announce(t("{tool} is running.", { tool: event.tool_name }));
}

/**
 * Puts the result in the place of the running tool; calls that ran nothing have none.
 *
 * @param {any} run
 * @param {ToolCallEvent} event
 */
export function endTool(run, event) {
  const running = run.tools.get(event.call_id);
  if (running === undefined) return addCall(run, event, toolCard(event));
  run.tools.delete(event.call_id);
  clearInterval(running.timer);
  const element = toolCard(event);
  running.element.replaceWith(element);
  const group = run.groups.get(event.call_id);
  group.calls.set(event.call_id, { event, element });
  title(group);
}

/**
 * No result of these tools will come any more.
 *
 * @param {any} run
 */
export function endTools(run) {
  for (const { event, element, timer } of run.tools.values()) {
    clearInterval(timer);
    element.classList.remove("running");
    element.querySelector(".time").textContent = t("ended without a recorded result");
    const group = run.groups.get(event.call_id);
    group.calls.set(event.call_id, { event: { ...event, error: true }, element });
    title(group);
  }
  run.tools.clear();
}

/**
 * Calls in a row of the same agent are one group, which is folded.
 *
 * @param {any} run
 * @param {ToolCallEvent | ToolCallStartedEvent} event
 * @param {any} element
 */
function addCall(run, event, element) {
  if (run.group?.role !== event.agent_role) {
    run.group = { role: event.agent_role, calls: new Map(), summary: undefined, list: undefined };
  }
  const { group } = run;
  const first = [...group.calls.values()][0];
  group.calls.set(event.call_id, { event, element });
  run.groups.set(event.call_id, group);
  if (first === undefined) return get("thread").append(element);
  if (group.list === undefined) wrap(group, first.element);
  group.list.append(element);
  title(group);
}

/** @param {Group} group @param {any} first */
function wrap(group, first) {
  group.summary = make("summary");
  group.list = make("ol");
  const element = make("li", { className: "tools" }, make("details", {}, group.summary, group.list));
  first.replaceWith(element);
  group.list.append(first);
}

/**
 * `3 tool calls for Rebuttal: http_get, query_loki (1 failed, 1 running)`.
 *
 * @param {Group} group
 */
function title({ role, calls, summary }) {
  if (summary === undefined) return;
  const events = [...calls.values()].map(({ event }) => event);
  const failed = events.filter(({ error }) => error).length;
  const running = events.filter(({ error }) => error === undefined).length;
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
