import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Icon, VisibleText } from "@gateway/shared/ui";
import { callLine } from "./call_line.ts";
import { agentName, evidenceItems, reviewItems } from "./evidence.tsx";
import { percent } from "./format.ts";
import { t } from "./language.ts";
import { type MapEdge, type MapNode, mapOf, WIDTH } from "./map_layout.ts";
import { Fold } from "./part.tsx";
import type { Summary } from "./summary.ts";

/** Duration of each step of the replay, in milliseconds. */
const STEP_MS = 1100;

/** A picture of the hypotheses with their evidence and objections, at any time of the run. */
export function RunMap({ summary }: { readonly summary: Summary }): JSX.Element | null {
  const { frames } = summary;
  const last = frames.length - 1;
  // The last moment moves with the run.
  const [moment, setMoment] = useState(Infinity);
  const [isPlaying, setPlaying] = useState(false);
  const [chosen, choose] = useState("topic");
  const place = Math.min(moment, last);
  const goTo = (next: number) => setMoment(next >= last ? Infinity : next);
  useEffect(() => {
    if (!isPlaying) return;
    const timer = setTimeout(() => place < last ? goTo(place + 1) : setPlaying(false), STEP_MS);
    return () => clearTimeout(timer);
  }, [isPlaying, place]);
  const frame = frames[place];
  if (frame === undefined) return null;
  const play = () => {
    if (!isPlaying && place >= last) goTo(0);
    setPlaying(!isPlaying);
  };
  const when = frame.round === 0
    ? t("Before the first round")
    : t("Round {round}, after {agent}", { round: frame.round, agent: agentName(frame.node) });
  const { nodes, edges, height } = mapOf(frame.hypotheses);
  const descriptions = nodes.map((node) => ({ node, ...describe(node, summary) }));
  const current = descriptions.find(({ node }) => node.key === chosen) ?? descriptions[0];
  return (
    <Fold id="map" title={t("Map")}>
      <div class="row">
        <button type="button" onClick={play}>
          <Icon name={isPlaying ? "pause" : "play"} />
          {isPlaying ? t("Pause") : t("Replay")}
        </button>
        <input
          type="range"
          aria-label={t("Moment")}
          min={0}
          max={last}
          value={place}
          aria-valuetext={when}
          onInput={({ currentTarget }) => {
            setPlaying(false);
            goTo(Number(currentTarget.value));
          }}
        />
        <span class="note map-when">{when}</span>
      </div>
      <div class="map-sides">
        <div class="map-picture" role="group" aria-label={t("Map of the hypotheses")}>
          <svg viewBox={`0 0 ${WIDTH} ${height}`} width={WIDTH} height={height}>
            {edges.map((edge) => (
              <path
                key={`${edge.from} ${edge.to}`}
                class={`edge edge-${edge.kind}`}
                d={pathOf(nodes, edge)}
              />
            ))}
            {descriptions.map(({ node, look, meaning, head, text }) => (
              <foreignObject
                key={node.key}
                x={node.x - 4}
                y={node.y - 4}
                width={node.width + 8}
                height={node.height + 8}
              >
                <button
                  type="button"
                  class={`node ${look}`}
                  data-key={node.key}
                  aria-pressed={node === current?.node}
                  onClick={() => choose(node.key)}
                >
                  {node.kind !== "topic" && (
                    <span class="unseen">
                      <VisibleText text={`${meaning}: `} lines />
                    </span>
                  )}
                  <b class="node-line">
                    <VisibleText text={head} lines />
                  </b>
                  {text !== "" && (
                    <span class={node.kind === "hypothesis" ? "node-text" : "node-line"}>
                      <VisibleText text={text.slice(0, MAX_LABEL)} lines />
                    </span>
                  )}
                </button>
              </foreignObject>
            ))}
          </svg>
        </div>
        <div class="map-details stack tight" aria-live="polite">
          <h3>
            <VisibleText text={current?.meaning ?? ""} lines />
          </h3>
          {current?.details}
        </div>
      </div>
      <ul class="map-legend note row" aria-label={t("Legend")}>
        {LEGEND.map(([look, text]) => (
          <li key={look} class="row">
            <i class={`node ${look}`} />
            {text}
          </li>
        ))}
      </ul>
    </Fold>
  );
}

const MAX_LABEL = 160;

const LEGEND = [
  ["state-active leads", t("leading hypothesis")],
  ["state-confirmed", t("confirmed")],
  ["state-active", t("active")],
  ["state-rejected", t("rejected")],
  ["counts", t("evidence that counts")],
  ["void", t("evidence that does not count")],
  ["objection", t("objection of a reviewer")],
] as const;

function pathOf(nodes: readonly MapNode[], edge: MapEdge): string {
  const [from, to] = [edge.from, edge.to].map((key) => nodes.find((node) => node.key === key));
  if (from === undefined || to === undefined) return "";
  const [x1, y1, x2, y2] = [from.x + from.width, from.y + from.height / 2, to.x, to.y + to.height / 2];
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

/** The look of a mark, as in the legend, its meaning and texts, and the details of the chosen one. */
function describe(node: MapNode, { calls, decision }: Summary) {
  switch (node.kind) {
    case "topic": {
      const details = <p class="note">{t("Select a mark to see its details.")}</p>;
      return { look: "topic", meaning: t("The incident"), head: t("Incident"), text: "", details };
    }
    case "hypothesis": {
      const { id, text, state, probability, rejected_reason: reason } = node.hypothesis;
      const share = typeof probability === "number" ? ` ${percent(probability)}` : "";
      return {
        look: `state-${state}${id === decision?.grounding?.hypothesis_id ? " leads" : ""}`,
        meaning: t("Hypothesis"),
        head: `${id} ${t(state)}${share}`,
        // A text can start with a machine-readable claim.
        text: text.replace(/^\{\s*component:[^{}]*\}\s*(?=\S)/i, ""),
        details: (
          <p>
            <VisibleText text={reason ? `${text}\n\n${t("Rejected: ")}${reason}` : text} lines />
          </p>
        ),
      };
    }
    case "evidence": {
      const { hypothesis: { id, evidence }, callId, counts } = node;
      const call = calls.get(callId);
      const lines = evidence.filter(({ call_ids }) => call_ids.includes(callId));
      return {
        look: counts ? "counts" : "void",
        meaning: counts
          ? t("Evidence for {id} that counts", { id })
          : t("Evidence for {id} that does not count", { id }),
        head: call === undefined ? t("an earlier run") : `${call.tool_name} #${call.number ?? "?"}`,
        text: call === undefined ? "" : callLine(call.tool_name, call.args),
        details: <ul class="stack tight">{evidenceItems({ evidence: lines }, calls)}</ul>,
      };
    }
    case "objection": {
      const { hypothesis: { id, proposer }, review } = node;
      return {
        look: "objection",
        meaning: t("Objection to {id}", { id }),
        head: `${agentName(review.agent)}: ${t(review.verdict)}`,
        text: review.reason,
        details: <ul class="stack tight">{reviewItems(review, proposer, calls)}</ul>,
      };
    }
    default:
      return node satisfies never;
  }
}
