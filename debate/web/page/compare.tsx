import type { ComponentChildren, JSX } from "preact";
import { VisibleText } from "@gateway/shared/ui";
import { formatDuration } from "../../report/duration.ts";
import { formatTime, percent } from "./format.ts";
import { t } from "./language.ts";
import { StateBadge } from "./lists.tsx";
import { useLoaded } from "./loaded.ts";
import { costOf, nameOf } from "./run_list.ts";
import { beginSummary, causeOf, leadOf, modelsOf, ranked, type Summary, tell } from "./summary.ts";
import type { RunView } from "./views.ts";

/** A fact of a run, or a list of facts. */
type Fact = string | readonly string[];

/** Two runs side by side. Differences are marked. */
export function Compare({ one, other }: { readonly one: string; readonly other: string }): JSX.Element {
  const [first] = useLoaded<RunView>(`/api/runs/${one}`);
  const [second] = useLoaded<RunView>(`/api/runs/${other}`);
  const records = first === undefined || second === undefined ? [] : [first, second];
  const [left = {}, right = {}] = records.map(factsOf);
  return (
    <>
      <h1 tabIndex={-1}>{t("Two runs compared")}</h1>
      {records.length === 2 && (
        <div class="table compare">
          <table role="table" aria-label={t("Two runs compared")}>
            <thead role="rowgroup">
              <tr role="row">
                <td role="cell" />
                {records.map((record) => (
                  <th key={record.run_id} role="columnheader" scope="col">
                    <a href={`#/runs/${record.run_id}`}>
                      <VisibleText text={nameOf(record)} lines limit={200} />
                    </a>
                    <span class="sub">
                      <StateBadge run={record} />
                    </span>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody role="rowgroup">
              {Object.entries(left).map(([name, fact]) => {
                const facing = right[name] ?? "";
                const isSame = JSON.stringify(fact) === JSON.stringify(facing);
                return fact.length + facing.length > 0 && (
                  <tr key={name} role="row" class={isSame ? "same" : "differs"}>
                    <th role="rowheader" scope="row">
                      {name}
                      {!isSame && <span class="unseen">{t(", different")}</span>}
                    </th>
                    <td role="cell">
                      <Shown fact={fact} facing={facing} />
                    </td>
                    <td role="cell">
                      <Shown fact={facing} facing={fact} />
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

/** A fact. In a list, the entries that the other list lacks are marked. */
function Shown({ fact, facing }: { readonly fact: Fact; readonly facing: Fact }): ComponentChildren {
  if (typeof fact === "string") return fact === "" ? "–" : <VisibleText text={fact} lines limit={2000} />;
  return (
    <ul>
      {fact.map((entry, index) => {
        const text = <VisibleText text={entry} lines limit={600} />;
        return <li key={index}>{facing.includes(entry) ? text : <ins>{text}</ins>}</li>;
      })}
    </ul>
  );
}

function factsOf(record: RunView): Readonly<Record<string, Fact>> {
  const summary = beginSummary(record.imported === true);
  for (const event of record.events ?? []) tell(summary, event);
  const { decision, calls, problem } = summary;
  const failed = [...calls.values()].filter(({ error }) => error).length;
  const { duration_seconds: seconds } = record;
  return {
    [t("Problem")]: problem,
    [t("Cause")]: causeOf(summary),
    [t("Confidence")]: decision === undefined ? "" : percent(decision.confidence),
    [t("Why")]: decision?.grounding?.reason ?? "",
    [t("Evidence")]: evidenceOf(summary),
    [t("Hypotheses")]: ranked(summary).map(({ state, probability, text }) =>
      `${t(state)}${typeof probability === "number" ? `, ${percent(probability)}` : ""}: ${text}`
    ),
    [t("Recommended fix")]: decision?.recommended_fix ?? "",
    [t("Tool calls")]: `${calls.size}${failed === 0 ? "" : `, ${t("{count} failed", { count: failed })}`}`,
    [t("Models")]: modelsOf(record.models),
    [t("Started")]: formatTime(record.timestamp),
    [t("Duration")]: typeof seconds === "number" ? formatDuration(seconds) : "",
    [t("Cost")]: costOf(record),
  };
}

/** The evidence for the leading hypothesis. Runs of old versions have unchecked lines. */
function evidenceOf(summary: Summary): readonly string[] {
  const { evidence = [], supporting_evidence: unchecked = [] } = leadOf(summary) ?? {};
  const lines = evidence.map(({ text, status }) =>
    `${status === "grounded" ? "✓" : "✗"} ${text.replace(/\[tool:[^\]\n]{0,80}\]\s*/g, "").trim()}`
  );
  return lines.length > 0 ? lines : unchecked.map((text) => `– ${text}`);
}
