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

// What a terminal gives two columns (East Asian wide and full width, emoji), and what stands on another character.
const WIDE =
  /[\u{1100}-\u{115f}\u{2e80}-\u{303e}\u{3041}-\u{a4cf}\u{ac00}-\u{d7a3}\u{f900}-\u{faff}\u{fe30}-\u{fe6f}\u{ff00}-\u{ff60}\u{ffe0}-\u{ffe6}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u;
const COMBINING = /\p{Mn}|\p{Me}/u;

/** How many columns a terminal gives to a text. */
function width(text: string): number {
  return [...text].reduce((sum, character) => sum + columnsOf(character), 0);
}

function columnsOf(character: string): number {
  if (COMBINING.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}
