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
  unchecked: "the run was imported and not checked here",
  too_little: "the quote is too short, or repeats the arguments of the call",
};

/** The evidence of a hypothesis as list items. Runs of old versions have lines that were not checked. */
export function evidenceItems(
  { evidence = [], supporting_evidence = [] }: Partial<Pick<Hypothesis, "evidence" | "supporting_evidence">>,
  calls: Calls,
  isLinked = true,
): readonly JSX.Element[] {
  if (evidence.length === 0) {
    return supporting_evidence.map((text, index) => (
      <Line key={index} meaning={t("Not checked: ")}>{coded(text)}</Line>
    ));
  }
  return evidence.map((line, index) => (
    <EvidenceLine key={index} line={line} calls={calls} isLinked={isLinked} />
  ));
}

/** One line of evidence with links to the cited calls. */
function EvidenceLine(
  { line: { text, status, call_ids }, calls, isLinked }: {
    readonly line: Evidence;
    readonly calls: Calls;
    readonly isLinked: boolean;
  },
): JSX.Element {
  const counts = status === "grounded";
  const said = text.replace(/\[tool:[^\]\n]{0,80}\]\s*/g, "").trim();
  return (
    <Line mark={counts ? "check" : "close"} tone={counts ? "ok" : "no"} meaning={counts ? t("Counts: ") : ""}>
      {call_ids.map((id) => (
        <Fragment key={id}>
          <CallLink id={id} line={text} calls={calls} isLinked={isLinked} />
          {" "}
        </Fragment>
      ))}
      {coded(said)}
      {!counts && <span class="why">{t(" Does not count: {why}.", { why: t(WHY[status] ?? status) })}</span>}
    </Line>
  );
}

function CallLink(
  { id, line, calls, isLinked }: {
    readonly id: string;
    readonly line: string;
    readonly calls: Calls;
    readonly isLinked: boolean;
  },
): JSX.Element {
  const { show } = useContext(Shown);
  const call = calls.get(id);
  if (call === undefined) return <span class="note">{t("an earlier run")}</span>;
  const name = (
    <>
      <VisibleText text={call.tool_name} limit={80} />
      {call.number !== undefined && ` #${call.number}`}
    </>
  );
  if (!isLinked) return <span class="note">{name}</span>;
  return <button type="button" class="link" onClick={() => show({ callId: id, line })}>{name}</button>;
}

/** Missing evidence as a list item. */
export function missingItem(text: string): JSX.Element {
  return (
    <Line mark="?" meaning={t("Missing: ")}>
      <VisibleText text={text} lines />
    </Line>
  );
}

/** A review as list items: the reason and its evidence. */
export function reviewItems(
  review: Review,
  proposer: Hypothesis["proposer"],
  calls: Calls,
): readonly JSX.Element[] {
  const { round, agent, verdict, reason, evidence } = review;
  const key = `${round} ${agent} ${verdict}`;
  const words = t("{who}, round {round}, {verdict}", { who: agentName(agent), round, verdict: t(verdict) });
  const weight = weightOf(review, proposer);
  const tone = verdict === "accepted" ? "ok" : weight === "opinion" ? "" : "no";
  return [
    <Line
      key={key}
      mark={verdict === "accepted" ? "+" : verdict === "rejected" ? "−" : "?"}
      tone={tone}
      meaning=""
    >
      <b>{words + (weight === undefined ? "" : t(WEIGHTS[weight]))}</b>
      {reason !== "" && ": "}
      <VisibleText text={reason} lines />
    </Line>,
    ...evidence.map((line, index) => (
      <EvidenceLine key={`${key} ${index}`} line={line} calls={calls} isLinked />
    )),
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
): keyof typeof WEIGHTS | undefined {
  if (verdict === "accepted") return new_evidence ? undefined : "agreement";
  const isOwn = agent === "diagnostic_rebuttal_agent" && proposer === "diagnostic_agent";
  if (verdict === "rejected" && isOwn) return "withdrawn";
  return evidence.some(({ status }) => status === "grounded") ? undefined : "opinion";
}

function Line(
  { mark, tone = "", meaning, children }: {
    readonly mark?: "check" | "close" | "+" | "−" | "?";
    readonly tone?: "ok" | "no" | "";
    /** The meaning of the mark for screen readers. */
    readonly meaning: string;
    readonly children: ComponentChildren;
  },
): JSX.Element {
  return (
    <li class={`evidence ${tone}`}>
      <span class="mark" aria-hidden="true">
        {mark === "check" || mark === "close" ? <Icon name={mark} /> : mark ?? "–"}
      </span>
      <span>
        {meaning !== "" && <span class="unseen">{meaning}</span>}
        {children}
      </span>
    </li>
  );
}

/** A text with code between backticks. */
export function coded(text: string): readonly JSX.Element[] {
  return text.split(/`([^`]+)`/).map((part, index) =>
    index % 2 === 0 ? <VisibleText key={index} text={part} lines /> : (
      <code key={index}>
        <VisibleText text={part} lines />
      </code>
    )
  );
}

const AGENTS: Readonly<Record<string, string>> = {
  skeptic_agent: "Skeptic",
  diagnostic_rebuttal_agent: "Rebuttal",
  diagnostic_agent: "Diagnosis",
  moderator_agent: "Moderator",
  user_input_gate: "Operator",
};

/** The short name of an agent. */
export function agentName(node: string): string {
  return t(AGENTS[node] ?? node);
}
