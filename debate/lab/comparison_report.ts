import { count } from "../engine/graph/text.ts";
import type { Comparison, Interval } from "./comparison.ts";

const percent = (share: number) => `${Math.round(share * 100)}%`;
const interval = ({ low, high }: Interval) => `${Math.round(low * 100)}-${percent(high)}`;

export function formatComparison(comparison: Comparison): readonly string[] {
  const { arms, protocol, incidents, protocol_sha256 } = comparison;
  const row = (arm: string, ...cells: readonly string[]) =>
    arm.padEnd(19) +
    cells.map((cell, index) => ` ${cell.padStart([6, 11, 11, 6, 8, 7][index] ?? 0)}`).join("");
  return [
    ...comparison.notes.map((note) => `Note: ${note}`),
    `${incidents} incidents, ${
      count(protocol.runs, "run")
    } each, at most ${protocol.token_budget} tokens a run`,
    `protocol ${protocol_sha256.slice(0, 16)}`,
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
    ...arms.flatMap(controlOf),
  ];
}

function differencesOf({ arms }: Comparison): readonly string[] {
  return arms.flatMap(({ arm, against_first: right, harm_against_first: harm }) => {
    if (right === undefined || arm === "blind") return [];
    const head = `${arm} against ${arms[0]?.arm}:`;
    const meaning = right.low > 0 ? "better" : right.high < 0 ? "worse" : "no difference shown";
    const told = [`${head} right ${points(right)}, ${meaning}`];
    // Confident wrong answers do harm, so they are reported as well.
    if (harm === undefined || (harm.low <= 0 && harm.high >= 0)) return told;
    return [...told, `${head} confident and wrong ${points(harm)}, ${harm.low > 0 ? "worse" : "better"}`];
  });
}

function controlOf(
  { arm, false_alarms: alarms, right, out_of_budget, failed }: Comparison["arms"][number],
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
