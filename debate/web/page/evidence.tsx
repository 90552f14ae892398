import { type ComponentChildren, Fragment, type JSX } from "preact";
import { useContext } from "preact/hooks";
import { Icon, VisibleText } from "@gateway/shared/ui";
import type { Evidence, EvidenceStatus, Hypothesis, Review } from "../../engine/graph/state.ts";
import { t } from "./language.ts";
import { Shown } from "./shown.tsx";
import type { Summary } from "./summary.ts";

type Calls = Summary["calls"];

const WHY: Readonly<Record<Exclude<EvidenceStatus, "grounded">, string>> = {
  uncited: "it cites no tool call",
  unquoted: "it quotes nothing from the result",
  no_such_call: "there is no such tool call",
  failed_call: "the call failed or was not run",
  not_in_result: "the result does not contain the quote",
  unchecked: "it was not checked here",
  too_little: "the quote is too short, or repeats the arguments of the call",
};

/** The evidence of a hypothesis as list items. Runs of old versions have lines that were not checked. */
export function evidenceItems(
  { evidence = [], supporting_evidence = [] }: Partial<Pick<Hypothesis, "evidence" | "supporting_evidence">>,
  calls: Calls,
): readonly JSX.Element[] {
  const old = supporting_evidence.map((text) => ({ text, status: "unchecked", call_ids: [] }) as const);
  return (evidence.length > 0 ? evidence : old).map((line, index) => (
    <EvidenceLine key={index} line={line} calls={calls} />
  ));
}

/** One line of evidence with links to the cited calls. */
function EvidenceLine({ line: { text, status, call_ids }, calls }: {
  readonly line: Pick<Evidence, "text" | "status" | "call_ids">;
  readonly calls: Calls;
}): JSX.Element {
  const { show } = useContext(Shown);
  const counts = status === "grounded";
  const said = text.replace(/\[tool:[^\]\n]{0,80}\]\s*/g, "").trim();
  return (
    <Line
      mark={<Icon name={counts ? "check" : "close"} />}
      tone={counts ? "ok" : "no"}
      meaning={counts ? t("Counts: ") : ""}
    >
      {call_ids.map((id) => {
        const call = calls.get(id);
        return (
          <Fragment key={id}>
            {call === undefined
              ? <span class="note">{t("an earlier run")}</span>
              : (
                <button type="button" class="mark-link" onClick={() => show({ callId: id, line: text })}>
                  <VisibleText text={call.tool_name} limit={80} />
                  {call.number !== undefined && ` #${call.number}`}
                </button>
              )}
            {" "}
          </Fragment>
        );
      })}
      {coded(said)}
      {!counts && <span class="muted">{t(" Does not count: {why}.", { why: t(WHY[status] ?? status) })}
      </span>}
    </Line>
  );
}

export function missingItem(text: string): JSX.Element {
  return (
    <Line mark="?" meaning={t("Missing: ")}>
      <VisibleText text={text} lines />
    </Line>
  );
}

const MARKS = { accepted: "+", rejected: "−", needs_evidence: "?" } as const;

/** A review as list items: the reason and its evidence. */
export function reviewItems(
  review: Review,
  proposer: Hypothesis["proposer"],
  calls: Calls,
): readonly JSX.Element[] {
  const { round, agent, verdict, reason, evidence } = review;
  const words = t("{who}, round {round}, {verdict}", { who: agentName(agent), round, verdict: t(verdict) });
  const weight = weightOf(review, proposer);
  const tone = verdict === "accepted" ? "ok" : weight === WEIGHTS.opinion ? "" : "no";
  return [
    <Line key={`${round} ${agent} ${verdict}`} mark={MARKS[verdict]} tone={tone}>
      <b>{words + t(weight)}</b>
      {reason !== "" && ": "}
      <VisibleText text={reason} lines />
    </Line>,
    ...evidenceItems({ evidence }, calls),
  ];
}

const WEIGHTS = {
  opinion: ", an opinion without a quoted result",
  withdrawn: ", withdrawn by its proposer",
  agreement: ", agreement without new evidence",
} as const;

/** As in the engine, a proposer withdraws its hypothesis without evidence. */
function weightOf(
  { agent, verdict, evidence, new_evidence }: Review,
  proposer: Hypothesis["proposer"],
): string {
  if (verdict === "accepted") return new_evidence ? "" : WEIGHTS.agreement;
  const isOwn = agent === "diagnostic_rebuttal_agent" && proposer === "diagnostic_agent";
  if (verdict === "rejected" && isOwn) return WEIGHTS.withdrawn;
  return evidence.some(({ status }) => status === "grounded") ? "" : WEIGHTS.opinion;
}

function Line({ mark, tone = "", meaning = "", children }: {
  readonly mark: ComponentChildren;
  readonly tone?: "ok" | "no" | "";
  /** The meaning of the mark for screen readers. */
  readonly meaning?: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <li class={`evidence ${tone}`}>
      <span class="mark" aria-hidden="true">{mark}</span>
      <span>
        <span class="unseen">{meaning}</span>
        {children}
      </span>
    </li>
  );
}

/** A list with a heading. Without items it shows `none`, or nothing. */
export function Lines({ title, items, none = "" }: {
  readonly title: string;
  readonly items: readonly JSX.Element[];
  readonly none?: string;
}): JSX.Element | null {
  if (items.length === 0 && none === "") return null;
  return (
    <div>
      <h3>{title}</h3>
      {items.length === 0 ? <p class="note">{none}</p> : <ul class="stack tight">{items}</ul>}
    </div>
  );
}

/** A text with code between backticks. */
export function coded(text: string): readonly JSX.Element[] {
  return text.split(/`([^`]+)`/).map((part, index) => {
    const shown = <VisibleText key={index} text={part} lines />;
    return index % 2 === 0 ? shown : <code key={index}>{shown}</code>;
  });
}

const AGENTS: Readonly<Record<string, string>> = {
  skeptic_agent: "Skeptic",
  diagnostic_rebuttal_agent: "Rebuttal",
  diagnostic_agent: "Diagnosis",
  moderator_agent: "Moderator",
  user_input_gate: "Operator",
};

export function agentName(node: string): string {
  return t(AGENTS[node] ?? node);
}
