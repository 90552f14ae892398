/**
 * Edits of a config's text that leave alone what they are not about: comments, order, blanks.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { appendToList, removeFromList } from "@gateway/shared/config";
 *
 * const text = '{ "allow": ["^id$" // asked for by ann\n] }';
 * const longer = appendToList(text, ["allow"], "^w$");
 * assert.equal(longer, '{ "allow": ["^id$", // asked for by ann\n  "^w$"\n] }');
 * assert.equal(removeFromList(longer, ["allow"], "^id$"), '{ "allow": [// asked for by ann\n  "^w$"\n] }');
 * ```
 *
 * @module
 */
import { createScanner } from "jsonc-parser";
import { type Item, locate, type Place, type Range, readText } from "./locate.ts";

/** The keys that lead to a value of a config. */
export type ValuePath = readonly string[];

/** The text with a value at a path: in the place of another, or as the last member of what is there of the path. */
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

/** The text with one more text at the end of a list, which need not be there yet. */
export function appendToList(text: string, path: ValuePath, item: string): string {
  const list = findList(text, path);
  return list === undefined ? setValue(text, path, [item]) : append(text, list, JSON.stringify(item));
}

/** The text without the items of a list that are this text; comments stay, also those beside the items. */
export function removeFromList(text: string, path: ValuePath, item: string): string {
  for (let rest = text;;) {
    const list = findList(rest, path);
    const index = list?.items.findIndex(({ start, end }) => isText(rest.slice(start, end), item)) ?? -1;
    if (list === undefined || index === -1) return rest;
    rest = removeItem(rest, list, index);
  }
}

/** The text without a member of an object; comments stay but those within its value. */
export function removeMember(text: string, path: ValuePath): string {
  const places = locate(text, path);
  const parent = places[path.length - 1];
  if (parent === undefined || places.length <= path.length) return text;
  return removeItem(text, insideOf(parent), parent.items.findIndex(({ key }) => key === path.at(-1)));
}

/** Of what is added; the file's own lines are its author's. */
const LONGEST_LINE = 90;

/** A list or object in a text, between its brackets. */
interface Inside extends Range {
  readonly items: readonly Item[];
}

/** What can stand between two items. */
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
  // What follows on the line of the last item is about that; where there are comments alone all of them come first.
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
  const places = locate(text, path);
  const list = places[path.length];
  return list?.kind === "list" ? insideOf(list) : undefined;
}

function isText(written: string, text: string): boolean {
  return written.startsWith('"') && readText(written) === text;
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

/** Takes away the blanks, or the whole line, that an item leaves. */
function closeGap(text: string, at: number): string {
  let [from, to] = [at, at];
  while (isBlank(text[from - 1])) from -= 1;
  while (isBlank(text[to])) to += 1;
  const [head, left, right, tail] = [
    text.slice(0, from),
    text.slice(from, at),
    text.slice(at, to),
    text.slice(to),
  ];
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

/** Where the line of an offset begins. */
function lineStart(text: string, offset: number): number {
  let at = offset;
  while (at > 0 && text[at - 1] !== "\n" && text[at - 1] !== "\r") at -= 1;
  return at;
}

/** The indentation of the line of an offset. */
function indentOf(text: string, offset: number): string {
  const line = text.slice(lineStart(text, offset), offset);
  return line.match(/^[ \t]*/)?.[0] ?? "";
}

function lineBreakOf(text: string): string {
  return text.match(/\r\n|\r|\n/)?.[0] ?? "\n";
}

/** JSON over several lines, but for lists and objects of plain values that are short. */
function format(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const isList = Array.isArray(value);
  const members = isList
    ? value.map(format)
    : Object.entries(value).map(([key, member]) => `${JSON.stringify(key)}: ${format(member)}`);
  const [open, close] = isList ? "[]" : "{}";
  const line = members.length === 0
    ? `${open}${close}`
    : isList
    ? `[${members.join(", ")}]`
    : `{ ${members.join(", ")} }`;
  const isPlain = !line.includes("\n") && (isList ? !line.includes("{") : true);
  if (isPlain && line.length <= LONGEST_LINE) return line;
  return `${open}\n  ${members.map((member) => indented(member, "  ", "\n")).join(",\n  ")}\n${close}`;
}

/** Lines of ours as lines of the text; a break in a string is an escape. */
function indented(lines: string, indent: string, lineBreak: string): string {
  return lines.replaceAll("\n", lineBreak + indent);
}
