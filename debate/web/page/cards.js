import { make } from "./api.js";
import { codeBlock } from "./code.js";
import { percent } from "./drawing.js";
import { renderMarkdown } from "./markdown.js";
import { visible } from "./visible.js";

/** A card of the thread. */
export function card(title, ...children) {
  return make("li", { className: "card" }, make("h3", {}, title), ...children);
}

/** An agent's text. */
export function textCard(title, text) {
  return card(title, renderMarkdown(text));
}

/** A divider between rounds, or a note. */
export function note(text, className = "note") {
  return make("li", { className }, text);
}

/** A tool call and its result. */
export function toolCard(event) {
  const { call_id, number, tool_name, agent_role, args, result, error, approval, duration_ms } = event;
  const how = [error ? "failed" : approval, duration_ms === null ? "" : `${duration_ms} ms`].filter((each) =>
    each
  );
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
        `, for ${agent_role} (${how.join(", ")})`,
      ),
      make("p", { className: "note" }, "Arguments"),
      argumentsOf(args),
      make("p", { className: "note" }, "Result"),
      codeBlock(...visible(result)),
    ),
  );
}

/** A tool that runs, with a place for how long it has. */
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
        `, for ${agent_role} (`,
        make("span", { className: "time" }),
        ")",
      ),
      make("p", { className: "note" }, "Arguments"),
      argumentsOf(args),
    ),
  );
}

/** What somebody approves must be what runs: nothing in it may hide, or change the order of the rest. */
function argumentsOf(args) {
  return make("pre", { tabIndex: 0 }, ...visible(JSON.stringify(args, null, 2)));
}

/** A tool call that waits for the operator. */
export function approvalCard({ tool_name, agent_role, args }, decide) {
  const button = (text, answer) => {
    const element = make("button", { type: "button" }, text);
    element.addEventListener("click", () => decide(element, answer));
    return element;
  };
  const element = card(
    `${agent_role} asks to use ${tool_name}`,
    argumentsOf(args),
    make(
      "p",
      { className: "actions" },
      button("Approve", { approved: true }),
      button("Reject", { approved: false }),
      button("Allow this exact call for the whole run", { approved: true, for_run: true }),
    ),
  );
  element.classList.add("wait");
  return element;
}

/** A moderator's decision. */
export function decisionCard({ decision }) {
  const { status, confidence, risk_level, leading_hypothesis, next_step, recommended_fix, stop_reason } =
    decision;
  const facts = [
    ["Status", status?.replaceAll("_", " ")],
    ["Confidence", typeof confidence === "number" ? `${percent(confidence)}${limitOf(decision)}` : ""],
    ["Risk", risk_level],
    ["Leading hypothesis", leading_hypothesis],
    ["Next step", next_step],
    ["Recommended fix", recommended_fix],
    ["Stop reason", stop_reason],
    ["Evidence", decision.evidence],
    ["Missing evidence", decision.missing_evidence],
    ["Rejected", decision.rejected_hypotheses],
    ["Validation", decision.validation],
  ];
  return card("Moderator decision", factList(facts));
}

function limitOf({ confidence, grounding }) {
  if (grounding === undefined) return "";
  const { stated_confidence: stated, reason } = grounding;
  return ` (${stated > confidence ? `${percent(stated)} was stated; ` : ""}${reason})`;
}

/** Names and values; empty ones are left out, and an array becomes a list. */
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
