/** @import { TimedEvent } from "./summary.js" */
/** @import { Live, Run } from "./types.js" */

import { announce, get, make } from "./api.js";
import { endTool, endTools, startTool } from "./calls.js";
import { card, decisionCard, note, textCard } from "./cards.js";
import { codeBlock } from "./code.js";
import { renderMarkdown } from "./markdown.js";
import { addApproval, endApprovals, resolveApproval } from "./waits.js";
import { visible } from "./visible.js";
import { t } from "./language.js";

/**
 * Adds an event to the conversation.
 *
 * @param {Run} run
 * @param {TimedEvent} event
 */
export function show(run, event) {
  const { add } = run;
  switch (event.type) {
    case "run_resumed":
      add(note(t("Continues run {id}.", { id: event.parent_run_id })));
      break;
    case "run_started":
      showRound(run, event.round, event.max_rounds);
      break;
    case "agent_turn_started":
      dropLive(run);
      startLive(run, event);
      break;
    case "agent_delta":
      if (run.live !== undefined) {
        run.live.text += event.delta;
        drawLiveSoon(run.live);
      }
      break;
    case "agent_reasoning":
      dropLive(run);
      add(textCard(t("{role}, before using tools", { role: t(event.agent_role) }), event.content));
      break;
    case "agent_completed":
      dropLive(run);
      add(textCard(
        event.sample === undefined ? t(event.role) : t("{role}, diagnosis {number}", {
          role: t(event.role),
          number: event.sample,
        }),
        event.content,
      ));
      announce(t("{role} has spoken.", { role: t(event.role) }));
      break;
    case "samples_compared":
      dropLive(run);
      add(card(
        t("{count} independent diagnoses compared", { count: event.diagnoses }),
        make("p", {}, ...visible(event.reason)),
        make(
          "ul",
          {},
          ...event.votes.map(({ id, votes }) =>
            make(
              "li",
              {},
              ...visible(id),
              t(": leads in {votes} of {count}", { votes, count: event.diagnoses }),
            )
          ),
        ),
        renderMarkdown(event.content),
      ));
      announce(event.reason);
      break;
    case "run_warning":
      add(make("li", { className: "note" }, t("Note: "), ...visible(event.message)));
      break;
    case "agent_skipped":
      add(note(t("{role} was skipped: {why}", { role: t(event.agent_role), why: event.rationale })));
      break;
    case "tool_approval_request":
      addApproval(run, event);
      break;
    case "tool_approval_resolved":
      resolveApproval(run, event);
      break;
    case "tool_approval_revoked":
      add(note(t("{tool} is asked about again.", { tool: event.tool_name })));
      break;
    case "tool_call_started":
      dropLive(run);
      startTool(run, event);
      break;
    case "tool_call":
      endTool(run, event);
      break;
    case "moderator_decision":
      dropLive(run);
      add(decisionCard(event));
      announce(t("The moderator decided: {status}.", { status: t(event.decision.status) }));
      showRound(run, event.round, run.maxRounds);
      break;
    case "history_compressed":
      add(note(t("Summary of the rounds so far: {summary}", { summary: event.summary })));
      break;
    case "awaiting_user_input":
      if (!run.isOver) announce(t("The debate waits for your comment."));
      break;
    case "user_comment":
      if (event.content !== "") add(textCard(t("Operator"), event.content));
      break;
    case "model_waiting":
      announce(t("Rate limited, retry in {seconds} s.", { seconds: event.seconds }));
      break;
    case "reasoning_effort_ignored":
      add(note(t("{role}: {model} has no reasoning effort to set.", {
        role: t(event.agent_role),
        model: event.model,
      })));
      break;
    case "final_result":
      add(card(t("Final result"), codeBlock(event.content)));
      break;
    case "run_cancelled":
      add(note(t("The run was stopped.")));
      break;
    case "error":
      dropLive(run);
      add(make("li", { className: "card problem" }, event.message));
      announce(t("Error: {message}", { message: event.message }));
      break;
  }
}

/**
 * Removes all signs of waiting from the run.
 * @param {Run} run
 */
export function endConversation(run) {
  dropLive(run);
  endApprovals(run);
  endTools(run);
}

/** Delay between two layouts of streamed text, in milliseconds. */
const LIVE_MS = 120;

/**
 * Shows the streamed text of an agent. It does not end a group of tool calls, because the text can stay empty.
 * @param {Run} run
 * @param {import("../../engine/events.ts").AgentTurnStartedEvent} event
 */
function startLive(run, { agent_role }) {
  const body = make("div", { className: "live" });
  const element = card(t("{role} is thinking", { role: t(agent_role) }), body);
  run.live = { element, body, text: "", timer: undefined, tookMs: 0 };
  get("thread").append(element);
}

/**
 * The layout of a long text is slow, so it is repeated less often.
 * @param {Live} live
 */
function drawLiveSoon(live) {
  live.timer ??= setTimeout(() => {
    const begun = performance.now();
    live.timer = undefined;
    live.body.replaceChildren(renderMarkdown(live.text));
    live.tookMs = performance.now() - begun;
  }, Math.max(LIVE_MS, 8 * live.tookMs));
}

/** @param {Run} run */
function dropLive(run) {
  clearTimeout(run.live?.timer);
  run.live?.element.remove();
  run.live = undefined;
}

/** @param {Run} run @param {number} round @param {number | undefined} maxRounds */
function showRound(run, round, maxRounds) {
  run.maxRounds = maxRounds;
  if (round === run.round) return;
  run.round = round;
  run.add(note(t("Round {round}", { round }), "round"));
}
