import { escapeHtml } from "../report/html.ts";
import { FAULT_KINDS } from "../engine/graph/claim.ts";
import type { ArmResult, Comparison } from "./comparison.ts";
import { interval, percent, verdictsOf } from "./comparison_text.ts";

export function renderComparison(comparison: Comparison): string {
  const { arms, protocol, incidents, generated_at } = comparison;
  const kinds = FAULT_KINDS.filter((kind) => arms.some(({ by_kind }) => by_kind[kind] !== undefined));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Does debating help? ${incidents} incidents</title>
<style>${STYLE}</style>
</head>
<body>
<h1>Does debating help?</h1>
<ul>${verdictsOf(comparison).map((verdict) => `<li>${escapeHtml(verdict)}</li>`).join("")}</ul>
${comparison.notes.map((note) => `<p class="note">${escapeHtml(note)}</p>`).join("")}
<h2>Right: component, kind of fault and causal path</h2>
${
    table(
      [
        "Arm",
        "Right",
        "95 %",
        "Component",
        "Kind",
        "Sure and right",
        "Sure and wrong",
        "Tempting cause resisted",
        "False alarms",
      ],
      arms.map((arm) => [
        arm.name,
        percent(arm.right.value),
        interval(arm.right),
        percent(arm.component.value),
        percent(arm.fault.value),
        percent(arm.confidently_right.value),
        percent(arm.confidently_wrong.value),
        arm.tempting === undefined ? "–" : percent(arm.tempting.value),
        arm.false_alarms === undefined ? "–" : percent(arm.false_alarms.value),
      ]),
    )
  }
<h2>Calibration: is it as often right as it says?</h2>
<div class="plots">${arms.map((arm) => plotCalibration(arm.name, arm.calibration, arm.brier)).join("")}</div>
<h2>What it costs</h2>
${
    table(
      [
        "Arm",
        "Tokens, mean",
        "Cost of all runs",
        "Tool calls, mean",
        "Useful calls",
        "Out of tokens",
        "Failed",
        "Brier score",
      ],
      arms.map((arm) => costRow(arm)),
    )
  }
<h2>By kind of fault</h2>
${
    table(
      ["Arm", ...kinds.map((kind) => kind.replace("_", " "))],
      arms.map(({ name, by_kind }) => [
        name,
        ...kinds.map((kind) => {
          const share = by_kind[kind];
          return share === undefined ? "–" : `${percent(share.value)} (${interval(share)})`;
        }),
      ]),
    )
  }
<h2>How it was done</h2>
${
    table(["", ""], [
      ["Made", generated_at],
      ["Incidents", `${incidents}, SHA-256 ${comparison.incidents_sha256}`],
      ["Protocol", `SHA-256 ${comparison.protocol_sha256}`],
      ["Runs of each incident", String(protocol.runs)],
      [
        "Budget",
        `${protocol.token_budget} tokens a run, ${protocol.max_rounds} rounds, ${protocol.tool_budget} tool calls a turn`,
      ],
      ["Sure from", String(protocol.confidence_threshold)],
      ["Models", Object.entries(protocol.models).map(([role, id]) => `${role} ${id}`).join(", ")],
      ["Template", `${protocol.template} (${protocol.language})`],
    ])
  }
<p class="note">Intervals count incidents, not runs: runs of one incident are not independent. An answer is right only as one
claim about listed names; prose earns nothing. Brier: 0 is perfect, 0.25 is what saying 0.5 always gives.</p>
<h2>All runs</h2>
${
    table(
      ["Incident", "Arm", "Run", "Right", "Confidence", "Sure", "Tokens", "Answer"],
      comparison.trials.map((trial) => [
        trial.incident,
        trial.arm,
        String(trial.run),
        trial.score.right ? "yes" : "no",
        trial.confidence.toFixed(2),
        trial.confident ? "yes" : "no",
        String(trial.tokens),
        trial.answer.slice(0, 200).toWellFormed() || trial.problem || "none",
      ]),
    )
  }
</body>
</html>
`;
}

function costRow(arm: ArmResult): readonly string[] {
  return [
    arm.name,
    String(arm.tokens_mean),
    arm.cost_usd === null ? "unknown" : `$${arm.cost_usd.toFixed(4)}`,
    arm.tool_calls_mean.toFixed(1),
    arm.tool_efficiency === null ? "–" : percent(arm.tool_efficiency),
    String(arm.out_of_budget),
    String(arm.failed),
    arm.brier?.toFixed(3) ?? "–",
  ];
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = (tag: string, row: readonly string[]) =>
    row.map((cell) => `<${tag}>${escapeHtml(cell)}</${tag}>`).join("");
  return `<div class="wide"><table><thead><tr>${cells("th", head)}</tr></thead><tbody>${
    rows.map((row) => `<tr>${cells("td", row)}</tr>`).join("")
  }</tbody></table></div>`;
}

const STYLE =
  `:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:70rem;margin:0 auto;padding:1rem;overflow-wrap:break-word}` +
  `.wide{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0}th,td{border:1px solid #8888;padding:.25rem .75rem;text-align:left;vertical-align:top}` +
  `.plots{display:flex;flex-wrap:wrap;gap:1rem}svg{max-width:100%;height:auto;font:12px system-ui,sans-serif}svg text{fill:currentColor}` +
  `.axis{stroke:#8888;stroke-width:1}.dot{fill:#c8502a}.ideal{stroke:#8888;stroke-dasharray:4}.note{color:GrayText}`;

const SIDE = 200;
const EDGE = 36;

/** How often forecasts came true against how sure they were; a dot's size is the number of runs. */
function plotCalibration(name: string, bins: ArmResult["calibration"], brier: number | null): string {
  const at = (value: number) => fixed(EDGE + value * SIDE);
  const up = (value: number) => fixed(20 + (1 - value) * SIDE);
  const most = Math.max(1, ...bins.map(({ cases }) => cases));
  const dots = bins.flatMap(({ mean_confidence: said, accuracy: right, cases }) =>
    said === null || right === null ? [] : [
      `<circle class="dot" cx="${at(said)}" cy="${up(right)}" r="${
        fixed(3 + 6 * Math.sqrt(cases / most))
      }"></circle>` +
      `<text x="${at(said)}" y="${
        fixed(Number(up(right)) + (right > 0.5 ? 20 : -11))
      }" text-anchor="middle">${cases}</text>`,
    ]
  );
  const score = brier === null ? "" : `Brier ${brier.toFixed(3)}`;
  return svg(SIDE + 2 * EDGE, SIDE + 60, `Calibration of ${name}, ${score}`, [
    `<text x="0" y="12">${escapeHtml(name)}</text>`,
    `<text x="${EDGE + 8}" y="38">${score}</text>`,
    `<rect class="axis" fill="none" x="${EDGE}" y="20" width="${SIDE}" height="${SIDE}"></rect>`,
    `<line class="ideal" x1="${at(0)}" y1="${up(0)}" x2="${at(1)}" y2="${up(1)}"></line>`,
    ...dots,
    `<text x="${EDGE + SIDE / 2}" y="${SIDE + 38}" text-anchor="middle">said</text>`,
    `<text x="14" y="${20 + SIDE / 2}" text-anchor="middle" transform="rotate(-90 14 ${
      20 + SIDE / 2
    })">right</text>`,
  ]);
}

function svg(width: number, height: number, label: string, parts: readonly string[]): string {
  return `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${
    escapeHtml(label)
  }">${parts.join("")}</svg>`;
}

function fixed(value: number): string {
  return String(Math.round(value * 10) / 10);
}
