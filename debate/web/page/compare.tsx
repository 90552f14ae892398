import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, VisibleText } from "@gateway/shared/ui";
import { formatDuration, formatTime, percent } from "./format.ts";
import { t } from "./language.ts";
import { useLoaded } from "./loaded.ts";
import { nameOf } from "./run_list.ts";
import {
  beginSummary,
  causeOf,
  dollarsOf,
  leadOf,
  modelsOf,
  ranked,
  type Summary,
  tell,
  verdictOf,
} from "./summary.ts";
import type { RunView } from "./views.ts";

interface Side {
  readonly record: RunView;
  readonly summary: Summary;
}

/** A fact of a run, or a list of facts. */
type Fact = string | readonly string[];

/** Two runs side by side. Differences are marked. */
export function Compare({ one, other }: { readonly one: string; readonly other: string }): JSX.Element {
  const [first] = useLoaded<RunView>(`/api/runs/${one}`);
  const [second] = useLoaded<RunView>(`/api/runs/${other}`);
  const [isShort, setShort] = useState(false);
  return (
    <>
      <div class="head">
        <h1 tabIndex={-1}>{t("Two runs compared")}</h1>
        <label class="check actions">
          <input
            type="checkbox"
            checked={isShort}
            onChange={({ currentTarget: { checked } }) => setShort(checked)}
          />
          {t("Only differences")}
        </label>
      </div>
      {first !== undefined && second !== undefined && (
        <Sides sides={[sideOf(first), sideOf(second)]} isShort={isShort} />
      )}
    </>
  );
}

function sideOf(record: RunView): Side {
  const summary = beginSummary(record.imported === true);
  for (const event of record.events ?? []) {
    try {
      tell(summary, event);
    } catch {
      // A damaged event must not hide the others.
    }
  }
  return { record, summary };
}

function Sides(
  { sides, isShort }: { readonly sides: readonly [Side, Side]; readonly isShort: boolean },
): JSX.Element {
  const rows = ROWS.map(([name, factOf]) => {
    const facts = sides.map(factOf);
    return { name, facts, isSame: JSON.stringify(facts[0]) === JSON.stringify(facts[1]) };
  }).filter(({ facts, isSame }) => facts.some((fact) => fact.length > 0) && !(isShort && isSame));
  return (
    <div class="table compare">
      <table role="table" aria-label={t("Two runs compared")}>
        <thead role="rowgroup">
          <tr role="row">
            <td role="cell" />
            {sides.map(({ record, summary }) => (
              <th key={record.run_id} role="columnheader" scope="col">
                <a href={`#/runs/${record.run_id}`}>
                  <VisibleText text={nameOf(record)} lines limit={200} />
                </a>
                <span class="sub">
                  <Verdict record={record} summary={summary} />
                </span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map(({ name, facts, isSame }) => (
            <tr key={name} role="row" class={isSame ? "same" : "differs"}>
              <th role="rowheader" scope="row">
                {name}
                {!isSame && <span class="unseen">{t(", different")}</span>}
              </th>
              {facts.map((fact, index) => (
                <td key={index} role="cell">
                  <Shown fact={fact} other={facts[1 - index] ?? ""} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length === 0 && <p class="note">{t("The runs do not differ")}</p>}
    </div>
  );
}

function Verdict({ record, summary }: Side): JSX.Element {
  const { tone, title } = verdictOf(summary, record.status);
  return (
    <Badge tone={tone}>
      <VisibleText text={t(title)} limit={80} />
    </Badge>
  );
}

/** A fact. In a list, the entries that the other list lacks are marked. */
function Shown({ fact, other }: { readonly fact: Fact; readonly other: Fact }): ComponentChildren {
  if (typeof fact === "string") return fact === "" ? "–" : <VisibleText text={fact} lines limit={2000} />;
  return (
    <ul>
      {fact.map((entry, index) => (
        <li key={index}>
          {other.includes(entry) ? <VisibleText text={entry} lines limit={600} /> : (
            <ins>
              <VisibleText text={entry} lines limit={600} />
            </ins>
          )}
        </li>
      ))}
    </ul>
  );
}

const ROWS: readonly (readonly [name: string, factOf: (side: Side) => Fact])[] = [
  [t("Problem"), ({ summary }) => summary.problem],
  [t("Cause"), ({ summary }) => causeOf(summary)],
  [
    t("Confidence"),
    ({ summary: { decision, imported } }) =>
      decision === undefined
        ? ""
        : `${percent(decision.confidence)}${imported ? t(", stated elsewhere") : ""}`,
  ],
  [t("Why"), ({ summary: { decision } }) => decision?.grounding?.reason ?? ""],
  [t("Evidence"), ({ summary }) => evidenceOf(summary)],
  [
    t("Hypotheses"),
    ({ summary }) =>
      ranked(summary).map(({ state, probability, text }) =>
        `${t(state)}${typeof probability === "number" ? `, ${percent(probability)}` : ""}: ${text}`
      ),
  ],
  [t("Recommended fix"), ({ summary: { decision } }) => decision?.recommended_fix ?? ""],
  [t("Tool calls"), ({ summary: { calls } }) => {
    const failed = [...calls.values()].filter(({ error }) => error).length;
    return failed === 0 ? `${calls.size}` : `${calls.size}, ${t("{count} failed", { count: failed })}`;
  }],
  [t("Models"), ({ record: { models } }) => modelsOf(models)],
  [t("Started"), ({ record: { timestamp } }) => formatTime(timestamp)],
  [
    t("Duration"),
    ({ record: { duration_seconds: seconds } }) => typeof seconds === "number" ? formatDuration(seconds) : "",
  ],
  [t("Tokens"), ({ record: { token_totals } }) => tokenCount(token_totals?.total?.total_tokens)],
  [
    t("Cost"),
    ({ record: { cost_estimate } }) =>
      typeof cost_estimate?.total_usd === "number" ? dollarsOf(cost_estimate.total_usd) : t("unknown"),
  ],
];

function tokenCount(count: number | undefined): string {
  return count === undefined ? "" : count.toLocaleString("en");
}

/** The evidence for the leading hypothesis. Runs of old versions have unchecked lines. */
function evidenceOf(summary: Summary): readonly string[] {
  const { evidence = [], supporting_evidence: unchecked = [] } = leadOf(summary) ?? {};
  const lines = evidence.map(({ text, status }) =>
    `${status === "grounded" ? "✓" : "✗"} ${text.replace(/\[tool:[^\]\n]{0,80}\]\s*/g, "").trim()}`
  );
  return lines.length > 0 ? lines : unchecked.map((text) => `– ${text}`);
}
