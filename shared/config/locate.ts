/**
 * Where the values of a config's text are: only the lists and objects on the way to a value are looked into, so that
 * the rest of a large config costs no more than its length.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { locate } from "./locate.ts";
 *
 * const text = '{ "hosts": { "web01": {} }, /* why *\/ "allow": ["^id$"] }';
 * const [, allow] = locate(text, ["allow"]);
 * assert.equal(allow?.kind, "list");
 * assert.deepEqual(allow?.items.map(({ start, end }) => text.slice(start, end)), ['"^id$"']);
 * ```
 *
 * @module
 */
import { parseJson } from "../json.ts";

/** From where to where something stands in a text. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** An item of a list or a member of an object. */
export interface Item extends Range {
  readonly key?: string;
  readonly value: Range;
}

/** A value; what is neither list nor object has no items. */
export interface Place extends Range {
  readonly kind: "object" | "list" | "plain";
  readonly items: readonly Item[];
}

/**
 * The values along a path, the whole config first, as far as they are there.
 *
 * @param text one that was parsed as a config before
 * @throws {TypeError} for other texts, as far as that is seen
 */
export function locate(text: string, path: readonly string[]): readonly Place[] {
  const places = [placeAt(text, passTrivia(text, 0))];
  for (const key of path) {
    const value = places.at(-1)?.items.find((item) => item.key === key)?.value;
    if (value === undefined) break;
    places.push(placeAt(text, value.start));
  }
  return places;
}

function placeAt(text: string, start: number): Place {
  const mark = text[start];
  if (mark !== "{" && mark !== "[") return { kind: "plain", start, end: passValue(text, start), items: [] };
  const items: Item[] = [];
  let at = passTrivia(text, start + 1);
  while (text[at] !== "}" && text[at] !== "]") {
    items.push(mark === "{" ? memberAt(text, at) : itemAt(text, at));
    at = passTrivia(text, items.at(-1)?.end ?? at);
    if (text[at] === ",") at = passTrivia(text, at + 1);
  }
  return { kind: mark === "{" ? "object" : "list", start, end: at + 1, items };
}

function itemAt(text: string, start: number): Item {
  const end = passValue(text, start);
  return { start, end, value: { start, end } };
}

function memberAt(text: string, start: number): Item {
  const end = passText(text, start);
  const colon = passTrivia(text, end);
  if (text[colon] !== ":") throw malformed(colon);
  const { value } = itemAt(text, passTrivia(text, colon + 1));
  return { start, end: value.end, value, key: readText(text.slice(start, end)) };
}

/** What is written as a JSON text. */
export function readText(written: string): string {
  return written.includes("\\") ? String(parseJson(written)) : written.slice(1, -1);
}

function passValue(text: string, start: number): number {
  if (text[start] === '"') return passText(text, start);
  let at = start;
  for (let depth = 0;; at++) {
    switch (text[at]) {
      case undefined:
        throw malformed(at);
      case '"':
        at = passText(text, at) - 1;
        break;
      case "/":
        if (depth === 0) return at;
        at = passComment(text, at) - 1;
        break;
      case "{":
      case "[":
        depth += 1;
        break;
      case "}":
      case "]":
        if (depth < 2) return at + depth;
        depth -= 1;
        break;
      case ",":
      case " ":
      case "\t":
      case "\r":
      case "\n":
        if (depth === 0) return at;
    }
  }
}

function passText(text: string, start: number): number {
  if (text[start] !== '"') throw malformed(start);
  for (let at = start;;) {
    at = text.indexOf('"', at + 1);
    if (at === -1) throw malformed(start);
    let before = at;
    while (text[before - 1] === "\\") before -= 1;
    if ((at - before) % 2 === 0) return at + 1;
  }
}

function passTrivia(text: string, start: number): number {
  for (let at = start;;) {
    switch (text[at]) {
      case " ":
      case "\t":
      case "\r":
      case "\n":
        at += 1;
        break;
      case "/":
        at = passComment(text, at);
        break;
      default:
        return at;
    }
  }
}

function passComment(text: string, start: number): number {
  if (text[start + 1] === "*") {
    const end = text.indexOf("*/", start + 2);
    if (end === -1) throw malformed(start);
    return end + 2;
  }
  if (text[start + 1] !== "/") throw malformed(start);
  let at = start;
  while (at < text.length && text[at] !== "\n" && text[at] !== "\r") at += 1;
  return at;
}

function malformed(at: number): TypeError {
  return new TypeError(`the config is malformed at ${at}`);
}
