/**
 * Problems of a config in words for its operator, and the shape of a schema.
 *
 * @module
 */
import * as z from "@zod/zod";
import { isObject } from "../json.ts";
import { editDistance, formatKeyPath, type KeyPath } from "../text.ts";

const EXPECTED: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "an array",
  object: "an object",
  record: "an object",
};

/** The messages of one issue, each with the path of its key. `value` is the checked value. */
export function describeIssue(issue: z.core.$ZodIssue, value: unknown, shape: Shape): readonly string[] {
  if (issue.code === "unrecognized_keys") {
    const known = Object.keys(shapeAt(shape, issue.path)?.properties ?? {});
    return issue.keys.map((key) => describeUnknownKey(issue.path, key, known));
  }
  const found = valueAt(value, issue.path);
  const path = formatKeyPath(issue.path);
  if (issue.code === "invalid_type" && found === undefined) return [`missing key "${path}"`];
  const text = describeValue(issue, found);
  return [path === "" ? text : `${path}: ${text}`];
}

function describeUnknownKey(parent: KeyPath, key: string, known: readonly string[]): string {
  const near = nearMiss(key, known);
  const hint = near === undefined ? "" : ` (did you mean "${near}"?)`;
  return `unknown key "${formatKeyPath([...parent, key])}"${hint}`;
}

/** Shows only numbers and values of fixed sets. Another value may be a misplaced secret. */
function describeValue(issue: z.core.$ZodIssue, found: unknown): string {
  switch (issue.code) {
    case "invalid_type":
      return `must be ${EXPECTED[issue.expected] ?? issue.expected}, is ${describeKind(found)}`;
    case "invalid_value":
      return `must be ${issue.values.map(show).join(" or ")}, is ${show(found)}`;
    case "too_small":
      if (issue.origin === "string" && issue.minimum === 1) return "must not be empty";
      return `must be at least ${issue.minimum}${unit(issue.origin)}, is ${show(size(found))}`;
    case "too_big":
      return `must be at most ${issue.maximum}${unit(issue.origin)}, is ${show(size(found))}`;
    case "invalid_key":
      return issue.issues[0]?.message ?? issue.message;
    default:
      return issue.message;
  }
}

function unit(origin: string): string {
  if (origin === "string") return " characters long";
  return origin === "array" ? " entries long" : "";
}

function size(value: unknown): unknown {
  return typeof value === "string" || Array.isArray(value) ? value.length : value;
}

function show(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
  return typeof value === "number" || typeof value === "bigint" ? String(value) : describeKind(value);
}

function describeKind(value: unknown): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") return Number.isInteger(value) ? "a whole number" : "a number";
  if (Array.isArray(value)) return "an array";
  return typeof value === "string" ? "a string" : "an object";
}

function valueAt(value: unknown, path: KeyPath): unknown {
  let node = value;
  for (const key of path) {
    if (Array.isArray(node)) node = node[Number(key)];
    else node = isObject(node) && Object.hasOwn(node, key) ? node[String(key)] : undefined;
  }
  return node;
}

/** One node of a schema: the used part of JSON Schema. */
export interface Shape {
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Shape | boolean;
  readonly items?: Shape;
  readonly anyOf?: readonly Shape[];
}

const SHAPES = new WeakMap<z.ZodType, Shape>();

/** The shape of the input of a schema, made once. */
export function shapeOf(schema: z.ZodType): Shape {
  const known = SHAPES.get(schema);
  if (known !== undefined) return known;
  const shape: object = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  SHAPES.set(schema, shape);
  return shape;
}

/** The shape of a map's values; `undefined` if the node is no map. */
export function mapValues(shape: Shape): Shape | undefined {
  if (shape.properties !== undefined || typeof shape.additionalProperties !== "object") return undefined;
  return shape.additionalProperties;
}

/** The shape at a path below a node, if the schema has one. */
export function shapeAt(shape: Shape | undefined, path: KeyPath): Shape | undefined {
  const [key, ...rest] = path;
  if (key === undefined || shape === undefined) return shape;
  for (const branch of shape.anyOf ?? [shape]) {
    const member = memberShape(branch, key);
    if (member !== undefined) return shapeAt(member, rest);
  }
  return undefined;
}

function memberShape(shape: Shape, key: PropertyKey): Shape | undefined {
  if (typeof key === "number") return shape.items;
  if (shape.properties === undefined) return mapValues(shape);
  return Object.hasOwn(shape.properties, key) ? shape.properties[String(key)] : undefined;
}

/** The candidate that differs only by few letters, or by case and separators. */
export function nearMiss(name: string, candidates: readonly string[]): string | undefined {
  const bare = (text: string) => text.toLowerCase().replace(/[-_]/g, "");
  const limit = name.length < 4 ? 1 : 2;
  let best: { readonly candidate: string; readonly distance: number } | undefined;
  for (const candidate of candidates) {
    // The comparison takes quadratic time.
    const distance = name.length > 64
      ? Infinity
      : bare(name) === bare(candidate)
      ? 0
      : editDistance(name, candidate);
    if (distance <= limit && distance < (best?.distance ?? Infinity)) best = { candidate, distance };
  }
  return best?.candidate;
}

/**
 * A copy of a config without comment keys, and without maps that are `null`.
 *
 * In a struct, every `_` key but `_default` is a comment. In a map, a `_` key may be the name of an entry,
 * and dropping the entry could drop a rule. There, only a key that ends in `_comment` or `_example` is a
 * comment, or a plain text or number in a map of objects or lists.
 */
export function withoutComments(value: ConfigObject, shape: Shape): ConfigObject {
  const node = objectShape(shape);
  const entryShape = mapValues(node);
  // A value of any shape has no known comments.
  if (entryShape === undefined && node.properties === undefined) return value;
  const copy = createConfigObject();
  for (const [key, member] of Object.entries(value)) {
    const isComment = entryShape === undefined ? isStructComment(key) : isMapComment(key, member, entryShape);
    const inner = shapeAt(node, [key]);
    if (isComment || (member === null && inner !== undefined && mapValues(inner) !== undefined)) continue;
    copy[key] = strip(member, inner);
  }
  return copy;
}

function strip(value: unknown, shape: Shape | undefined): unknown {
  if (shape === undefined) return value;
  if (Array.isArray(value)) return value.map((entry) => strip(entry, shapeAt(shape, [0])));
  return isObject(value) ? withoutComments(value, shape) : value;
}

function objectShape(shape: Shape): Shape {
  return shape.anyOf?.find((branch) => branch.type === "object") ?? shape;
}

function isStructComment(key: string): boolean {
  return key.startsWith("_") && key !== "_default";
}

function isMapComment(key: string, member: unknown, entry: Shape): boolean {
  if (!isStructComment(key)) return false;
  if (key.endsWith("_comment") || key.endsWith("_example")) return true;
  const holdsMore = entry.type === "object" || entry.type === "array";
  return holdsMore && (typeof member !== "object" || member === null);
}

/** An object of a config, without prototype, so that a lookup of `constructor` finds nothing. */
export interface ConfigObject {
  [key: string]: unknown;
}

/** An empty {@linkcode ConfigObject}. */
export function createConfigObject(): ConfigObject {
  return Object.create(null);
}
