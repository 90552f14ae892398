/** One line of the benchmark's table. */
export interface Row {
  readonly what: string;
  /** What was measured, with its unit. */
  readonly measured: string;
  /** What it is compared with in the same run; empty for an absolute bound. */
  readonly baseline: string;
  readonly ratio: string;
  readonly target: string;
  readonly met: boolean;
}

export function formatTable(rows: readonly Row[]): string {
  const cells = [
    ["", "measured", "baseline", "ratio", "target", ""],
    ...rows.map((
      row,
    ) => [row.what, row.measured, row.baseline, row.ratio, row.target, row.met ? "met" : "MISSED"]),
  ];
  const widths = cells[0]?.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0))) ??
    [];
  return cells.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ").trimEnd())
    .join("\n");
}
