import type { JSX } from "preact";
import { Badge, Card, type Tone, VisibleText } from "@gateway/shared/ui";
import type { Hypothesis } from "../../engine/graph/state.ts";
import { agentName, evidenceItems, reviewItems } from "./evidence.tsx";
import { percent } from "./format.ts";
import { t } from "./language.ts";
import { leadOf, ranked, type Summary } from "./summary.ts";

const TONES: Readonly<Record<string, Tone>> = { confirmed: "good", rejected: "idle", active: "accent" };

/** All hypotheses, the likeliest first. */
export function Board({ summary }: { readonly summary: Summary }): JSX.Element | null {
  if (summary.hypotheses.length === 0) return null;
  const lead = leadOf(summary);
  return (
    <Card id="hypotheses" title={t("Hypotheses")}>
      <ul class="board">
        {ranked(summary).map((each) => (
          <HypothesisRow key={each.id} hypothesis={each} summary={summary} leads={each === lead} />
        ))}
      </ul>
    </Card>
  );
}

function HypothesisRow({ hypothesis, summary: { shares, calls }, leads }: {
  readonly hypothesis: Hypothesis;
  readonly summary: Summary;
  readonly leads: boolean;
}): JSX.Element {
  const { id, text, state, probability, rejected_reason, reviews = [], proposer } = hypothesis;
  const evidence = evidenceItems(hypothesis, calls);
  const judged = reviews.flatMap((review) => reviewItems(review, proposer, calls));
  return (
    <li class={`hypothesis ${state}${leads ? " leads" : ""}`}>
      <div class="head">
        <b class="id">
          <VisibleText text={id} />
        </b>
        <Badge tone={TONES[state] ?? "idle"}>
          {leads ? t("{state}, leads", { state: t(state) }) : t(state)}
        </Badge>
        {typeof probability === "number" && (
          <span class="odds">
            <Sparkline points={shares.get(id) ?? []} />
            <span class="count">{percent(probability)}</span>
          </span>
        )}
      </div>
      <p>
        <VisibleText text={text} lines />
      </p>
      {rejected_reason && (
        <p class="note">
          <b>{t("Rejected: ")}</b>
          <VisibleText text={rejected_reason} lines />
        </p>
      )}
      <details class="more">
        <summary>{t("Details")}</summary>
        <Section title={t("Evidence")} items={evidence} />
        <Section title={t("Reviews")} items={judged} />
        <History hypothesis={hypothesis} />
      </details>
    </li>
  );
}

function Section(
  { title, items }: { readonly title: string; readonly items: readonly JSX.Element[] },
): JSX.Element | null {
  return items.length === 0 ? null : (
    <div>
      <h3>{title}</h3>
      <ul class="lines">{items}</ul>
    </div>
  );
}

function History({ hypothesis: { proposer, round, transitions = [] } }: {
  readonly hypothesis: Hypothesis;
}): JSX.Element {
  const since = round === 0 ? t("the run before") : t("round {round}", { round });
  return (
    <div class="history">
      <h3>{t("Proposed by {agent} in {since}", { agent: agentName(proposer), since })}</h3>
      <ul>
        {transitions.map(({ round, from, to, agent, note }, index) => (
          <li key={index}>
            {t("Round {round}, {agent}: ", { round, agent: agentName(agent) })}
            {`${from === null ? "" : `${t(from)} → `}${t(to)}. `}
            <VisibleText text={note} lines />
          </li>
        ))}
      </ul>
    </div>
  );
}

const [WIDTH, HEIGHT] = [72, 20];

/** The probability over time, with its numbers as text for screen readers. */
function Sparkline({ points }: {
  readonly points: readonly { readonly round: number; readonly node: string; readonly share: number }[];
}): JSX.Element | null {
  if (points.length < 2) return null;
  const places = points.map(({ share }, index) =>
    [
      2 + (index * (WIDTH - 6)) / (points.length - 1),
      2 + (1 - share) * (HEIGHT - 4),
    ] as const
  );
  const [x, y] = places.at(-1) ?? [0, 0];
  const values = points.map(({ round, node, share }) =>
    t("{agent} in round {round}: {share}", { agent: agentName(node), round, share: percent(share) })
  ).join(", ");
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={t("Probability over time: {values}", { values })}
    >
      <polyline class="line" points={places.map((place) => place.join(",")).join(" ")} />
      <circle cx={x} cy={y} r="2.5" />
    </svg>
  );
}
