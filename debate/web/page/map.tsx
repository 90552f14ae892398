import type { JSX } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { Icon, VisibleText } from "@gateway/shared/ui";
import { callLine } from "./call_line.ts";
import { agentName, evidenceItems, reviewItems } from "./evidence.tsx";
import { percent } from "./format.ts";
import { t } from "./language.ts";
import { type MapEdge, type MapNode, mapOf, WIDTH } from "./map_layout.ts";
import { HypothesisId } from "./mark_link.tsx";
import { Shown } from "./shown.tsx";
import type { Summary } from "./summary.ts";

/** Duration of each step of the replay, in milliseconds. */
const STEP_MS = 1100;

/** A picture of the hypotheses with their evidence and objections, at any time of the run. */
export function RunMap({ summary }: { readonly summary: Summary }): JSX.Element | null {
  const [isOpen, setOpen] = useState(false);
  if (summary.frames.length === 0) return null;
  return (
    <details
      id="map"
      class="more"
      open={isOpen}
      onToggle={({ currentTarget }) => setOpen(currentTarget.open)}
    >
      <summary>{t("Map")}</summary>
      {isOpen && <Picture summary={summary} />}
    </details>
  );
}

function Picture({ summary }: { readonly summary: Summary }): JSX.Element {
  const { frames, calls, decision } = summary;
  const last = frames.length - 1;
  // The last moment moves with the run.
  const [moment, setMoment] = useState<number>();
  const [isPlaying, setPlaying] = useState(false);
  const [chosen, choose] = useState("topic");
  const [round, setRound] = useState("");
  const place = Math.min(moment ?? last, last);
  const { hypotheses = [], round: now = 0, node = "" } = frames[place] ?? {};
  useEffect(() => {
    if (!isPlaying) return;
    if (place >= last) {
      setMoment(undefined);
      return setPlaying(false);
    }
    const timer = setTimeout(() => setMoment(place + 1), STEP_MS);
    return () => clearTimeout(timer);
  }, [isPlaying, place]);
  const play = () => {
    if (!isPlaying && place >= last) setMoment(0);
    setPlaying(!isPlaying);
  };
  const when = now === 0
    ? t("Before the first round")
    : t("Round {round}, after {agent}", { round: now, agent: agentName(node) });
  const rounds = [...new Set(frames.map((each) => each.round))].filter((each) => each !== 0);
  const layout = mapOf(hypotheses);
  const current = layout.nodes.find(({ key }) => key === chosen) ?? layout.nodes[0];
  const isDim = ({ rounds }: { readonly rounds: readonly number[] }) =>
    round !== "" && rounds.length > 0 && !rounds.includes(Number(round));
  return (
    <>
      <div class="row">
        <button type="button" onClick={play}>
          <Icon name={isPlaying ? "pause" : "play"} />
          {isPlaying ? t("Pause") : t("Replay")}
        </button>
        <label class="inline">
          <span class="unseen">{t("Moment")}</span>
          <input
            type="range"
            min={0}
            max={last}
            value={place}
            aria-valuetext={when}
            onInput={({ currentTarget }) => {
              setPlaying(false);
              const value = Number(currentTarget.value);
              setMoment(value >= last ? undefined : value);
            }}
          />
        </label>
        <span class="note map-when">{when}</span>
        <label class="inline">
          <span>{t("Rounds")}</span>
          <select value={round} onChange={({ currentTarget }) => setRound(currentTarget.value)}>
            <option value="">{t("all rounds")}</option>
            {rounds.map((each) => (
              <option key={each} value={each}>{t("Round {round}", { round: each })}</option>
            ))}
          </select>
        </label>
      </div>
      <div class="map-sides">
        <Marks
          {...layout}
          chosen={current?.key ?? ""}
          choose={choose}
          isDim={isDim}
          calls={calls}
          leader={decision?.grounding?.hypothesis_id ?? undefined}
        />
        <div class="map-details" aria-live="polite">
          {current !== undefined && <Details node={current} calls={calls} />}
        </div>
      </div>
      <Legend />
    </>
  );
}

const STEPS: Readonly<Record<string, number>> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

function Marks(
  { nodes, edges, height, chosen, choose, isDim, calls, leader }: {
    readonly nodes: readonly MapNode[];
    readonly edges: readonly MapEdge[];
    readonly height: number;
    readonly chosen: string;
    readonly choose: (key: string) => void;
    readonly isDim: (mark: { readonly rounds: readonly number[] }) => boolean;
    readonly calls: Summary["calls"];
    /** The ID of the leading hypothesis. */
    readonly leader: string | undefined;
  },
): JSX.Element {
  const picture = useRef<HTMLDivElement>(null);
  const places = new Map(nodes.map((each) => [each.key, each]));
  const step = (event: KeyboardEvent) => {
    const by = STEPS[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const at = nodes.findIndex(({ key }) => key === chosen);
    const next = (at + by + nodes.length) % nodes.length;
    choose(nodes[next]?.key ?? chosen);
    picture.current?.querySelectorAll<HTMLElement>("button")[next]?.focus();
  };
  return (
    <div
      class="map-picture"
      role="group"
      aria-label={t("Map of the hypotheses; the arrow keys move between the marks")}
      ref={picture}
      onKeyDown={step}
    >
      <svg viewBox={`0 0 ${WIDTH} ${height}`} width={WIDTH} height={height}>
        {edges.map(({ from, to, kind, rounds }) => (
          <path
            key={`${from} ${to}`}
            class={`edge edge-${kind}${isDim({ rounds }) ? " dim" : ""}`}
            d={pathOf(places.get(from), places.get(to))}
          />
        ))}
        {nodes.map((node) => {
          const { key, x, y, width, height } = node;
          const leads = node.kind === "hypothesis" && node.hypothesis.id === leader;
          return (
            <foreignObject key={key} x={x - 4} y={y - 4} width={width + 8} height={height + 8}>
              <button
                type="button"
                class={`node ${lookOf(node)}${leads ? " leads" : ""}${isDim(node) ? " dim" : ""}`}
                data-key={key}
                tabIndex={key === chosen ? 0 : -1}
                aria-pressed={key === chosen}
                onClick={() => choose(key)}
              >
                {node.kind !== "topic" && (
                  <span class="unseen">
                    <VisibleText text={`${meaningOf(node)}: `} lines />
                  </span>
                )}
                <Label node={node} calls={calls} />
              </button>
            </foreignObject>
          );
        })}
      </svg>
    </div>
  );
}

function pathOf(from: MapNode | undefined, to: MapNode | undefined): string {
  if (from === undefined || to === undefined) return "";
  const [x1, y1, x2, y2] = [from.x + from.width, from.y + from.height / 2, to.x, to.y + to.height / 2];
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

/** The class names of a mark. The legend has the same. */
function lookOf(node: MapNode): string {
  switch (node.kind) {
    case "topic":
      return "topic";
    case "hypothesis":
      return `state-${node.hypothesis.state}`;
    case "evidence":
      return node.counts ? "counts" : "void";
    case "objection":
      return "objection";
    default:
      return node satisfies never;
  }
}

const MAX_LABEL = 160;

function Label({ node, calls }: { readonly node: MapNode; readonly calls: Summary["calls"] }): JSX.Element {
  switch (node.kind) {
    case "topic":
      return <b>{t("Incident")}</b>;
    case "hypothesis": {
      const { id, text, probability, state } = node.hypothesis;
      return (
        <>
          <span class="node-head">
            <HypothesisId id={id} /> <span>{t(state)}</span>{" "}
            {typeof probability === "number" && <b>{percent(probability)}</b>}
          </span>
          <span class="node-text">
            <VisibleText text={withoutClaim(text).slice(0, MAX_LABEL)} lines />
          </span>
        </>
      );
    }
    case "evidence": {
      const call = calls.get(node.callId);
      if (call === undefined) return <b>{t("an earlier run")}</b>;
      return (
        <>
          <b class="node-line">
            <VisibleText text={`${call.tool_name} #${call.number ?? "?"}`} lines />
          </b>
          <span class="node-line">
            <VisibleText text={callLine(call.tool_name, call.args).slice(0, MAX_LABEL)} lines />
          </span>
        </>
      );
    }
    case "objection": {
      const review = node.hypothesis.reviews[node.review];
      if (review === undefined) return <b>{t("Objection")}</b>;
      return (
        <>
          <b class="node-line">{`${agentName(review.agent)}: ${t(review.verdict)}`}</b>{" "}
          <span class="node-line">
            <VisibleText text={review.reason.slice(0, MAX_LABEL)} lines />
          </span>
        </>
      );
    }
    default:
      return node satisfies never;
  }
}

/** A text can start with a machine-readable claim. */
function withoutClaim(text: string): string {
  return text.replace(/^\{\s*component:[^{}]*\}\s*(?=\S)/i, "");
}

/** The meaning of a mark, for the heading and for screen readers. */
function meaningOf(node: MapNode): string {
  if (node.kind === "topic") return t("The incident");
  const { id } = node.hypothesis;
  switch (node.kind) {
    case "hypothesis":
      return t("Hypothesis");
    case "evidence":
      return node.counts
        ? t("Evidence for {id} that counts", { id })
        : t("Evidence for {id} that does not count", { id });
    case "objection":
      return t("Objection to {id}", { id });
    default:
      return node satisfies never;
  }
}

function Details({ node, calls }: { readonly node: MapNode; readonly calls: Summary["calls"] }): JSX.Element {
  const { show } = useContext(Shown);
  const heading = (
    <h3>
      <VisibleText text={meaningOf(node)} lines />{" "}
      {node.kind === "hypothesis" && <HypothesisId id={node.hypothesis.id} />}
    </h3>
  );
  switch (node.kind) {
    case "topic":
      return (
        <>
          {heading}
          <p class="note">{t("Select a mark to see its details.")}</p>
        </>
      );
    case "hypothesis": {
      const { text, probability, rejected_reason: reason } = node.hypothesis;
      return (
        <>
          {heading}
          <p>
            <VisibleText text={text} lines />
          </p>
          {typeof probability === "number" && (
            <p class="note">
              {t("Probability, as the agents state it: {share}", { share: percent(probability) })}
            </p>
          )}
          {typeof reason === "string" && reason !== "" && (
            <p>
              <b>{t("Rejected: ")}</b>
              <VisibleText text={reason} lines />
            </p>
          )}
        </>
      );
    }
    case "evidence": {
      const { hypothesis, callId } = node;
      const lines = hypothesis.evidence.filter(({ call_ids }) => call_ids.includes(callId));
      return (
        <>
          {heading}
          <ul class="lines">{evidenceItems({ evidence: lines }, calls)}</ul>
          {calls.has(callId) && (
            <button
              type="button"
              onClick={() => show({ callId, ...(lines[0] && { line: lines[0].text }) })}
            >
              {t("Show the tool call")}
            </button>
          )}
        </>
      );
    }
    case "objection": {
      const { hypothesis, review } = node;
      const found = hypothesis.reviews[review];
      return (
        <>
          {heading}
          <ul class="lines">{found !== undefined && reviewItems(found, hypothesis.proposer, calls)}</ul>
        </>
      );
    }
    default:
      return node satisfies never;
  }
}

function Legend(): JSX.Element {
  const entries = [
    ["state-active leads", t("leading hypothesis")],
    ["state-confirmed", t("confirmed")],
    ["state-active", t("active")],
    ["state-rejected", t("rejected")],
    ["counts", t("evidence that counts")],
    ["void", t("evidence that does not count")],
    ["objection", t("objection of a reviewer")],
  ] as const;
  return (
    <ul class="map-legend" aria-label={t("Legend")}>
      {entries.map(([look, text]) => (
        <li key={look}>
          <i class={`node ${look}`} />
          {text}
        </li>
      ))}
    </ul>
  );
}
