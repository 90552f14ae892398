import { visibleText } from "@gateway/shared/visible";

/** What a cell without content shows. */
export const EMPTY_CELL = "—";

/**
 * Rows under a heading, two blanks between columns, each as wide as its widest cell. Control characters are
 * made visible before widths are counted.
 *
 * @returns one line for the heading and one for each row
 */
export function formatTable(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
): readonly string[] {
  const cells = [heading, ...rows].map((row) => row.map(visibleText));
  const widths = heading.map((_title, column) => Math.max(...cells.map((row) => width(row[column] ?? ""))));
  return cells.map((row) => formatRow(row, widths));
}

/** One row of columns of at least the given widths; a cell that is wider pushes the rest aside. */
export function formatRow(cells: readonly string[], widths: readonly number[]): string {
  const padded = cells.map((cell, column) => {
    const text = visibleText(cell);
    return text + " ".repeat(Math.max(0, (widths[column] ?? 0) - width(text)));
  });
  return padded.join("  ").trimEnd();
}

function width(text: string): number {
  return [...text].length;
}
