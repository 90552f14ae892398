import type { ArmResult, Comparison } from "./comparison.ts";
import type { Difference, Share } from "./statistics.ts";

export function formatComparison(comparison: Comparison): readonly string[] {
  const { arms, protocol, incidents } = comparison;
  return [
    `${incidents} incidents, ${protocol.runs} runs each, at most ${protocol.token_budget} tokens a run`,
    `incidents ${comparison.incidents_sha256.slice(0, 16)}, protocol ${
      comparison.protocol_sha256.slice(0, 16)
    }`,
    "",
    row("Arm", "right", "95 %", "sure+wrong", "Brier", "tokens", "useful"),
    ...arms.map((arm) =>
      row(
        arm.arm,
        percent(arm.right.value),
        interval(arm.right),
        percent(arm.confidently_wrong.value),
        arm.brier?.toFixed(3) ?? "-",
        String(arm.tokens_mean),
        arm.tool_efficiency === null ? "-" : percent(arm.tool_efficiency),
      )
    ),
    "",
    ...verdictsOf(comparison),
    ...comparison.notes.map((note) => `Note: ${note}`),
  ];
}

export function verdictsOf({ arms, right_for_another_incident: other }: Comparison): readonly string[] {
  const [first] = arms;
  const verdicts = arms.flatMap(({ arm, against_first: right, harm_against_first: harm }) => {
    if (right === undefined || arm === "blind" || first === undefined) return [];
    const head = `${arm} against ${first.arm}:`;
    const told = [`${head} right ${points(right)}, ${meaning(right)}`];
    // Nobody is helped by answers that are surer and wrong.
    const isHarm = harm !== undefined && (harm.low > 0 || harm.high < 0);
    return isHarm
      ? [...told, `${head} sure and wrong ${points(harm)}, ${harm.low > 0 ? "worse" : "better"}`]
      : told;
  });
  return [
    ...verdicts,
    ...arms.flatMap((arm) => controlsOf(arm)),
    `Control, answers that are right for another incident: ${other}${
      other === 0 ? "" : " (the score is fooled)"
    }`,
  ];
}

function controlsOf({ arm, false_alarms, right, out_of_budget, failed }: ArmResult): readonly string[] {
  const lines = arm === "blind"
    ? [`Control, right without any tool: ${percent(right.value)} ${interval(right)}`]
    : false_alarms !== undefined && false_alarms.value > 0
    ? [
      `${arm}: sure of a cause where nothing is broken: ${percent(false_alarms.value)} ${
        interval(false_alarms)
      }`,
    ]
    : [];
  const ended = out_of_budget + failed;
  return ended === 0 ? lines : [...lines, `${arm}: ${out_of_budget} runs out of tokens, ${failed} failed`];
}

function meaning({ low, high }: Difference): string {
  if (low > 0) return "better";
  return high < 0 ? "worse" : "no difference shown";
}

function points({ value, low, high }: Difference): string {
  const signed = (each: number) => `${each > 0 ? "+" : ""}${Math.round(each * 100)}`;
  return `${signed(value)} points (${signed(low)} to ${signed(high)})`;
}

function row(...cells: readonly string[]): string {
  const widths = [19, 6, 11, 11, 6, 8, 7];
  return cells.map((cell, index) =>
    index === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[index] ?? 0)
  ).join(" ").trimEnd();
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

export function interval({ low, high }: Share): string {
  return `${Math.round(low * 100)}-${Math.round(high * 100)} %`;
}
