/** @import { Content, Control, Elements, Properties } from "./types.js" */

import { t } from "./language.js";

/**
 * Sends a request to the server. The message of an error can be shown to the user. The server can be newer
 * than the page, so the caller declares the type that it expects.
 * @param {string} path
 * @param {RequestInit} [options]
 */
export async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error(t("The server did not answer"));
  }
  if (response.ok) return await response.json();
  const problem = await response.json().catch(() => ({}));
  throw new Error(problem.detail ?? t("The server answered {status}", { status: response.status }));
}

/**
 * Sends JSON.
 *
 * @param {string} path
 * @param {unknown} body
 */
export function send(path, body) {
  return ask(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

/**
 * Sends a form. Unchecked boxes are sent as false. File fields without a file are omitted.
 * @param {string} path
 * @param {HTMLFormElement} form
 */
export function sendForm(path, form) {
  const fields = new FormData(form);
  for (const { type, name, checked, files } of form.querySelectorAll("input")) {
    if (type === "checkbox") fields.set(name, String(checked));
    if (type === "file" && files?.length === 0) fields.delete(name);
  }
  return ask(path, { method: "POST", body: fields });
}

/**
 * Creates an element that contains text or other elements. Text is never parsed as HTML.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Properties<Name>} [properties]
 * @param {...Content} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function make(name, properties, ...children) {
  const { attributes = {}, ...rest } = properties ?? {};
  const element = Object.assign(document.createElement(name), rest);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/**
 * The element of `index.html` with an ID.
 * @template {keyof Elements} Id
 * @param {Id} id
 * @returns {Elements[Id]}
 */
export function get(id) {
  // A test compares the types with the elements of the page.
  return /** @type {any} */ (document.getElementById(id));
}

/**
 * A generated element, if it exists.
 * @param {string} id
 */
export function find(id) {
  return document.getElementById(id);
}

/**
 * Shows an error. An empty text hides it.
 * @param {string} text
 */
export function complain(text) {
  const problem = get("problem");
  problem.textContent = text;
  problem.hidden = text === "";
  if (text !== "") problem.focus();
}

/**
 * Announces a text to screen readers.
 *
 * @param {string} text
 */
export function announce(text) {
  get("news").textContent = text;
}

/**
 * The reason of a failure as a text for the user.
 * @param {unknown} error
 */
export function whyOf(error) {
  return error instanceof Object && "message" in error ? String(error.message) : String(error);
}

/**
 * Runs the action of a control, one at a time, and reports a failure.
 * @param {Control} control
 * @param {() => unknown} act
 */
export async function attempt(control, act) {
  if (control.disabled) return;
  control.disabled = true;
  complain("");
  try {
    await act();
  } catch (error) {
    complain(t("Not done: {why}", { why: whyOf(error) }));
  } finally {
    control.disabled = false;
  }
}

/**
 * `45s`, `2m 5s`, `1h 3m`.
 *
 * @param {number} seconds
 */
export function formatDuration(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${whole % 60}s`;
  return `${Math.floor(whole / 3600)}h ${Math.floor((whole % 3600) / 60)}m`;
}

/**
 * Formats a time of the server for the user.
 * @param {string | null | undefined} text
 */
export function formatTime(text) {
  const time = new Date(text ?? "");
  return Number.isNaN(time.getTime()) ? "" : time.toLocaleString();
}

/**
 * Redraws a part of the page. The focus stays on its element if that still exists.
 * @param {HTMLElement} part
 * @param {() => void} draw
 */
export function keepFocus(part, draw) {
  /** @returns {HTMLElement[]} */
  const links = () => [...part.querySelectorAll(/** @type {"button"} */ ("button, summary"))];
  const focused = document.activeElement;
  const place = links().findIndex((each) => each === focused);
  draw();
  const again = links()[place];
  if (again?.textContent === focused?.textContent) again?.focus({ preventScroll: true });
}
