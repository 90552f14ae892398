/** @import { Summary } from "./summary.js" */
/** @import { Hypothesis } from "../../engine/graph/state.ts" */
/** @import { Content } from "./types.js" */

import { find, get, make } from "./api.js";
import { agentName, evidenceItems, reviewItems } from "./evidence.js";
import { drawing, percent } from "./drawing.js";
import { leadOf, ranked } from "./summary.js";
import { visible } from "./visible.js";
import { t } from "./language.js";

/**
 * Shows a card for each hypothesis.
 *
 * @param {Summary} summary
 */
export function showBoard(summary) {
  const open = new Set([...document.querySelectorAll("#board-list details[open]")].map(({ id }) => id));
  const lead = leadOf(summary);
  get("board").hidden = summary.hypotheses.length === 0;
  get("board-list").replaceChildren(
    ...ranked(summary).map((hypothesis) => hypothesisCard(hypothesis, summary, hypothesis === lead)),
  );
  for (const id of open) {
    const details = find(id);
    if (details instanceof HTMLDetailsElement) details.open = true;
  }
}

/** @param {Hypothesis} hypothesis @param {Summary} summary @param {boolean} leads */
function hypothesisCard(hypothesis, { shares, calls }, leads) {
  const { id, text, state, probability, proposer, round, rejected_reason, reviews = [], transitions = [] } =
    hypothesis;
  const since = round === 0 ? t("the run before") : t("round {round}", { round });
  const points = shares.get(id) ?? [];
  return make(
    "li",
    { className: `hypothesis state-${state}${leads ? " leads" : ""}` },
    make(
      "p",
      { className: "head" },
      make("b", {}, ...visible(id)),
      make("span", { className: "state" }, leads ? t("{state}, leads", { state: t(state) }) : t(state)),
      typeof probability === "number"
        ? make("span", { className: "note" }, t("the agents say {share}", { share: percent(probability) }))
        : "",
    ),
    make("p", {}, ...visible(text)),
    points.length > 1 ? chart(points) : "",
    rejected_reason ? make("p", {}, make("b", {}, t("Rejected: ")), ...visible(rejected_reason)) : "",
    ...section(t("Evidence"), evidenceItems(hypothesis, calls)),
    ...section(t("Reviews"), reviews.flatMap((review) => reviewItems(review, calls))),
    make(
      "details",
      { id: `history-${id}`, className: "history" },
      make("summary", {}, t("Proposed by {agent} in {since}", { agent: agentName(proposer), since })),
      make(
        "ul",
        {},
        ...transitions.map(({ round, from, to, agent, note }) =>
          make(
            "li",
            {},
            t("Round {round}, {agent}: ", { round, agent: agentName(agent) }),
            `${from === null ? "" : `${t(from)} → `}${t(to)}. `,
            ...visible(note),
          )
        ),
      ),
    ),
  );
}

/** @param {string} title @param {readonly Content[]} items */
function section(title, items) {
  return items.length === 0 ? [] : [make("h3", {}, title), make("ul", { className: "lines" }, ...items)];
}

const [WIDTH, HEIGHT] = [200, 40];

/**
 * Draws the probability over time, with its numbers as text for screen readers.
 * @param {readonly { round: number, node: string, share: number }[]} points
 */
function chart(points) {
  const places = points.map(({ share }, index) => [
    4 + (index * (WIDTH - 8)) / (points.length - 1),
    4 + (1 - share) * (HEIGHT - 8),
  ]);
  const said = points.map(({ round, node, share }) =>
    t("{agent} in round {round}: {share}", { agent: agentName(node), round, share: percent(share) })
  );
  const svg = drawing({
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    class: "chart",
    role: "img",
    "aria-label": t("Probability over time: {values}", { values: said.join(", ") }),
  }, [
    ["line", { class: "axis", x1: 0, y1: HEIGHT - 4, x2: WIDTH, y2: HEIGHT - 4 }],
    ["polyline", { class: "line", points: places.map((place) => place.join(",")).join(" ") }],
    ...places.map(([cx = 0, cy = 0]) => /** @type {const} */ (["circle", { class: "dot", cx, cy, r: 3 }])),
  ]);
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined) return "";
  return make(
    "p",
    { className: "trend note" },
    svg,
    t(
      first.round === last.round
        ? " {first}, then {last} in round {end}"
        : " {first} in round {begin}, {last} in round {end}",
      {
        first: percent(first.share),
        begin: first.round,
        last: percent(last.share),
        end: last.round,
      },
    ),
  );
}
