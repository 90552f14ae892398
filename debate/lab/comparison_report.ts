import { count } from "../benchmark/metrics.ts";
import { escapeHtml, htmlPage } from "../report/html.ts";
import { FAULT_KINDS } from "../engine/graph/claim.ts";
import { type Comparison, type Interval, SCRIPTED_NOTE } from "./comparison.ts";

type ArmResult = Comparison["arms"][number];
type Columns<T> = readonly (readonly [head: string, cell: (row: T) => string])[];

const percent = (share: number) => `${Math.round(share * 100)}%`;
const interval = ({ low, high }: Interval) => `${Math.round(low * 100)}-${percent(high)}`;
const isScripted = ({ notes }: Comparison) => notes.includes(SCRIPTED_NOTE);

export function formatComparison(comparison: Comparison): readonly string[] {
  const { arms, protocol, incidents, incidents_sha256, protocol_sha256 } = comparison;
  const row = (arm: string, ...cells: readonly string[]) =>
    arm.padEnd(19) +
    cells.map((cell, index) => ` ${cell.padStart([6, 11, 11, 6, 8, 7][index] ?? 0)}`).join("");
  return [
    ...comparison.notes.map((note) => `Note: ${note}`),
    `${incidents} incidents, ${
      count(protocol.runs, "run")
    } each, at most ${protocol.token_budget} tokens a run`,
    `incidents ${incidents_sha256.slice(0, 16)}, protocol ${protocol_sha256.slice(0, 16)}`,
    "",
    row("Method", "right", "95%", "conf. wrong", "Brier", "tokens", "useful"),
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
    ...differencesOf(comparison),
    ...controlsOf(comparison),
  ];
}

function differencesOf(comparison: Comparison): readonly string[] {
  const { arms } = comparison;
  const rate = (word: string) => isScripted(comparison) ? "" : `, ${word}`;
  return arms.flatMap(({ arm, against_first: right, harm_against_first: harm }) => {
    if (right === undefined || arm === "blind") return [];
    const head = `${arm} against ${arms[0]?.arm}:`;
    const meaning = right.low > 0 ? "better" : right.high < 0 ? "worse" : "no difference shown";
    const told = [`${head} right ${points(right)}${rate(meaning)}`];
    // Confident wrong answers do harm, so they are reported as well.
    if (harm === undefined || (harm.low <= 0 && harm.high >= 0)) return told;
    return [...told, `${head} confident and wrong ${points(harm)}${rate(harm.low > 0 ? "worse" : "better")}`];
  });
}

/** One sentence for each finding that the intervals show. */
function verdictOf({ arms }: Comparison): string {
  const [first, ...others] = arms;
  const methods = others.filter(({ arm }) => arm !== "blind");
  const those = (holds: (arm: ArmResult) => boolean) =>
    methods.filter(holds).map(({ name }) => name).join(", ");
  const findings = [
    ["More right answers", those(({ against_first: right }) => right !== undefined && right.low > 0)],
    ["Fewer right answers", those(({ against_first: right }) => right !== undefined && right.high < 0)],
    [
      "More confident wrong answers",
      those(({ harm_against_first: harm }) => harm !== undefined && harm.low > 0),
    ],
  ].flatMap(([what, names]) => names === "" ? [] : [`${what} than ${first?.name}: ${names}.`]);
  return findings.join(" ") || `No method differs from ${first?.name} by more than chance.`;
}

function controlsOf({ arms, right_for_another_incident: other }: Comparison): readonly string[] {
  const fooled = other === 0 ? "" : " (the score is unreliable)";
  return [
    ...arms.flatMap(controlOf),
    `Control, answers that are right for another incident: ${other}${fooled}`,
  ];
}

function controlOf(
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

const METHODS: Columns<ArmResult> = [
  ["Method", ({ name }) => name],
  ["Right", ({ right }) => percent(right.value)],
  ["95% interval", ({ right }) => interval(right)],
  ["Difference to the first", ({ against_first: right }) => right === undefined ? "–" : points(right)],
];

const ACCURACY: Columns<ArmResult> = [
  ["Method", ({ name }) => name],
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
  ["Method", ({ name }) => name],
  ["Tokens, mean", ({ tokens_mean }) => String(tokens_mean)],
  ["Cost of all runs", ({ cost_usd }) => cost_usd === null ? "unknown" : `$${cost_usd.toFixed(4)}`],
  ["Tool calls, mean", ({ tool_calls_mean }) => tool_calls_mean.toFixed(1)],
  ["Useful calls", ({ tool_efficiency: useful }) => useful === null ? "–" : percent(useful)],
  ["Out of tokens", ({ out_of_budget }) => String(out_of_budget)],
  ["Failed", ({ failed }) => String(failed)],
];

/** The caveats, the verdict and one table. Everything else is folded. */
export function renderComparison(comparison: Comparison): string {
  const { arms, protocol, incidents, generated_at, notes } = comparison;
  const kinds = FAULT_KINDS.filter((kind) => arms.some(({ by_kind }) => by_kind[kind] !== undefined));
  const byKind: Columns<ArmResult> = [
    ["Method", ({ name }) => name],
    ...kinds.map((kind) =>
      [
        kind.replace("_", " "),
        ({ by_kind: { [kind]: share } }: ArmResult) =>
          share === undefined ? "–" : `${percent(share.value)} (${interval(share)})`,
      ] as const
    ),
  ];
  const calibration: Columns<ArmResult> = [
    ["Method", ({ name }) => name],
    ["Brier score", ({ brier }) => brier?.toFixed(3) ?? "–"],
    ...(arms[0]?.calibration ?? []).map(({ from, to }, index) =>
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
    ["Budget of a run", `${protocol.token_budget} tokens, ${protocol.max_rounds} rounds`],
    ["Tool calls of a turn", String(protocol.tool_budget)],
    ["Confident from", String(protocol.confidence_threshold)],
    ["Models", Object.entries(protocol.models).map(([role, id]) => `${role} ${id}`).join(", ")],
    ["Template", `${protocol.template} (${protocol.language})`],
  ] as const;
  const scripted = isScripted(comparison);
  const title = scripted ? "Test of the engine with scripted agents" : "Does debating help?";
  const lines = (texts: readonly string[]) => texts.map((text) => `<li>${escapeHtml(text)}</li>`).join("");
  return htmlPage(
    { language: "en", title: `${title} (${incidents} incidents)`, style: STYLE },
    `<h1>${title}</h1>
${notes.length === 0 ? "" : `<ul class="caveat">${lines(notes)}</ul>`}
<p class="verdict">${
      scripted ? "The scripts decide every number below." : escapeHtml(verdictOf(comparison))
    }</p>
<div class="methods">${table(METHODS, arms)}</div>
<p>${incidents} incidents, ${
      count(protocol.runs, "run")
    } each. A right answer names component, kind of fault and causal path.</p>
<details><summary>Differences, calibration, cost and protocol</summary>
<h2>Differences and controls</h2><ul>${lines([...differencesOf(comparison), ...controlsOf(comparison)])}</ul>
<h2>Parts of the answer, confidence and false alarms</h2>${table(ACCURACY, arms)}
<h2>Calibration: right answers by stated confidence</h2>${table(calibration, arms)}
<p>A Brier score of 0 is perfect. A constant confidence of 0.5 has the score 0.25.</p>
<h2>Cost</h2>${table(COSTS, arms)}
<h2>Right answers by kind of fault</h2>${table(byKind, arms)}
<h2>Protocol</h2>${table([["", ([name]) => name], ["", ([, value]) => value]], facts)}
<p>Intervals count incidents, because runs of one incident are not independent. A right answer is one claim with listed
names; prose has no score.</p></details>
`,
  );
}

function table<T>(columns: Columns<T>, rows: readonly T[]): string {
  const cells = (tag: string, texts: readonly string[]) =>
    `<tr>${texts.map((text) => `<${tag}>${escapeHtml(text)}</${tag}>`).join("")}</tr>`;
  const head = cells("th", columns.map(([name]) => name));
  const body = rows.map((row) => cells("td", columns.map(([, cell]) => cell(row)))).join("");
  return `<div class="wide" tabindex="0"><table><thead>${head}</thead><tbody>${body}</tbody></table></div>`;
}

const STYLE =
  `:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:64rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}` +
  `h1{font-size:1.5rem;margin:.5rem 0}h2{font-size:1.1rem}.caveat{border:2px solid light-dark(#b45309,#fbbf24);border-radius:8px;padding:.75rem 1rem;font-weight:600;list-style:none}` +
  `.verdict{font-size:1.2rem}.wide{overflow-x:auto}table{border-collapse:collapse;margin:.5rem 0}` +
  `th,td{border-bottom:1px solid #8888;padding:.3rem .75rem;text-align:left;vertical-align:top}th{overflow-wrap:normal}td:nth-child(n+2){white-space:nowrap}` +
  `td:first-child{min-width:7rem}summary{cursor:pointer;padding:.5rem 0;font-weight:600}details td{white-space:normal}` +
  `@media(max-width:30rem){.methods :is(th,td):nth-child(4){display:none}}`;
