/** @import { Evidence, EvidenceStatus, Hypothesis, Review } from "../../engine/graph/state.ts" */
/** @import { Summary } from "./summary.js" */

import { find, make } from "./api.js";
import { splitQuoted } from "./quotes.js";
import { visible } from "./visible.js";
import { t } from "./language.js";

/** @type {Readonly<Record<Exclude<EvidenceStatus, "grounded">, string>>} */
const WHY = {
  uncited: "it cites no tool call",
  unquoted: "it quotes nothing from the result",
  no_such_call: "there is no such tool call",
  failed_call: "the call failed or was not run",
  not_in_result: "the result does not hold the quote",
  unchecked: "the run was imported and not checked here",
  too_little: "the quote is too short, or repeats what the tool was asked",
};

/**
 * The evidence of a hypothesis as list items. Runs of old versions have unchecked lines. Links lead to calls
 * on the page.
 * @param {Partial<Pick<Hypothesis, "evidence" | "supporting_evidence">>} hypothesis
 * @param {Summary["calls"]} calls
 */
export function evidenceItems({ evidence = [], supporting_evidence = [] }, calls, isLinked = true) {
  if (evidence.length > 0) return evidence.map((line) => evidenceItem(line, calls, isLinked));
  return supporting_evidence.map((text) => item("–", t("Not checked: "), "", ...coded(text)));
}

/**
 * One line of evidence with links to the cited calls.
 * @param {Evidence} line
 * @param {Summary["calls"]} calls
 */
function evidenceItem({ text, status, call_ids }, calls, isLinked = true) {
  const counts = status === "grounded";
  const links = call_ids.flatMap((id) => [callLink(id, calls, isLinked, text), " "]);
  const said = text.replace(/\[tool:[^\]\n]{0,80}\]\s*/g, "").trim();
  const why = counts
    ? []
    : [make("span", { className: "why" }, t(" Does not count: {why}.", { why: t(WHY[status] ?? status) }))];
  return item(
    counts ? "✓" : "✗",
    counts ? t("Counts: ") : "",
    counts ? "ok" : "no",
    ...links,
    ...coded(said),
    ...why,
  );
}

/**
 * A text with code between backticks.
 * @param {string} text
 */
function coded(text) {
  return text.split(/`([^`]+)`/).flatMap((part, index) =>
    index % 2 === 0 ? visible(part) : make("code", {}, ...visible(part))
  );
}

/**
 * A list item for missing evidence.
 * @param {string} text
 */
export function missingItem(text) {
  return item("?", t("Missing: "), "", ...visible(text));
}

/** @param {string} mark @param {string} meaning @param {string} className @param {...string | Node} content */
function item(mark, meaning, className, ...content) {
  return make(
    "li",
    { className: `evidence ${className}` },
    make("span", { className: "mark", attributes: { "aria-hidden": "true" } }, mark),
    make("span", {}, make("span", { className: "unseen" }, meaning), ...content),
  );
}

/** @param {string} id @param {Summary["calls"]} calls @param {boolean} isLinked @param {string} line */
function callLink(id, calls, isLinked, line) {
  const call = calls.get(id);
  if (call === undefined) return make("span", { className: "note" }, t("an earlier run"));
  const name = [...visible(call.tool_name), call.number === undefined ? "" : ` #${call.number}`];
  if (!isLinked) return make("span", { className: "note" }, ...name);
  const link = make("button", { type: "button", className: "link" }, ...name);
  link.addEventListener("click", () => showCall(id, splitQuoted(call.result, line)));
  return link;
}

/**
 * Opens a tool call in the conversation.
 *
 * @param {string} id
 * @param {readonly string[]} parts the result; every second part is highlighted
 */
export function showCall(id, parts = []) {
  const card = find(`call-${id}`);
  const details = card?.querySelector("details");
  if (card === null || details === null || details === undefined) return;
  const group = card.closest(".tools > details");
  if (group instanceof HTMLDetailsElement) group.open = true;
  details.open = true;
  if (parts.length > 0) {
    const marked = parts.flatMap((part, index) =>
      index % 2 === 0 ? visible(part) : make("mark", {}, ...visible(part))
    );
    [...details.querySelectorAll("pre")].at(-1)?.replaceChildren(...marked);
  }
  const mark = details.querySelector("mark");
  if (mark === null) card.scrollIntoView({ block: "start" });
  else mark.scrollIntoView({ block: "center" });
  details.querySelector("summary")?.focus({ preventScroll: true });
}

/**
 * A review as list items: the reason and its evidence.
 * @param {Review} review
 * @param {Summary["calls"]} calls
 */
export function reviewItems({ round, agent, verdict, reason, evidence, new_evidence }, calls) {
  const accepts = verdict === "accepted";
  const mark = accepts ? "+" : verdict === "rejected" ? "−" : "?";
  const who = agentName(agent);
  const words = t("{who}, round {round}, {verdict}", { who, round, verdict: t(verdict) });
  const isOpinion = !accepts && !evidence.some(({ status }) => status === "grounded");
  const note = isOpinion
    ? t(", an opinion without a quoted result")
    : accepts && !new_evidence
    ? t(", agreement without new evidence")
    : "";
  return [
    item(
      mark,
      "",
      accepts ? "ok" : "no",
      make("b", {}, `${words}${note}`),
      reason === "" ? "" : ": ",
      ...visible(reason),
    ),
    ...evidence.map((line) => evidenceItem(line, calls)),
  ];
}

/** @type {Readonly<Record<string, string>>} */
const REVIEWERS = {
  skeptic_agent: "Skeptic",
  diagnostic_rebuttal_agent: "Rebuttal",
  diagnostic_agent: "Diagnosis",
  moderator_agent: "Moderator",
  user_input_gate: "Operator",
};

/**
 * The short name of an agent.
 * @param {string} node
 */
export function agentName(node) {
  return t(REVIEWERS[node] ?? node);
}
