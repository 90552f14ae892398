import { visibleText } from "@gateway/shared/text";

export const EMPTY_CELL = "—";

const GAP = "  ";
export const INDENT = "    ";

/** Rows under a heading, each column as wide as its widest cell. */
export function formatTable(
  columns: readonly string[],
  rows: readonly (readonly string[])[],
): readonly string[] {
  return layOut([{ none: "", columns, rows }], { output: "wide" });
}

/** The importance of a text, as a color on terminals. */
type Role = "ok" | "warn" | "bad" | "dim" | "name";

/** A cell whose short form differs from the complete one, or that has a color. */
export interface Cell {
  readonly text: string;
  /** The complete form, for `-o wide`. */
  readonly wide?: string;
  readonly role?: Role | undefined;
}

/** A list of things. */
export interface Table {
  /** The line instead of an empty table. */
  readonly none: string;
  /** Titles; one with a `+` in front is a column of `-o wide` only. */
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | Cell)[])[];
}

/** A line of text, or a table. */
export type Line = string | Table;

/** The formats of a result. */
export const OUTPUTS = ["table", "wide", "json", "yaml", "name"] as const;

/** How a result is written. */
export interface OutputOptions {
  readonly output: (typeof OUTPUTS)[number];
  readonly headers?: boolean;
  readonly color?: boolean;
  /** The width of the terminal; absent: unlimited. */
  readonly columns?: number | undefined;
}

// Yellow is hard to read on white.
const SGR: Readonly<Record<Role, string>> = { ok: "32", warn: "35", bad: "31", dim: "2", name: "1" };

/** Marks a text that is already visible. */
export function paint(text: string, role: Role | undefined, color: boolean): string {
  return color && role !== undefined && text.trim() !== "" ? `\x1b[${SGR[role]}m${text}\x1b[0m` : text;
}

/** The words for results: the label of a line, or the last word of a cell such as `policy-denied`. */
const RESULTS: ReadonlyMap<string, Role> = new Map([
  ...["ok", "pass", "allowed", "approved", "granted", "issued", "yes"].map((word) => [word, "ok"] as const),
  ...["warn", "warning", "unknown", "pending"].map((word) => [word, "warn"] as const),
  ...["fail", "error", "denied", "rejected", "problem", "no"].map((word) => [word, "bad"] as const),
]);
const RESULT_COLUMNS: readonly string[] = ["OUTCOME", "READY", "RESULT", "STATE", "STATUS"];
const LABEL = /^((?:[\w.-]+:)? *\[?)([A-Z]{2,7}(?=[\]:, ])|[a-z]{2,7}(?=:))/;

function resultOf(word: string): Role | undefined {
  return RESULTS.get(word.toLowerCase().split("-").at(-1) ?? "");
}

/** The lines of a result. Values are made visible before any color is added. */
export function layOut(lines: readonly Line[], options: OutputOptions): readonly string[] {
  const { color = false } = options;
  return lines.flatMap((line) =>
    typeof line === "string"
      ? [visibleText(line).replace(LABEL, (_all, start, word) => start + paint(word, resultOf(word), color))]
      : layOutTable(line, options)
  );
}

function layOutTable({ none, columns: titles, rows }: Table, options: OutputOptions): readonly string[] {
  if (rows.length === 0) return [visibleText(none)];
  const { output, headers = true, color = false, columns = Infinity } = options;
  const wide = output === "wide";
  // Scripts read JSON, so a column of -o wide without any value is left out.
  const isKept = (title: string, index: number) =>
    !title.startsWith("+") ||
    (wide && rows.some((row) => !["", EMPTY_CELL].includes(asCell(row[index] ?? "", true, "").text)));
  const kept = titles.flatMap((title, index) => isKept(title, index) ? [index] : []);
  const heading = kept.map((index) => (titles[index] ?? "").replace(/^\+/, ""));
  const cells = rows.map((row) =>
    kept.map((index) => asCell(row[index] ?? "", wide, titles[index] === "" ? "" : EMPTY_CELL))
  );
  const room = wide ? Infinity : columns;
  // The first column stays complete. A long cell of another one is cut to the terminal before the columns share it.
  const widths = heading.map((title, column) =>
    cells.reduce(
      (widest, row) =>
        Math.max(widest, Math.min(width(row[column]?.text ?? ""), column === 0 ? Infinity : room)),
      headers ? width(title) : 0,
    )
  );
  const least = heading.map((title) => Math.max(SHORTEST, width(title)));
  const last = widths.length - 1;
  const total = widths.reduce((sum, each) => sum + GAP.length + each, -GAP.length);
  // In a narrow terminal, the widest columns are shortened. The last one gets a fifth of the width of the others.
  const weigh = (each: number, column: number) =>
    column === 0 || each <= (least[column] ?? 0) ? 0 : each * (column === last ? 5 : 1);
  for (let excess = total - room; excess > 0; excess--) {
    const weights = widths.map(weigh);
    const widest = weights.indexOf(Math.max(...weights));
    if (!weights[widest]) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  const fitted = cells.map((row) =>
    row.map(({ text, role }, column) => ({ text: fit(text, widths[column] ?? 0), role }))
  );
  return [
    ...headers ? [formatRow(titleCells(heading), widths, heading, color)] : [],
    ...fitted.map((row) => formatRow(row, widths, heading, color)),
  ];
}

export const titleCells = (titles: readonly string[]): readonly Cell[] =>
  titles.map((text) => ({ text, role: "dim" }));

/** One row of columns of at least these widths. The first column has the name, others may have results. */
export function formatRow(
  row: readonly (string | Cell)[],
  widths: readonly number[],
  titles: readonly string[] = [],
  color = false,
): string {
  const name = nameColumn(row);
  return row.map((cell, column) => {
    const { text, role } = asCell(cell, false, "");
    const title = titles[column] ?? "";
    const implied = column === name ? "name" : RESULT_COLUMNS.includes(title) ? resultOf(text) : undefined;
    const padding = column === row.length - 1 ? 0 : (widths[column] ?? 0) - width(text);
    return paint(text + " ".repeat(Math.max(0, padding)), role ?? implied, color);
  }).join(GAP).trimEnd();
}

/** The column with the name of a row, by default the first one. */
export function nameColumn(row: readonly (string | Cell)[]): number {
  return Math.max(0, row.findIndex((cell) => typeof cell !== "string" && cell.role === "name"));
}

/** No column is shortened below this width. */
const SHORTEST = 8;

function asCell(cell: string | Cell, isWide: boolean, empty: string): Cell {
  const { text, wide, role } = typeof cell === "string" ? { text: cell } as Cell : cell;
  return { text: visibleText(isWide ? wide ?? text : text) || empty, role };
}

const UNITS = [[31_536_000, "y"], [86_400, "d"], [3_600, "h"], [60, "m"], [1, "s"]] as const;

/** {@linkcode timeCell} of a past time, in a column AGE. */
export function ageCell(time: string | undefined, now: number): Cell {
  const cell = timeCell(time, now);
  return { ...cell, text: cell.text.replace(/ ago$/, "") };
}

/** A time relative to now: `3m ago`, `in 58s`; complete in `-o wide`. A time that cannot be read stays as it is. */
export function timeCell(time: string | undefined, now: number): Cell {
  const then = Date.parse(time ?? "");
  if (time === undefined || Number.isNaN(then)) return { text: time ?? "" };
  const seconds = Math.floor(Math.abs(then - now) / 1000);
  const [size, unit] = UNITS.find(([size]) => seconds >= 2 * size) ?? [1, "s"];
  const span = `${Math.floor(seconds / size)}${unit}`;
  return { text: then > now ? `in ${span}` : `${span} ago`, wide: time, role: "dim" };
}

/** Shortens IDs to eight characters, or as many as make each unique in its list. */
export function shortenIds(ids: readonly string[]): (id: string) => Cell {
  const longest = Math.max(0, ...ids.map(({ length }) => length));
  let length = 8;
  while (length < longest && new Set(ids.map((id) => id.slice(0, length))).size < new Set(ids).size) length++;
  return (id) => ({ text: id.slice(0, length), wide: id });
}

/** The entries of an object, sorted by name. */
export function byName<T>(entries: Readonly<Record<string, T>>): readonly (readonly [string, T])[] {
  return Object.entries(entries).toSorted(([left], [right]) => left < right ? -1 : 1);
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
const LONGEST_LISTED = 400;
const MOST_NAMES = 8;

/** The beginning of a text, with a mark: `…[first 400 of 61440 characters]`. */
export function shortenText(text: string): string {
  const characters = [...text];
  if (characters.length <= LONGEST_LISTED) return text;
  const shown = characters.slice(0, LONGEST_LISTED).join("");
  return `${shown}…[first ${LONGEST_LISTED} of ${characters.length} characters]`;
}

/** The first eight names, and their number; a dash for no names. */
export function joinNames(names: readonly string[] | null = []): string {
  if (names === null || names.length === 0) return EMPTY_CELL;
  if (names.length <= MOST_NAMES) return names.join(",");
  return `${names.slice(0, MOST_NAMES).join(",")},…[first ${MOST_NAMES} of ${names.length}]`;
}

/** The unchanged lines around a change. */
const CONTEXT = 3;

/** The difference in the format of `diff -u`, as one hunk, because an edit changes one place. */
export function diffLines(before: string, after: string, name: string): readonly string[] {
  if (before === after) return [];
  const [old, next] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < old.length && start < next.length && old[start] === next[start]) start += 1;
  let end = 0;
  const longest = Math.min(old.length, next.length) - start;
  while (end < longest && old[old.length - 1 - end] === next[next.length - 1 - end]) end += 1;
  const from = Math.max(0, start - CONTEXT);
  const tail = Math.max(0, end - CONTEXT);
  const lead = old.slice(from, start);
  const rest = old.slice(old.length - end, old.length - tail);
  const size = (lines: readonly string[]) => lines.length - from - tail;
  return [
    `--- ${name}`,
    `+++ ${name}`,
    `@@ -${from + 1},${size(old)} +${from + 1},${size(next)} @@`,
    ...lead.map((line) => ` ${line}`),
    ...old.slice(start, old.length - end).map((line) => `-${line}`),
    ...next.slice(start, next.length - end).map((line) => `+${line}`),
    ...rest.map((line) => ` ${line}`),
  ];
}
