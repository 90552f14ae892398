import { visibleText } from "@gateway/shared/text";

/** What a cell without content shows. */
export const EMPTY_CELL = "—";

const GAP = "  ";
/** What stands before what belongs to the line above. */
export const INDENT = "    ";

/**
 * Rows under a heading, two blanks between columns, each as wide as its widest cell. Control characters are
 * made visible before widths are counted.
 *
 * @param columns what the terminal has; a table that is wider would break anywhere, and each row becomes a
 * paragraph instead: the first cell, and under it `TITLE=cell` of what is not empty. Undefined: as many as it takes.
 * @returns one line for the heading and one for each row, or the lines of the paragraphs
 */
export function formatTable(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  columns: number = Infinity,
): readonly string[] {
  const cells = [heading, ...rows].map((row) => row.map(visibleText));
  // Not Math.max(...widths): a call takes no hundred thousand arguments.
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

/** One row of columns of at least the given widths; a cell that is wider pushes the rest aside. */
export function formatRow(cells: readonly string[], widths: readonly number[]): string {
  const padded = cells.map((cell, column) => {
    const text = visibleText(cell);
    return text + " ".repeat(Math.max(0, (widths[column] ?? 0) - width(text)));
  });
  return padded.join(GAP).trimEnd();
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

/** So many characters of one value are shown in a list: a command can have tens of thousands. */
export const LONGEST_LISTED = 400;

/** So many names of one value are shown in a list. */
const MOST_NAMES = 8;

/** A value as a list shows it. */
interface ListedText {
  /** Its first characters; all of them unless it was cut. */
  readonly shown: string;
  /** Where it was cut, what to say of it, such as `first 400 of 61440 characters`; undefined: it is whole. */
  readonly cut: string | undefined;
}

/** The beginning of a text that is too long for a list; characters are not cut in two. */
export function shorten(text: string): ListedText {
  const characters = [...text];
  if (characters.length <= LONGEST_LISTED) return { shown: text, cut: undefined };
  const cut = `first ${LONGEST_LISTED} of ${characters.length} characters`;
  return { shown: characters.slice(0, LONGEST_LISTED).join(""), cut };
}

/** The same as one text, the mark at its end: `…[first 400 of 61440 characters]`. */
export function shortenText(text: string): string {
  const { shown, cut } = shorten(text);
  return cut === undefined ? shown : `${shown}…[${cut}]`;
}

/** Names with commas; of more than eight the first ones, and how many are not shown. */
export function joinNames(names: readonly string[] | null = []): string {
  if (names === null || names.length === 0) return EMPTY_CELL;
  if (names.length <= MOST_NAMES) return names.join(",");
  return `${names.slice(0, MOST_NAMES).join(",")},…[first ${MOST_NAMES} of ${names.length}]`;
}
