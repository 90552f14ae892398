import type { JSX } from "preact";
import { Badge, type Tone, VisibleText } from "@gateway/shared/ui";
import type { Hypothesis } from "../../engine/graph/state.ts";
import { agentName, evidenceItems, Lines, reviewItems } from "./evidence.tsx";
import { percent } from "./format.ts";
import { t } from "./language.ts";
import { Fold } from "./part.tsx";
import { leadOf, ranked, type Summary } from "./summary.ts";

const TONES: Readonly<Record<string, Tone>> = { confirmed: "good", active: "accent" };

/** All hypotheses, the likeliest first. */
export function Board({ summary, isOpen }: {
  readonly summary: Summary;
  readonly isOpen: boolean;
}): JSX.Element | null {
  if (summary.hypotheses.length === 0) return null;
  const lead = leadOf(summary);
  return (
    <Fold id="hypotheses" title={t("Hypotheses")} isOpen={isOpen}>
      <ul class="board stack">
        {ranked(summary).map((each) => (
          <HypothesisRow key={each.id} hypothesis={each} calls={summary.calls} leads={each === lead} />
        ))}
      </ul>
    </Fold>
  );
}

function HypothesisRow({ hypothesis, calls, leads }: {
  readonly hypothesis: Hypothesis;
  readonly calls: Summary["calls"];
  readonly leads: boolean;
}): JSX.Element {
  const { id, text, state, probability, rejected_reason, reviews = [], proposer, round, transitions = [] } =
    hypothesis;
  const since = round === 0 ? t("the run before") : t("round {round}", { round });
  return (
    <li class={`hypothesis stack tight ${state}`}>
      <div class="head">
        <b>
          <VisibleText text={id} />
        </b>
        <Badge tone={TONES[state] ?? "idle"}>
          {leads ? t("{state}, leads", { state: t(state) }) : t(state)}
        </Badge>
        {typeof probability === "number" && <span class="actions">{percent(probability)}</span>}
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
        <Lines title={t("Evidence")} items={evidenceItems(hypothesis, calls)} />
        <Lines
          title={t("Reviews")}
          items={reviews.flatMap((review) => reviewItems(review, proposer, calls))}
        />
        <Lines
          title={t("Proposed by {agent} in {since}", { agent: agentName(proposer), since })}
          items={transitions.map(({ round, from, to, agent, note }, index) => (
            <li key={index}>
              {t("Round {round}, {agent}: ", { round, agent: agentName(agent) })}
              {`${from === null ? "" : `${t(from)} → `}${t(to)}. `}
              <VisibleText text={note} lines />
            </li>
          ))}
        />
      </details>
    </li>
  );
}
