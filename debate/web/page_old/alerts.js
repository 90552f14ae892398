/** @import { AlertView } from "./types.js" */

import { ask, formatTime, get, make } from "./api.js";
import { t } from "./language.js";
import { visible } from "./visible.js";

/** Refresh interval of the visible list, in milliseconds. */
const REFRESH_MS = 5000;

/** @type {Readonly<Record<string, string>>} */
const OUTCOMES = { cause: "cause found", no_confident_cause: "no confident cause" };

/** @type {number | undefined} */
let timer;
/**
 * A fingerprint of the shown alerts, to detect changes.
 * @type {string | undefined}
 */
let listed;

/** Shows the open alerts above the form, and refreshes them. Without alerts, nothing is shown. */
export async function showAlerts() {
  leaveAlerts();
  const now = setTimeout(() => {}, 0);
  timer = now;
  try {
    /** @type {{ readonly alerts: readonly AlertView[] }} */
    const { alerts } = await ask("/api/alerts");
    const text = JSON.stringify(alerts);
    if (text !== listed) {
      listed = text;
      get("alerts").hidden = alerts.length === 0;
      get("alerts-list").replaceChildren(...alerts.map(alertItem));
    }
  } catch {
    // The next refresh tries again. The form is usable without the alerts.
  }
  // The user may have left the page in the meantime.
  if (timer === now) timer = setTimeout(showAlerts, REFRESH_MS);
}

/** Stops the refresh. */
export function leaveAlerts() {
  clearTimeout(timer);
  timer = undefined;
}

/** @param {AlertView} alert */
function alertItem({ title, severity, since, count, run_id, status, outcome }) {
  const name = visible(title);
  const facts = [t("since {time}", { time: formatTime(since) })];
  if (count > 1) facts.push(t("reported {count} times", { count }));
  const state = OUTCOMES[outcome ?? ""] ?? status ?? "no run yet";
  return make(
    "li",
    {},
    make("p", {}, ...run_id === null ? name : [make("a", { href: `#/runs/${run_id}` }, ...name)]),
    make(
      "p",
      { className: "note" },
      make("span", { className: `status status-${status ?? "waiting"}` }, t(state)),
      " ",
      ...severity === "" ? [] : [make("b", {}, ...visible(severity)), " · "],
      facts.join(" · "),
    ),
  );
}
