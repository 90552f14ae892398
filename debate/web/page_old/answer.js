/** @import { Decision, Hypothesis } from "../../engine/graph/state.ts" */
/** @import { Summary } from "./summary.js" */
/** @import { RunView } from "./types.js" */

import { formatDuration, get, make } from "./api.js";
import { evidenceItems, missingItem, reviewItems } from "./evidence.js";
import { drawing, percent } from "./drawing.js";
import { causeOf, dollarsOf, leadOf, tokensOf, verdictOf } from "./summary.js";
import { visible } from "./visible.js";
import { t } from "./language.js";

const MAX_SHOWN = 3;

/**
 * Shows the answer: verdict, cause, confidence and its reason, risk, next step, evidence and objections.
 * @param {Summary} summary
 * @param {string | undefined} status
 * @param {RunView | undefined} record
 */
export function showAnswer(summary, status, record) {
  const { decision, calls } = summary;
  const { tone, title } = verdictOf(summary, status);
  const lead = leadOf(summary);
  const panel = get("answer");
  panel.className = `answer tone-${tone}`;
  const cause = causeOf(summary);
  const isSure = decision?.grounding?.outcome === "cause";
  const weight = isSure || summary.imported
    ? ""
    : status === "running"
    ? t("Leads so far, ")
    : t("Best candidate, ");
  const label = lead === undefined ? "" : `${weight}${lead.id}: `;
  panel.replaceChildren(
    make(
      "div",
      { className: "main" },
      make("h2", { id: "answer-title", className: "verdict" }, t(title)),
      cause === ""
        ? make("p", { className: "cause" }, t("No hypothesis leads."))
        : make("p", { className: "cause" }, make("b", {}, label), ...visible(cause)),
      ...certainty(decision, isSure, summary.imported),
      ...next(decision, isSure),
    ),
    lead === undefined && decision === undefined
      ? ""
      : make("div", { className: "proof" }, ...proof(lead, decision, calls)),
    make("p", { className: "note costs" }, costs(summary, record)),
  );
}

/** @param {Decision | undefined} decision @param {boolean} isSure @param {boolean} imported */
function certainty(decision, isSure, imported) {
  if (decision === undefined) return [];
  const { confidence, grounding, risk_level } = decision;
  const { cap = null, stated_confidence: stated, reason } = grounding ?? {};
  const isLimited = typeof stated === "number" && stated > confidence;
  const why = grounding === undefined
    ? t("The run is from before evidence was checked.")
    : `${
      isLimited
        ? t("The moderator stated {stated}; limited to {cap} because ", {
          stated: percent(stated),
          cap: percent(cap),
        })
        : ""
    }${reason}.`;
  return [
    make(
      "p",
      { className: "sure" },
      make("b", { className: isSure ? "figure" : "figure guess" }, percent(confidence)),
      imported ? t(" stated elsewhere ") : t(" confidence "),
      make(
        "span",
        { className: `risk risk-${risk_level}` },
        t(isSure ? "{risk} risk" : "{risk} risk, unproved", { risk: t(risk_level) }),
      ),
    ),
    meter(confidence, cap),
    make("p", { className: "reason" }, isLimited ? why : why.charAt(0).toUpperCase() + why.slice(1)),
  ];
}

/** The confidence as a bar, with a line where the evidence limits it. */
/** @param {number} confidence @param {number | null} cap */
function meter(confidence, cap) {
  const label = cap === null
    ? t("Confidence {share}", { share: percent(confidence) })
    : t("Confidence {share}, at most {cap}", { share: percent(confidence), cap: percent(cap) });
  /** @type {[keyof SVGElementTagNameMap, import("./drawing.js").Attributes][]} */
  const parts = [["rect", { class: "track", width: 100, height: 6 }], [
    "rect",
    { class: "fill", width: Math.round(confidence * 100), height: 6 },
  ]];
  if (cap !== null) parts.push(["rect", { class: "cap", x: cap * 100 - .5, width: 1, height: 6 }]);
  return drawing({
    viewBox: "0 0 100 6",
    class: "meter",
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": label,
  }, parts);
}

/** @param {Decision | undefined} decision @param {boolean} isSure */
function next(decision, isSure) {
  if (decision === undefined) return [];
  const { next_step, recommended_fix, status } = decision;
  const isOver = decision.grounding?.outcome !== null || status !== "continue";
  return [
    next_step ? step(next_step, t("Next: "), t("Unproved: ")) : "",
    recommended_fix && isOver
      ? step(recommended_fix, isSure ? t("Fix: ") : t("Fix, if this is the cause: "), t("Unproved fix: "))
      : "",
  ];
}

/** @param {string} text @param {string} label @param {string} hedged the label of a step that the engine marks */
function step(text, label, hedged) {
  const plain = text.replace(/^(?:Unproved|Sin probar): /, "");
  return make("p", { className: "next" }, make("b", {}, plain === text ? label : hedged), ...visible(plain));
}

/** @param {Hypothesis | undefined} lead @param {Decision | undefined} decision @param {Summary["calls"]} calls */
function proof(lead, decision, calls) {
  const pro = lead === undefined ? [] : evidenceItems(lead, calls);
  // Only the last review of each reviewer counts.
  const reviews = [...new Map((lead?.reviews ?? []).map((review) => [review.agent, review])).values()];
  const agreed = reviews.find(({ verdict }) => verdict === "accepted");
  const against = [
    ...reviews.filter(({ verdict }) => verdict !== "accepted").flatMap((review) =>
      reviewItems(review, calls)
    ),
    ...(decision?.missing_evidence ?? []).map(missingItem),
  ];
  return [
    ...list(t("Evidence for it"), pro, t("None.")),
    agreed === undefined ? "" : make(
      "p",
      { className: "note" },
      agreed.new_evidence
        ? t("The skeptic agrees and cites further evidence.")
        : t("The skeptic agrees, without new evidence."),
    ),
    ...list(
      t("Against it, or missing"),
      against,
      reviews.length === 0 ? t("Not reviewed yet.") : t("Nothing was named."),
    ),
  ];
}

/** @param {string} title @param {readonly Node[]} items @param {string} none */
function list(title, items, none) {
  const more = items.length - MAX_SHOWN;
  return [
    make("h3", {}, title),
    items.length === 0
      ? make("p", { className: "note" }, none)
      : make("ul", { className: "lines" }, ...items.slice(0, MAX_SHOWN)),
    more > 0 ? make("p", { className: "note" }, t("{count} more below", { count: more })) : "",
  ];
}

/** @param {Summary} summary @param {RunView | undefined} record */
function costs({ round, maxRounds, tokens, doing }, record) {
  const usd = record?.cost_estimate?.total_usd;
  return [
    doing === undefined ? "" : t(doing.text, { ...doing.values, role: t(doing.values.role ?? "") }),
    round > 0 && maxRounds !== undefined
      ? t("round {round} of {most}", { round: Math.min(round, maxRounds), most: maxRounds })
      : "",
    typeof record?.duration_seconds === "number" ? formatDuration(record.duration_seconds) : "",
    tokensOf(record?.token_totals?.total ?? { total_tokens: tokens }),
    typeof usd === "number" ? dollarsOf(usd) : record?.finished_at ? t("price unknown") : "",
  ].filter((each) => each !== "").join(" · ");
}
