import { get, make } from "./api.js";
import { visible } from "./visible.js";
import { t } from "./language.js";

const MAX_SHOWN = 160;

/** @import { Summary } from "./summary.js" */
/** @import { Hypothesis } from "../../engine/graph/state.ts" */
/** @import { CommentForm } from "./types.js" */

/**
 * The pause for which the form was created.
 * @type {string | undefined}
 */
let madeFor;

/**
 * Offers the hypotheses of a run that waits for a comment.
 *
 * @param {Summary} summary
 */
export function showSteering({ pausedAt, hypotheses }) {
  if (pausedAt === madeFor) return;
  madeFor = pausedAt;
  get("steer-list").replaceChildren(...hypotheses.map(row));
  get("steer").hidden = hypotheses.length === 0;
}

/** @param {Hypothesis} hypothesis */
function row({ id, text, state }) {
  const select = make(
    "select",
    { attributes: { "aria-label": t("Decision on {id}", { id }) } },
    make("option", { value: "" }, t("leave it to the agents")),
    make("option", { value: "pin" }, t("pin: examine it further")),
    make("option", { value: "drop" }, t("drop: do not come back to it")),
  );
  select.dataset.id = id;
  const short = text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)} …`;
  return make(
    "li",
    {},
    make("span", {}, make("b", {}, ...visible(id)), ` (${t(state)}) `, ...visible(short)),
    select,
  );
}

/**
 * The choices of the operator as a request body.
 * @param {CommentForm} form
 */
export function chosenChanges(form) {
  const chosen = [...get("steer-list").querySelectorAll("select")].filter(({ value }) => value !== "")
    .map(({ value, dataset }) => ({ kind: value, id: dataset.id }));
  const added = form.elements.added.value.split("\n").map((each) => each.trim()).filter((each) => each !== "")
    .map((text) => ({ kind: "add", text }));
  return [...chosen, ...added];
}
