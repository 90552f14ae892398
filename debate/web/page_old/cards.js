/** @import { ToolApprovalRequestEvent, ToolArgs, ToolCallEvent, ToolCallStartedEvent } from "../../engine/events.ts" */
/** @import { Decision } from "../../engine/graph/state.ts" */
/** @import { Answer, Content } from "./types.js" */

import { make } from "./api.js";
import { codeBlock } from "./code.js";
import { percent } from "./drawing.js";
import { renderMarkdown } from "./markdown.js";
import { EVERY_HIDDEN, plain, visible } from "./visible.js";
import { t } from "./language.js";

/**
 * A card of the conversation.
 * @param {string} title
 * @param {...Content} children
 */
export function card(title, ...children) {
  return make("li", { className: "card" }, make("h3", {}, title), ...children);
}

/**
 * An agent's text.
 *
 * @param {string} title
 * @param {string} text
 */
export function textCard(title, text) {
  return card(title, renderMarkdown(text));
}

/**
 * A divider between rounds, or a note.
 *
 * @param {string} text
 */
export function note(text, className = "note") {
  return make("li", { className }, text);
}

/**
 * A tool call and its result.
 *
 * @param {ToolCallEvent} event
 */
export function toolCard(event) {
  const { call_id, number, tool_name, agent_role, args, result, error, approval, duration_ms } = event;
  const { proposed_args } = event;
  const how = [
    error ? t("failed") : t(approval ?? ""),
    proposed_args === undefined ? "" : t("arguments changed by the operator"),
    duration_ms === null ? "" : `${duration_ms} ms`,
  ].filter((each) => each);
  return make(
    "li",
    { className: "card", id: `call-${call_id}` },
    make(
      "details",
      {},
      make(
        "summary",
        {},
        ...visible(tool_name),
        number === undefined ? "" : ` #${number}`,
        `${t(", for {role}", { role: t(agent_role) })} (${how.join(", ")})`,
      ),
      ...(proposed_args === undefined ? [] : [
        make("p", { className: "note" }, t("Asked for by the agent")),
        argumentsOf(proposed_args),
      ]),
      make("p", { className: "note" }, t("Arguments")),
      argumentsOf(args),
      make("p", { className: "note" }, t("Result")),
      codeBlock(...visible(result)),
    ),
  );
}

/**
 * A running tool with a place for the elapsed time.
 * @param {ToolCallStartedEvent} event
 */
export function runningCard({ tool_name, agent_role, args }) {
  return make(
    "li",
    { className: "card running" },
    make(
      "details",
      {},
      make(
        "summary",
        {},
        ...visible(tool_name),
        `${t(", for {role}", { role: t(agent_role) })} (`,
        make("span", { className: "time" }),
        ")",
      ),
      make("p", { className: "note" }, t("Arguments")),
      argumentsOf(args),
    ),
  );
}

/**
 * Formats arguments for an approval. The user must see exactly what will run, so no character may hide or
 * reorder text.
 * @param {ToolArgs} args
 */
function argumentsOf(args) {
  return make("pre", { tabIndex: 0 }, ...visible(JSON.stringify(args, null, 2)));
}

/**
 * A tool call that is approved for the whole run, and a button that revokes the approval.
 * @param {Pick<ToolCallStartedEvent, "tool_name" | "args">} call
 * @param {(button: HTMLButtonElement) => void} revoke
 */
export function allowedItem({ tool_name, args }, revoke) {
  const button = make(
    "button",
    {
      type: "button",
      attributes: { "aria-label": t("Ask me again about {tool}", { tool: plain(tool_name) }) },
    },
    t("Ask me again"),
  );
  button.addEventListener("click", () => revoke(button));
  return make("li", {}, ...visible(tool_name), argumentsOf(args), button);
}

/**
 * A tool call that waits for the operator. The shown arguments are the approved arguments.
 * @param {ToolApprovalRequestEvent} event
 * @param {(button: HTMLButtonElement, answer: Answer) => void} decide
 */
export function approvalCard({ tool_name, agent_role, args }, decide) {
  let isEdited = false;
  const button = (/** @type {string} */ text, /** @type {Answer} */ answer) => {
    const element = make("button", { type: "button" }, text);
    element.addEventListener("click", () => !(answer.approved && isEdited) && decide(element, answer));
    return element;
  };
  const once = button(t("Approve"), { approved: true });
  const always = button(t("Allow this exact call for the whole run"), { approved: true, for_run: true });
  const reject = button(t("Reject"), { approved: false });
  const element = card(
    t("{role} asks to use {tool}", { role: t(agent_role), tool: plain(tool_name) }),
    argumentsOf(args),
    make("p", { className: "actions" }, once, reject, always),
  );
  element.append(changing(args, decide, (isChanged) => {
    isEdited = isChanged;
    for (const each of [once, always]) each.disabled = isChanged;
  }));
  element.classList.add("wait");
  return element;
}

/**
 * An editor for other arguments. Hidden characters are shown as escapes. While the editor is open, only valid
 * edited arguments can be approved.
 * @param {ToolArgs} args
 * @param {(button: HTMLButtonElement, answer: Answer) => void} decide
 * @param {(isChanged: boolean) => void} tell
 */
function changing(args, decide, tell) {
  const asked = JSON.stringify(args, null, 2).replace(
    EVERY_HIDDEN,
    (odd) => odd === "\n" ? odd : escapeOdd(odd),
  );
  const text = make("textarea", { rows: 4, spellcheck: false }, asked);
  const problem = make("p", { className: "note", role: "status" });
  const approve = make("button", { type: "button", disabled: true }, t("Approve with these arguments"));
  const undo = make("button", { type: "button", disabled: true }, t("Undo the changes"));
  const look = () => {
    const isChanged = text.value !== asked;
    const isReadable = readArguments(text.value) !== undefined;
    tell(isChanged);
    approve.disabled = !isChanged || !isReadable;
    undo.disabled = !isChanged;
    problem.textContent = isReadable ? "" : t("the arguments are not a JSON object");
  };
  text.addEventListener("input", look);
  undo.addEventListener("click", () => {
    text.value = asked;
    look();
    text.focus();
  });
  approve.addEventListener("click", () => {
    const args = readArguments(text.value);
    if (args !== undefined && text.value !== asked) decide(approve, { approved: true, args });
  });
  return make(
    "details",
    { className: "change" },
    make("summary", {}, t("Change the arguments")),
    make("label", {}, t("Arguments as JSON; the tool checks them as it checks the agent's"), text),
    problem,
    make("p", { className: "actions" }, approve, undo),
  );
}

/** @param {string} odd */
function escapeOdd(odd) {
  return Array.from(
    { length: odd.length },
    (_, at) => `\\u${odd.charCodeAt(at).toString(16).padStart(4, "0")}`,
  ).join("");
}

/**
 * The arguments, or `undefined` if the text is not a JSON object.
 * @param {string} text
 * @returns {ToolArgs | undefined}
 */
function readArguments(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * A decision of the moderator.
 * @param {{ readonly decision: Decision }} event
 */
export function decisionCard({ decision }) {
  const { status, confidence, risk_level, leading_hypothesis, next_step, recommended_fix, stop_reason } =
    decision;
  /** @type {readonly Fact[]} */
  const facts = [
    [t("Status"), t(status ?? "")],
    [t("Confidence"), typeof confidence === "number" ? `${percent(confidence)}${limitOf(decision)}` : ""],
    [t("Risk"), t(risk_level ?? "")],
    [t("Leading hypothesis"), leading_hypothesis],
    [t("Next step"), next_step],
    [t("Recommended fix"), recommended_fix],
    [t("Stop reason"), stop_reason],
    [t("Evidence, as the moderator states it"), decision.evidence],
    [t("Missing evidence"), decision.missing_evidence],
    [t("Rejected by the moderator"), decision.rejected_hypotheses],
    [t("Validation"), decision.validation],
  ];
  return card(t("Moderator decision"), factList(facts));
}

/** @param {Decision} decision */
function limitOf({ confidence, grounding }) {
  if (grounding === undefined) return "";
  const { stated_confidence: stated, reason } = grounding;
  return ` (${stated > confidence ? t("{stated} was stated; ", { stated: percent(stated) }) : ""}${reason})`;
}

/** @typedef {readonly [string, string | readonly string[] | null | undefined]} Fact */

/**
 * A list of names and values. Empty values are omitted, and arrays are nested lists.
 * @param {readonly Fact[]} facts
 */
export function factList(facts) {
  const list = make("dl", { className: "facts" });
  for (const [name, value] of facts) {
    if (value === undefined || value === null || value.length === 0) continue;
    const shown = Array.isArray(value)
      ? make("ul", {}, ...value.map((each) => make("li", {}, each)))
      : String(value);
    list.append(make("dt", {}, name), make("dd", {}, shown));
  }
  return list;
}
