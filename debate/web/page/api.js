import { t } from "./words.js";

/** Sends a request to the server; throws an error whose message is for people. */
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

/** Sends JSON. */
export function send(path, body) {
  return ask(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** Sends a form. Unticked boxes are sent as such, and file fields without a file are left out. */
export function sendForm(path, form) {
  const fields = new FormData(form);
  for (const box of form.querySelectorAll("input[type=checkbox]")) fields.set(box.name, String(box.checked));
  for (const input of form.querySelectorAll("input[type=file]")) {
    if (input.files.length === 0) fields.delete(input.name);
  }
  return ask(path, { method: "POST", body: fields });
}

/** An element with text or other elements in it; foreign text is never parsed as HTML. */
export function make(name, properties = {}, ...children) {
  const { attributes = {}, ...rest } = properties;
  const element = Object.assign(document.createElement(name), rest);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** The element with an id. */
export const get = (id) => document.getElementById(id);

/** Shows an error, which stays visible. */
export function complain(text) {
  const problem = get("problem");
  problem.textContent = text;
  problem.hidden = text === "";
  if (text !== "") problem.focus();
}

/** Announces a text to screen readers. */
export function announce(text) {
  get("news").textContent = text;
}

/** Runs a control's action, once at a time, and reports if it failed. */
export async function attempt(control, act) {
  if (control.disabled) return;
  control.disabled = true;
  complain("");
  try {
    await act();
  } catch (error) {
    complain(t("Not done: {why}", { why: error.message }));
  } finally {
    control.disabled = false;
  }
}

/** `45s`, `2m 5s`, `1h 3m`. */
export function formatDuration(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${whole % 60}s`;
  return `${Math.floor(whole / 3600)}h ${Math.floor((whole % 3600) / 60)}m`;
}

/** A time of the server in the reader's format. */
export function formatTime(text) {
  const time = new Date(text ?? "");
  return Number.isNaN(time.getTime()) ? "" : time.toLocaleString();
}

/** Draws a part of the page anew, and leaves the focus where it was if that is still there. */
export function keepFocus(part, draw) {
  const links = () => [...part.querySelectorAll("button, summary")];
  const focused = document.activeElement;
  const place = links().indexOf(focused);
  draw();
  const again = links()[place];
  if (again?.textContent === focused?.textContent) again?.focus({ preventScroll: true });
}
