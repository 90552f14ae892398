import { get } from "./api.js";
import { t } from "./language.js";

const KEY = "notify";
/** @type {string | undefined} */
let told;

function wanted() {
  try {
    return localStorage.getItem(KEY) === "yes";
  } catch {
    return false;
  }
}

/**
 * Notifies a user of another tab once when a run waits and once when it ends.
 * @param {{ readonly id: string, readonly title: string }} run
 * @param {string} what
 * @param {string} text
 */
export function notify(run, what, text) {
  const key = `${run.id} ${what}`;
  if (key === told) return;
  told = key;
  if (!document.hidden || globalThis.Notification?.permission !== "granted" || !wanted()) return;
  const notification = new Notification(run.title, { body: text, tag: run.id });
  notification.onclick = () => {
    focus();
    notification.close();
  };
}

const box = get("opt-notify");
const label = box.closest("label");
if (label !== null) label.hidden = globalThis.Notification === undefined;
box.checked = wanted() && globalThis.Notification?.permission === "granted";
box.addEventListener("change", async () => {
  const may = box.checked && await Notification.requestPermission() === "granted";
  get("notify-note").textContent = box.checked && !may ? t("The browser does not allow it.") : "";
  box.checked = may;
  try {
    localStorage.setItem(KEY, may ? "yes" : "no");
  } catch {
    // The setting lasts until the page is closed.
  }
});
