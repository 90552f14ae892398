import { visibleText } from "@gateway/shared/text";

export const EMPTY_CELL = "—";

const GAP = "  ";
export const INDENT = "    ";

/**
 * Rows under a heading. In a table that is wider than the terminal, each row becomes a paragraph: the first cell, and
 * below it `TITLE=cell` of each cell that is not empty.
 */
export function formatTable(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  columns: number = Infinity,
): readonly string[] {
  const cells = [heading, ...rows].map((row) => row.map(visibleText));
  // Math.max(...widths) would fail: a call cannot have 100,000 arguments.
  const widths = heading.map((_title, column) =>
    cells.reduce((widest, row) => Math.max(widest, width(row[column] ?? "")), 0)
  );
  const total = widths.reduce((sum, each) => sum + GAP.length + each, -GAP.length);
  if (total <= columns) return cells.map((row) => formatRow(row, widths));
  return cells.slice(1).flatMap((row) => formatParagraph(heading, row, columns));
}

/** A table, or the one line `none` if there are no rows. */
export function tableOr(
  none: string,
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  columns?: number,
): readonly string[] {
  return rows.length === 0 ? [none] : formatTable(heading, rows, columns);
}

/** The entries of an object, sorted by name. */
export function byName<T>(entries: Readonly<Record<string, T>>): readonly (readonly [string, T])[] {
  return Object.entries(entries).toSorted(([left], [right]) => left < right ? -1 : 1);
}

function formatParagraph(
  heading: readonly string[],
  [first = "", ...others]: readonly string[],
  columns: number,
): readonly string[] {
  const facts = others.flatMap((cell, index) => cell === EMPTY_CELL ? [] : [`${heading[index + 1]}=${cell}`]);
  const lines = [first];
  for (const fact of facts) {
    const longer = `${lines.at(-1)}${GAP}${fact}`;
    if (lines.length > 1 && width(longer) <= columns) lines[lines.length - 1] = longer;
    else lines.push(`${INDENT}${fact}`);
  }
  return lines;
}

/** One row of columns of at least these widths. */
export function formatRow(cells: readonly string[], widths: readonly number[]): string {
  const padded = cells.map(visibleText).map((text, column) =>
    text + " ".repeat(Math.max(0, (widths[column] ?? 0) - width(text)))
  );
  return padded.join(GAP).trimEnd();
}

// Characters that take two columns (East Asian wide and full width, emoji), and characters that take none.
const WIDE =
  /[\u{1100}-\u{115f}\u{2e80}-\u{303e}\u{3041}-\u{a4cf}\u{ac00}-\u{d7a3}\u{f900}-\u{faff}\u{fe30}-\u{fe6f}\u{ff00}-\u{ff60}\u{ffe0}-\u{ffe6}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u;
const COMBINING = /\p{Mn}|\p{Me}/u;

/** The columns of a text in a terminal. */
function width(text: string): number {
  const columnsOf = (character: string) => COMBINING.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
  return [...text].reduce((sum, character) => sum + columnsOf(character), 0);
}

/** The text with visible control characters, truncated with `…` to a number of columns. */
export function fit(text: string, columns: number): string {
  const shown = visibleText(text.slice(0, columns + 1));
  if (text.length <= columns && width(shown) <= columns) return shown;
  const characters = [...shown];
  while (width(characters.join("")) >= columns) characters.pop();
  return `${characters.join("")}…`;
}

/** A list shows this many characters of a value: a command can have tens of thousands. */
export const LONGEST_LISTED = 400;
const MOST_NAMES = 8;

/** The beginning of a text for a list, and a note about the truncation; `cut` is undefined for a complete text. */
export function shorten(text: string): { readonly shown: string; readonly cut: string | undefined } {
  const characters = [...text];
  if (characters.length <= LONGEST_LISTED) return { shown: text, cut: undefined };
  const cut = `first ${LONGEST_LISTED} of ${characters.length} characters`;
  return { shown: characters.slice(0, LONGEST_LISTED).join(""), cut };
}

/** The beginning of a text, with a mark: `…[first 400 of 61440 characters]`. */
export function shortenText(text: string): string {
  const { shown, cut } = shorten(text);
  return cut === undefined ? shown : `${shown}…[${cut}]`;
}

/** The first eight names, and their number; a dash for no names. */
export function joinNames(names: readonly string[] | null = []): string {
  if (names === null || names.length === 0) return EMPTY_CELL;
  if (names.length <= MOST_NAMES) return names.join(",");
  return `${names.slice(0, MOST_NAMES).join(",")},…[first ${MOST_NAMES} of ${names.length}]`;
}
