/** @import { MapNode } from "./map_layout.js" */
/** @import { Summary } from "./summary.js" */

import { get, make } from "./api.js";
import { agentName, evidenceItems, reviewItems, showCall } from "./evidence.js";
import { element, percent } from "./drawing.js";
import { mapOf, SIZE } from "./map_layout.js";
import { plain, visible } from "./visible.js";
import { t } from "./language.js";

/** Duration of each step of the animation, in milliseconds. */
const STEP_MS = 1100;

/**
 * The shown step, or `undefined` for the last step.
 * @type {number | undefined}
 */
let moment;
let chosen = "topic";
let round = "";
/** @type {number | undefined} */
let timer;
/** @type {Summary} */
let summary;

/** Resets the map for a new run. */
export function beginMap() {
  stop();
  moment = undefined;
  chosen = "topic";
  round = "";
}

/**
 * Draws the map of a run if the map is visible.
 * @param {Summary} of
 */
export function showMap(of) {
  summary = of;
  get("map").hidden = of.frames.length === 0;
  if (get("map").open && of.frames.length > 0) draw();
}

function draw() {
  const { frames } = summary;
  const last = frames.length - 1;
  const place = Math.min(moment ?? last, last);
  const frame = frames[place];
  if (frame === undefined) return;
  const { hypotheses, round: now, node } = frame;
  const slider = get("map-moment");
  slider.max = String(last);
  slider.value = String(place);
  const when = now === 0
    ? t("Before the first round")
    : t("Round {round}, after {agent}", { round: now, agent: agentName(node) });
  slider.setAttribute("aria-valuetext", when);
  get("map-when").textContent = when;
  fillRounds(frames);
  const map = mapOf(hypotheses);
  if (!map.nodes.some(({ key }) => key === chosen)) chosen = "topic";
  const places = new Map(map.nodes.map((each) => [each.key, each]));
  const isDim = (/** @type {readonly number[]} */ rounds) =>
    round !== "" && rounds.length > 0 && !rounds.includes(Number(round));
  const picture = element("svg", {
    viewBox: `0 0 ${SIZE} ${SIZE}`,
    role: "group",
    "aria-label": t("Map of the hypotheses; the arrow keys go from one to the next"),
  });
  for (const { from, to, kind, rounds } of map.edges) {
    const [a, b] = [places.get(from), places.get(to)];
    if (a === undefined || b === undefined) continue;
    const className = `edge edge-${kind}${isDim(rounds) ? " dim" : ""}`;
    picture.append(element("line", { class: className, x1: a.x, y1: a.y, x2: b.x, y2: b.y }));
  }
  for (const each of map.nodes) picture.append(nodeOf(each, isDim(each.rounds)));
  const hadFocus = get("map-picture").contains(document.activeElement);
  get("map-picture").replaceChildren(picture);
  if (hadFocus) focusChosen();
  showDetails(places.get(chosen));
}

/** @param {Summary["frames"]} frames */
function fillRounds(frames) {
  const rounds = [...new Set(frames.map((each) => String(each.round)))].filter((each) => each !== "0");
  const select = get("map-round");
  if (select.options.length !== rounds.length + 1) {
    const options = rounds.map((each) =>
      make("option", { value: each }, t("Round {round}", { round: each }))
    );
    select.replaceChildren(make("option", { value: "" }, t("all rounds")), ...options);
  }
  select.value = round;
}

/** @param {MapNode} node @param {boolean} isDim */
function nodeOf(node, isDim) {
  const { key, kind, x, y } = node;
  const leads = node.kind === "hypothesis" &&
    node.hypothesis.id === summary.decision?.grounding?.hypothesis_id;
  const names = [
    "node",
    `node-${kind}`,
    node.kind === "hypothesis" ? `state-${node.hypothesis.state}` : "",
    node.kind === "evidence" ? node.counts ? "counts" : "void" : "",
    leads ? "leads" : "",
    isDim ? "dim" : "",
    key === chosen ? "chosen" : "",
  ];
  const group = element("g", {
    class: names.filter((each) => each !== "").join(" "),
    transform: `translate(${x} ${y})`,
    role: "button",
    tabindex: key === chosen ? 0 : -1,
    "aria-label": nameOf(node),
    "aria-pressed": key === chosen,
  });
  group.dataset.key = key;
  if (leads) group.append(element("circle", { class: "halo", r: 26 }));
  group.append(shapeOf(kind));
  const label = element("text", { y: 5 });
  label.textContent = labelOf(node);
  group.append(label);
  return group;
}

/** @param {MapNode["kind"]} kind */
function shapeOf(kind) {
  switch (kind) {
    case "topic":
      return element("circle", { class: "shape", r: 30 });
    case "hypothesis":
      return element("circle", { class: "shape", r: 21 });
    case "evidence":
      return element("rect", { class: "shape", x: -17, y: -13, width: 34, height: 26 });
    default:
      return element("polygon", { class: "shape", points: "0,-17 17,0 0,17 -17,0" });
  }
}

const MAX_LABEL = 6;

/** @param {MapNode} node */
function labelOf(node) {
  switch (node.kind) {
    case "topic":
      return t("incident");
    case "hypothesis":
      return plain(node.hypothesis.id).slice(0, MAX_LABEL);
    case "evidence": {
      const number = summary.calls.get(node.callId)?.number;
      return number === undefined ? "…" : `#${number}`;
    }
    default:
      return node.hypothesis.reviews[node.review]?.verdict === "rejected" ? "−" : "?";
  }
}

/** @param {MapNode} node */
function nameOf(node) {
  if (node.kind === "topic") return t("The incident");
  const id = plain(node.hypothesis.id);
  switch (node.kind) {
    case "hypothesis":
      return t("Hypothesis {id}, {state}", { id, state: t(node.hypothesis.state) });
    case "evidence": {
      const call = summary.calls.get(node.callId);
      const name = call === undefined
        ? t("an earlier run")
        : `${plain(call.tool_name)} #${call.number ?? ""}`;
      return node.counts
        ? t("Evidence for {id} that counts: {name}", { id, name })
        : t("Evidence for {id} that does not count: {name}", { id, name });
    }
    default:
      return t("Objection to {id}, {verdict}", {
        id,
        verdict: t(node.hypothesis.reviews[node.review]?.verdict ?? ""),
      });
  }
}

/** @param {MapNode | undefined} node */
function showDetails(node) {
  if (node === undefined) return;
  const heading = make("h3", {}, nameOf(node));
  const panel = get("map-details");
  switch (node.kind) {
    case "topic":
      return panel.replaceChildren(
        heading,
        make("p", { className: "note" }, t("Select a mark to read its meaning.")),
      );
    case "hypothesis": {
      const { hypothesis } = node;
      return panel.replaceChildren(
        heading,
        make("p", {}, ...visible(hypothesis.text)),
        typeof hypothesis.probability === "number"
          ? make("p", {}, t("the agents say {share}", { share: percent(hypothesis.probability) }))
          : "",
        hypothesis.rejected_reason
          ? make("p", {}, make("b", {}, t("Rejected: ")), ...visible(hypothesis.rejected_reason))
          : "",
      );
    }
    case "evidence": {
      const { hypothesis, callId } = node;
      const lines = hypothesis.evidence.filter(({ call_ids }) => call_ids.includes(callId));
      const items = evidenceItems({ evidence: lines }, summary.calls);
      const button = make("button", { type: "button" }, t("Show the tool call"));
      button.addEventListener("click", () => showCall(callId));
      return panel.replaceChildren(
        heading,
        make("ul", { className: "lines" }, ...items),
        summary.calls.has(callId) ? button : "",
      );
    }
    default: {
      const review = node.hypothesis.reviews[node.review];
      const items = review === undefined ? [] : reviewItems(review, summary.calls);
      return panel.replaceChildren(heading, make("ul", { className: "lines" }, ...items));
    }
  }
}

function focusChosen() {
  const mark = get("map-picture").querySelector(".chosen");
  if (mark instanceof SVGElement) mark.focus();
}

/** @param {string} key */
function choose(key) {
  chosen = key;
  draw();
}

function stop() {
  clearInterval(timer);
  timer = undefined;
  get("map-play").textContent = t("Replay");
}

function play() {
  if (timer !== undefined) return stop();
  if (moment === undefined || moment >= summary.frames.length - 1) moment = 0;
  get("map-play").textContent = t("Pause");
  draw();
  timer = setInterval(() => {
    moment = (moment ?? 0) + 1;
    if (moment >= summary.frames.length - 1) {
      moment = undefined;
      stop();
    }
    draw();
  }, STEP_MS);
}

get("map").addEventListener("toggle", () => get("map").open ? draw() : stop());
get("map-play").addEventListener("click", play);
get("map-moment").addEventListener("input", () => {
  stop();
  const { value, max } = get("map-moment");
  moment = Number(value) >= Number(max) ? undefined : Number(value);
  draw();
});
get("map-round").addEventListener("change", () => {
  round = get("map-round").value;
  draw();
});
get("map-picture").addEventListener("click", ({ target }) => {
  const mark = target instanceof Element ? target.closest("[data-key]") : null;
  const key = mark instanceof SVGElement ? mark.dataset.key : undefined;
  if (key !== undefined) choose(key);
});
/** @type {Readonly<Record<string, number>>} */
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
get("map-picture").addEventListener("keydown", (event) => {
  const step = STEPS[event.key];
  /** @type {SVGElement[]} */
  const marks = [...get("map-picture").querySelectorAll(/** @type {"g"} */ ("[data-key]"))];
  const keys = marks.map(({ dataset }) => dataset.key ?? "");
  if (step === undefined) return;
  event.preventDefault();
  choose(keys[(keys.indexOf(chosen) + step + keys.length) % keys.length] ?? chosen);
});
