/** @import { Elements } from "./types.js" */

import { get, make } from "./api.js";
import { t } from "./language.js";

const KEY = "shortcuts";

const go = (/** @type {string} */ hash) => () => {
  location.hash = hash;
};
const toggle = (/** @type {"map"} */ id) => () => {
  const details = get(id);
  if (details.hidden) return;
  details.open = !details.open;
  details.querySelector("summary")?.focus();
};
const focusOn = (/** @type {keyof Elements} */ id) => () => get(id).focus();
/** The focus moves to the target, so that the tab key continues there. */
const goTo = (/** @type {keyof Elements} */ id) => () => {
  const place = get(id);
  place.tabIndex = -1;
  place.focus({ preventScroll: true });
  place.scrollIntoView();
};

/**
 * Decisions have no shortcut, to prevent an accidental approval.
 * @type {readonly (readonly [string, string, () => void])[]}
 */
const SHORTCUTS = [
  ["?", "Show this help", () => get("help").showModal()],
  ["n", "New run", go("#/")],
  ["r", "List of runs", go("#/runs")],
  ["/", "Search the runs", () => {
    location.hash = "#/runs";
    setTimeout(focusOn("runs-search"), 300);
  }],
  ["w", "Go to what waits for me", () => get("run-asked").click()],
  ["a", "Go to the answer", goTo("answer")],
  ["h", "Go to the hypotheses", goTo("board")],
  ["m", "Open or close the map", toggle("map")],
  ["c", "Go to the conversation", goTo("thread-title")],
  ["j", "Next card", () => step(1)],
  ["k", "Previous card", () => step(-1)],
  ["o", "Open or close the card", () => {
    const details = document.activeElement?.closest("#thread > li")?.querySelector("details");
    if (details) details.open = !details.open;
  }],
  ["e", "Open or close all groups of tool calls", () => {
    const groups = [...document.querySelectorAll(/** @type {"details"} */ (".tools > details"))];
    const open = groups.some((each) => !each.open);
    for (const each of groups) each.open = open;
  }],
];

/** @param {number} by */
function step(by) {
  /** @type {HTMLElement[]} */
  const cards = [...get("thread").querySelectorAll(/** @type {"li"} */ (":scope > .card, :scope > .tools"))];
  const focused = document.activeElement?.closest("#thread > li");
  const at = cards.findIndex((each) => each === focused);
  const card = cards[Math.min(cards.length - 1, Math.max(0, at + by))];
  if (card === undefined) return;
  card.tabIndex = -1;
  card.focus();
}

function isOn() {
  try {
    return localStorage.getItem(KEY) !== "no";
  } catch {
    return true;
  }
}

document.addEventListener("keydown", (event) => {
  const { key, target, ctrlKey, metaKey, altKey } = event;
  const isWriting = target instanceof Element &&
    target.closest("input:not([type=checkbox]), textarea, select, dialog") !== null;
  if (ctrlKey || metaKey || altKey || isWriting || (!isOn() && key !== "?")) return;
  const act = SHORTCUTS.find(([each]) => each === key)?.[2];
  if (act === undefined) return;
  event.preventDefault();
  act();
});

get("help-list").replaceChildren(
  ...SHORTCUTS.flatMap(([key, what]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, t(what))]),
);
get("help-open").addEventListener("click", () => get("help").showModal());
const box = get("help-on");
box.checked = isOn();
box.addEventListener("change", () => {
  try {
    localStorage.setItem(KEY, box.checked ? "yes" : "no");
  } catch {
    box.checked = true;
  }
});
