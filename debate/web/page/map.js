import { get, make } from "./api.js";
import { agentName, evidenceItems, reviewItems, showCall } from "./evidence.js";
import { element, percent } from "./drawing.js";
import { mapOf, SIZE } from "./map_layout.js";
import { plain, visible } from "./visible.js";
import { t } from "./words.js";

/** How long each moment stays, in milliseconds. */
const STEP_MS = 1100;

/** The moment that is shown; `undefined`: always the last one. */
let moment;
let chosen = "topic";
let round = "";
let timer;
let summary;

/** Begins with a run of which nothing is known. */
export function beginMap() {
  stop();
  moment = undefined;
  chosen = "topic";
  round = "";
}

/** Draws the map of a run, if anybody looks at it. */
export function showMap(of) {
  summary = of;
  get("map").hidden = of.frames.length === 0;
  if (get("map").open && of.frames.length > 0) draw();
}

function draw() {
  const { frames } = summary;
  const last = frames.length - 1;
  const place = Math.min(moment ?? last, last);
  const { hypotheses, round: now, node } = frames[place];
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
  const isDim = (rounds) => round !== "" && rounds.length > 0 && !rounds.includes(Number(round));
  const picture = element("svg", {
    viewBox: `0 0 ${SIZE} ${SIZE}`,
    role: "group",
    "aria-label": t("Map of the hypotheses; the arrow keys go from one to the next"),
  });
  for (const { from, to, kind, rounds } of map.edges) {
    const [a, b] = [places.get(from), places.get(to)];
    const className = `edge edge-${kind}${isDim(rounds) ? " dim" : ""}`;
    picture.append(element("line", { class: className, x1: a.x, y1: a.y, x2: b.x, y2: b.y }));
  }
  for (const each of map.nodes) picture.append(nodeOf(each, isDim(each.rounds)));
  const hadFocus = get("map-picture").contains(document.activeElement);
  get("map-picture").replaceChildren(picture);
  if (hadFocus) focusChosen();
  showDetails(places.get(chosen));
}

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

function nodeOf(node, isDim) {
  const { key, kind, x, y, hypothesis, counts } = node;
  const leads = kind === "hypothesis" && hypothesis.id === summary.decision?.grounding?.hypothesis_id;
  const names = [
    "node",
    `node-${kind}`,
    kind === "hypothesis" ? `state-${hypothesis.state}` : "",
    kind === "evidence" ? counts ? "counts" : "void" : "",
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

function labelOf({ kind, hypothesis, callId, review }) {
  switch (kind) {
    case "topic":
      return t("incident");
    case "hypothesis":
      return plain(hypothesis.id).slice(0, MAX_LABEL);
    case "evidence": {
      const number = summary.calls.get(callId)?.number;
      return number === undefined ? "…" : `#${number}`;
    }
    default:
      return hypothesis.reviews[review].verdict === "rejected" ? "−" : "?";
  }
}

function nameOf({ kind, hypothesis, callId, counts, review }) {
  switch (kind) {
    case "topic":
      return t("The incident");
    case "hypothesis":
      return t("Hypothesis {id}, {state}", { id: plain(hypothesis.id), state: t(hypothesis.state) });
    case "evidence": {
      const call = summary.calls.get(callId);
      const name = call === undefined
        ? t("an earlier run")
        : `${plain(call.tool_name)} #${call.number ?? ""}`;
      return counts
        ? t("Evidence for {id} that counts: {name}", { id: plain(hypothesis.id), name })
        : t("Evidence for {id} that does not count: {name}", { id: plain(hypothesis.id), name });
    }
    default:
      return t("Objection to {id}, {verdict}", {
        id: plain(hypothesis.id),
        verdict: t(hypothesis.reviews[review].verdict),
      });
  }
}

function showDetails(node) {
  const { kind, hypothesis, callId, review } = node;
  const heading = make("h3", {}, nameOf(node));
  const panel = get("map-details");
  switch (kind) {
    case "topic":
      return panel.replaceChildren(
        heading,
        make("p", { className: "note" }, t("Choose a mark to read what it stands for.")),
      );
    case "hypothesis":
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
    case "evidence": {
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
    default:
      return panel.replaceChildren(
        heading,
        make("ul", { className: "lines" }, ...reviewItems(hypothesis.reviews[review], summary.calls)),
      );
  }
}

function focusChosen() {
  get("map-picture").querySelector(".chosen")?.focus();
}

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
    moment += 1;
    if (moment >= summary.frames.length - 1) {
      moment = undefined;
      stop();
    }
    draw();
  }, STEP_MS);
}

get("map").addEventListener("toggle", () => get("map").open ? draw() : stop());
get("map-play").addEventListener("click", play);
get("map-moment").addEventListener("input", ({ target }) => {
  stop();
  moment = Number(target.value) >= Number(target.max) ? undefined : Number(target.value);
  draw();
});
get("map-round").addEventListener("change", ({ target }) => {
  round = target.value;
  draw();
});
get("map-picture").addEventListener("click", ({ target }) => {
  const key = target.closest("[data-key]")?.dataset.key;
  if (key !== undefined) choose(key);
});
get("map-picture").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const keys = [...get("map-picture").querySelectorAll("[data-key]")].map(({ dataset }) => dataset.key);
  if (step === undefined) return;
  event.preventDefault();
  choose(keys[(keys.indexOf(chosen) + step + keys.length) % keys.length]);
});
