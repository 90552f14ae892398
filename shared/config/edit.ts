/**
 * Edits of a config's text that keep comments, order and blank lines of the rest. Only the lists and objects on the path
 * to a value are split into items, so the rest of a large config costs no more than its length.
 *
 * @module
 */
import { createScanner } from "jsonc-parser";
import { parseJson } from "../json.ts";

/** The keys from the top of a config to a value. */
export type ValuePath = readonly string[];

/** Sets the value at a path. A new key becomes the last member of the deepest existing object. */
export function setValue(text: string, path: ValuePath, value: unknown): string {
  const places = locate(text, path);
  const [key, ...further] = path.slice(places.length - 1);
  const place = places.at(-1);
  if (place === undefined) throw new TypeError("a config without a value");
  const inner = further.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value);
  if (key !== undefined && place.kind === "object") {
    return append(text, insideOf(place), `${JSON.stringify(key)}: ${format(inner)}`);
  }
  const whole = key === undefined ? inner : { [key]: inner };
  const added = indented(format(whole), indentOf(text, place.start), lineBreakOf(text));
  return text.slice(0, place.start) + added + text.slice(place.end);
}

/** Appends a text to a list, and creates the list if necessary. */
export function appendToList(text: string, path: ValuePath, item: string): string {
  const list = findList(text, path);
  return list === undefined ? setValue(text, path, [item]) : append(text, list, JSON.stringify(item));
}

/** Removes the items of a list that are this text. Comments stay. */
export function removeFromList(text: string, path: ValuePath, item: string): string {
  for (let rest = text;;) {
    const list = findList(rest, path);
    const index = list?.items.findIndex(({ start, end }) => {
      return rest[start] === '"' && readText(rest.slice(start, end)) === item;
    }) ?? -1;
    if (list === undefined || index === -1) return rest;
    rest = removeItem(rest, list, index);
  }
}

/** Removes a member of an object. Comments outside its value stay. */
export function removeMember(text: string, path: ValuePath): string {
  const places = locate(text, path);
  const parent = places[path.length - 1];
  if (parent === undefined || places.length <= path.length) return text;
  return removeItem(text, insideOf(parent), parent.items.findIndex(({ key }) => key === path.at(-1)));
}

/** Maximum width of added lines. */
const LONGEST_LINE = 90;

/** A list or object, between its brackets. */
interface Inside extends Range {
  readonly items: readonly Item[];
}

/** A token between two items. */
interface Mark extends Range {
  readonly kind: "comma" | "break" | "blank" | "line comment" | "block comment";
}

function append(text: string, { start, end, items }: Inside, content: string): string {
  const last = items.at(-1);
  const from = last?.end ?? start;
  const tail = scan(text, { start: from, end });
  const lineBreak = lineBreakOf(text);
  if (last === undefined && !tail.some(isComment)) {
    const indent = indentOf(text, start);
    const added = indented(content, `${indent}  `, lineBreak);
    return `${text.slice(0, start)}${lineBreak}${indent}  ${added}${lineBreak}${indent}${text.slice(end)}`;
  }
  const comma = tail.findIndex(({ kind }) => kind === "comma");
  const after = tail.slice(comma + 1);
  // A comment on the line of the last item belongs to the item. In a list of comments only, all come first.
  const ownLine = after.slice(0, after.findIndex(({ kind }) => kind === "break") >>> 0);
  const before = (last === undefined ? after : ownLine).findLast(isComment) ?? tail[comma];
  const at = before?.end ?? from;
  const beside = last?.start ?? before?.start ?? start;
  const needsLine = last === undefined || before?.kind === "line comment" || isFirstOnLine(text, last.start);
  const indent = isFirstOnLine(text, beside) ? indentOf(text, beside) : `${indentOf(text, beside)}  `;
  const added = (needsLine ? lineBreak + indent : " ") + indented(content, indent, lineBreak);
  const grown = `${text.slice(0, at)}${added}${comma === -1 ? "" : ","}${text.slice(at)}`;
  return last === undefined || comma !== -1 ? grown : `${grown.slice(0, from)},${grown.slice(from)}`;
}

function findList(text: string, path: ValuePath): Inside | undefined {
  const list = locate(text, path)[path.length];
  return list?.kind === "list" ? insideOf(list) : undefined;
}

function insideOf({ start, end, items }: Place): Inside {
  return { start: start + 1, end: end - 1, items };
}

function removeItem(text: string, { start, end, items }: Inside, index: number): string {
  const [previous, item, next] = [items[index - 1], items[index], items[index + 1]];
  if (item === undefined) return text;
  const isComma = ({ kind }: Mark) => kind === "comma";
  const comma = scan(text, { start: item.end, end: next?.start ?? end }).find(isComma) ??
    scan(text, { start: previous?.end ?? start, end: item.start }).find(isComma);
  const cuts = [{ start: item.start, end: item.end }, ...(comma === undefined ? [] : [comma])]
    .sort((a, b) => b.start - a.start);
  const rest = cuts.reduce((rest, cut) => rest.slice(0, cut.start) + rest.slice(cut.end), text);
  return closeGap(rest, comma !== undefined && comma.start < item.start ? item.start - 1 : item.start);
}

/** Removes the spaces, or the empty line, that a removed item leaves. */
function closeGap(text: string, at: number): string {
  let [from, to] = [at, at];
  while (isBlank(text[from - 1])) from -= 1;
  while (isBlank(text[to])) to += 1;
  const [head, left] = [text.slice(0, from), text.slice(from, at)];
  const [right, tail] = [text.slice(at, to), text.slice(to)];
  const [starts, ends] = [/[\r\n]$/.test(head), /^[\r\n]/.test(tail)];
  if (starts && ends) return head + tail.replace(/^(\r\n|\r|\n)/, "");
  if (starts) return head + left + tail;
  return /^[\]}]/.test(tail) ? head + right + tail : ends ? head + tail : head + left + tail;
}

function isBlank(mark: string | undefined): boolean {
  return mark === " " || mark === "\t";
}

function scan(text: string, { start, end }: Range): readonly Mark[] {
  const scanner = createScanner(text, false);
  scanner.setPosition(start);
  const marks: Mark[] = [];
  while (scanner.getPosition() < end) {
    scanner.scan();
    const offset = scanner.getTokenOffset();
    marks.push({ kind: kindAt(text, offset), start: offset, end: scanner.getPosition() });
  }
  return marks;
}

function kindAt(text: string, offset: number): Mark["kind"] {
  switch (text[offset]) {
    case ",":
      return "comma";
    case "/":
      return text[offset + 1] === "/" ? "line comment" : "block comment";
    case "\n":
    case "\r":
      return "break";
    default:
      return "blank";
  }
}

function isComment({ kind }: Mark): boolean {
  return kind === "line comment" || kind === "block comment";
}

function isFirstOnLine(text: string, offset: number): boolean {
  return /^[ \t]*$/.test(text.slice(lineStart(text, offset), offset));
}

function lineStart(text: string, offset: number): number {
  let at = offset;
  while (at > 0 && text[at - 1] !== "\n" && text[at - 1] !== "\r") at -= 1;
  return at;
}

function indentOf(text: string, offset: number): string {
  const line = text.slice(lineStart(text, offset), offset);
  return line.match(/^[ \t]*/)?.[0] ?? "";
}

function lineBreakOf(text: string): string {
  return text.match(/\r\n|\r|\n/)?.[0] ?? "\n";
}

/** JSON with line breaks, except in short lists and objects of plain values. */
function format(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const isList = Array.isArray(value);
  const members = isList
    ? value.map(format)
    : Object.entries(value).map(([key, member]) => `${JSON.stringify(key)}: ${format(member)}`);
  const [open, close] = isList ? "[]" : "{}";
  const gap = isList || members.length === 0 ? "" : " ";
  const line = open + gap + members.join(", ") + gap + close;
  const isPlain = !line.includes("\n") && !(isList && line.includes("{"));
  if (isPlain && line.length <= LONGEST_LINE) return line;
  return `${open}\n  ${members.map((member) => indented(member, "  ", "\n")).join(",\n  ")}\n${close}`;
}

/** Lines in the style of the text. Breaks inside strings are escapes. */
function indented(lines: string, indent: string, lineBreak: string): string {
  return lines.replaceAll("\n", lineBreak + indent);
}

interface Range {
  readonly start: number;
  readonly end: number;
}

/** An item of a list or a member of an object. */
interface Item extends Range {
  readonly key?: string;
  readonly value: Range;
}

/** A value. Plain values have no items. */
interface Place extends Range {
  readonly kind: "object" | "list" | "plain";
  readonly items: readonly Item[];
}

/**
 * The existing values along a path, the whole config first.
 *
 * @throws {TypeError} for a malformed text, as far as the text was read
 */
export function locate(text: string, path: readonly string[]): readonly Place[] {
  const scanner = createScanner(text, true);
  const places = [placeAt(text, scanner, 0)];
  for (const key of path) {
    const value = places.at(-1)?.items.find((item) => item.key === key)?.value;
    if (value === undefined) break;
    places.push(placeAt(text, scanner, value.start));
  }
  return places;
}

type Scanner = ReturnType<typeof createScanner>;

/** Reads the value after a position. Its items are not split further. */
function placeAt(text: string, scanner: Scanner, position: number): Place {
  scanner.setPosition(position);
  let mark = next(text, scanner);
  const [start, open] = [scanner.getTokenOffset(), mark];
  if (open !== "{" && open !== "[") return { kind: "plain", ...passValue(text, scanner, mark), items: [] };
  const items: Item[] = [];
  mark = next(text, scanner);
  while (mark !== "}" && mark !== "]") {
    items.push(open === "{" ? memberAt(text, scanner, mark) : itemAt(text, scanner, mark));
    mark = next(text, scanner);
    if (mark === ",") mark = next(text, scanner);
  }
  return { kind: open === "{" ? "object" : "list", start, end: scanner.getPosition(), items };
}

function itemAt(text: string, scanner: Scanner, mark: string | undefined): Item {
  const value = passValue(text, scanner, mark);
  return { ...value, value };
}

function memberAt(text: string, scanner: Scanner, mark: string | undefined): Item {
  const [start, key] = [scanner.getTokenOffset(), scanner.getTokenValue()];
  if (mark !== '"' || next(text, scanner) !== ":") throw malformed(scanner);
  const value = passValue(text, scanner, next(text, scanner));
  return { start, end: value.end, value, key };
}

function readText(written: string): string {
  return written.includes("\\") ? String(parseJson(written)) : written.slice(1, -1);
}

/** The first character of the next token, or undefined at the end. */
function next(text: string, scanner: Scanner): string | undefined {
  scanner.scan();
  if (scanner.getTokenError() !== 0) throw malformed(scanner);
  return text[scanner.getTokenOffset()];
}

/** Skips the value that begins with the current token. */
function passValue(text: string, scanner: Scanner, mark: string | undefined): Range {
  const start = scanner.getTokenOffset();
  for (let depth = 0;; mark = next(text, scanner)) {
    if (mark === undefined) throw malformed(scanner);
    if (mark === "{" || mark === "[") depth += 1;
    if (mark === "}" || mark === "]") depth -= 1;
    if (depth <= 0) return { start, end: scanner.getPosition() };
  }
}

function malformed(scanner: Scanner): TypeError {
  return new TypeError(`the config is malformed at ${scanner.getTokenOffset()}`);
}
