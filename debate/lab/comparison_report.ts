import { escapeHtml, htmlPage } from "../report/html.ts";
import { FAULT_KINDS } from "../engine/graph/claim.ts";
import type { Comparison, Interval } from "./comparison.ts";

type ArmResult = Comparison["arms"][number];
type Columns<T> = readonly (readonly [head: string, cell: (row: T) => string])[];

const percent = (share: number) => `${Math.round(share * 100)} %`;
const interval = ({ low, high }: Interval) => `${Math.round(low * 100)}-${Math.round(high * 100)} %`;

export function formatComparison(comparison: Comparison): readonly string[] {
  const { arms, protocol, incidents, incidents_sha256, protocol_sha256 } = comparison;
  const row = (arm: string, ...cells: readonly string[]) =>
    arm.padEnd(19) +
    cells.map((cell, index) => ` ${cell.padStart([6, 11, 11, 6, 8, 7][index] ?? 0)}`).join("");
  return [
    `${incidents} incidents, ${protocol.runs} runs each, at most ${protocol.token_budget} tokens a run`,
    `incidents ${incidents_sha256.slice(0, 16)}, protocol ${protocol_sha256.slice(0, 16)}`,
    "",
    row("Arm", "right", "95 %", "conf. wrong", "Brier", "tokens", "useful"),
    ...arms.map(({ arm, right, confidently_wrong, brier, tokens_mean, tool_efficiency: useful }) =>
      row(
        arm,
        percent(right.value),
        interval(right),
        percent(confidently_wrong.value),
        brier?.toFixed(3) ?? "-",
        String(tokens_mean),
        useful === null ? "-" : percent(useful),
      )
    ),
    "",
    ...verdictsOf(comparison),
    ...comparison.notes.map((note) => `Note: ${note}`),
  ];
}

function verdictsOf({ arms, right_for_another_incident: other }: Comparison): readonly string[] {
  const [first] = arms;
  const verdicts = arms.flatMap(({ arm, against_first: right, harm_against_first: harm }) => {
    if (right === undefined || arm === "blind") return [];
    const head = `${arm} against ${first?.arm}:`;
    const meaning = right.low > 0 ? "better" : right.high < 0 ? "worse" : "no difference shown";
    const told = [`${head} right ${points(right)}, ${meaning}`];
    // Confident wrong answers do harm, so they are reported as well.
    if (harm === undefined || (harm.low <= 0 && harm.high >= 0)) return told;
    return [...told, `${head} confident and wrong ${points(harm)}, ${harm.low > 0 ? "worse" : "better"}`];
  });
  const fooled = other === 0 ? "" : " (the score is unreliable)";
  return [
    ...verdicts,
    ...arms.flatMap(controlsOf),
    `Control, answers that are right for another incident: ${other}${fooled}`,
  ];
}

function controlsOf(
  { arm, false_alarms: alarms, right, out_of_budget, failed }: ArmResult,
): readonly string[] {
  const lines = [];
  if (arm === "blind") {
    lines.push(`Control, right without any tool: ${percent(right.value)} ${interval(right)}`);
  } else if (alarms !== undefined && alarms.value > 0) {
    lines.push(
      `${arm}: confident of a cause although nothing is broken: ${percent(alarms.value)} ${interval(alarms)}`,
    );
  }
  if (out_of_budget + failed > 0) lines.push(`${arm}: ${out_of_budget} runs out of tokens, ${failed} failed`);
  return lines;
}

function points({ value, low, high }: Interval): string {
  const signed = (each: number) => `${each > 0 ? "+" : ""}${Math.round(each * 100)}`;
  return `${signed(value)} points (${signed(low)} to ${signed(high)})`;
}

const RIGHT: Columns<ArmResult> = [
  ["Arm", ({ name }) => name],
  ["Right", ({ right }) => percent(right.value)],
  ["95 %", ({ right }) => interval(right)],
  ["Component", ({ component }) => percent(component.value)],
  ["Kind", ({ fault }) => percent(fault.value)],
  ["Confident and right", ({ confidently_right: sure }) => percent(sure.value)],
  ["Confident and wrong", ({ confidently_wrong: sure }) => percent(sure.value)],
  [
    "Right despite a tempting cause",
    ({ tempting }) => tempting === undefined ? "–" : percent(tempting.value),
  ],
  ["False alarms", ({ false_alarms: alarms }) => alarms === undefined ? "–" : percent(alarms.value)],
];

const COSTS: Columns<ArmResult> = [
  ["Arm", ({ name }) => name],
  ["Tokens, mean", ({ tokens_mean }) => String(tokens_mean)],
  ["Cost of all runs", ({ cost_usd }) => cost_usd === null ? "unknown" : `$${cost_usd.toFixed(4)}`],
  ["Tool calls, mean", ({ tool_calls_mean }) => tool_calls_mean.toFixed(1)],
  ["Useful calls", ({ tool_efficiency: useful }) => useful === null ? "–" : percent(useful)],
  ["Out of tokens", ({ out_of_budget }) => String(out_of_budget)],
  ["Failed", ({ failed }) => String(failed)],
];

export function renderComparison(comparison: Comparison): string {
  const { arms, protocol, incidents, generated_at } = comparison;
  const kinds = FAULT_KINDS.filter((kind) => arms.some(({ by_kind }) => by_kind[kind] !== undefined));
  const byKind: Columns<ArmResult> = [
    ["Arm", ({ name }) => name],
    ...kinds.map((kind) =>
      [
        kind.replace("_", " "),
        ({ by_kind: { [kind]: share } }: ArmResult) =>
          share === undefined ? "–" : `${percent(share.value)} (${interval(share)})`,
      ] as const
    ),
  ];
  const bins = arms[0]?.calibration ?? [];
  const calibration: Columns<ArmResult> = [
    ["Arm", ({ name }) => name],
    ["Brier score", ({ brier }) => brier?.toFixed(3) ?? "–"],
    ...bins.map(({ from, to }, index) =>
      [`${percent(from)} to ${percent(to)}`, ({ calibration }: ArmResult) => {
        const { accuracy = null, cases = 0 } = calibration[index] ?? {};
        return accuracy === null ? "–" : `${percent(accuracy)} of ${cases}`;
      }] as const
    ),
  ];
  const facts = [
    ["Created", generated_at],
    ["Incidents", `${incidents}, SHA-256 ${comparison.incidents_sha256}`],
    ["Protocol", `SHA-256 ${comparison.protocol_sha256}`],
    ["Runs of each incident", String(protocol.runs)],
    [
      "Budget",
      `${protocol.token_budget} tokens a run, ${protocol.max_rounds} rounds, ${protocol.tool_budget} tool calls a turn`,
    ],
    ["Confident from", String(protocol.confidence_threshold)],
    ["Models", Object.entries(protocol.models).map(([role, id]) => `${role} ${id}`).join(", ")],
    ["Template", `${protocol.template} (${protocol.language})`],
  ] as const;
  return htmlPage(
    { language: "en", title: `Does debating help? ${incidents} incidents`, style: STYLE },
    `\
<h1>Does debating help?</h1>
<ul>${verdictsOf(comparison).map((verdict) => `<li>${escapeHtml(verdict)}</li>`).join("")}</ul>
${comparison.notes.map((note) => `<p class="note">${escapeHtml(note)}</p>`).join("")}
<h2>Right answers: component, kind of fault and causal path</h2>
${table(RIGHT, arms)}
<h2>Calibration: right answers by stated confidence</h2>
${table(calibration, arms)}
<h2>Cost</h2>
${table(COSTS, arms)}
<h2>Right answers by kind of fault</h2>
${table(byKind, arms)}
<h2>Protocol</h2>
${table([["", ([name]) => name], ["", ([, value]) => value]], facts)}
<p class="note">Intervals count incidents, because runs of one incident are not independent. A right answer is one claim with
listed names; prose has no score. A Brier score of 0 is perfect. A constant confidence of 0.5 has the score 0.25.</p>
`,
  );
}

function table<T>(columns: Columns<T>, rows: readonly T[]): string {
  const cells = (tag: string, texts: readonly string[]) =>
    `<tr>${texts.map((text) => `<${tag}>${escapeHtml(text)}</${tag}>`).join("")}</tr>`;
  const head = cells("th", columns.map(([name]) => name));
  const body = rows.map((row) => cells("td", columns.map(([, cell]) => cell(row)))).join("");
  return `<div class="wide"><table><thead>${head}</thead><tbody>${body}</tbody></table></div>`;
}

const STYLE =
  `:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:70rem;margin:0 auto;padding:1rem;overflow-wrap:break-word}` +
  `.wide{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0}th,td{border:1px solid #8888;padding:.25rem .75rem;text-align:left;vertical-align:top}` +
  `.note{color:GrayText}`;
