/**
 * What the schema finds wrong with a config, in words for the operator who has to mend it.
 *
 * @module
 */
import type * as z from "@zod/zod";
import { isConfigObject } from "./config_object.ts";
import { formatKeyPath, type KeyPath } from "../key_path.ts";
import { nearMiss } from "./near_miss.ts";
import { type Shape, shapeAt } from "./shape.ts";

/** One finding of the schema; several for an object with several unknown keys. */
export type SchemaIssue = z.core.$ZodIssue;

const EXPECTED: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "an array",
  object: "an object",
  record: "an object",
};

/** The messages of one finding, each with the path of its key. `value` is what was checked. */
export function describeIssue(issue: SchemaIssue, value: unknown, shape: Shape): readonly string[] {
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

/** Shows the value only where it is a number or one of a fixed set: elsewhere it may be a secret out of place. */
function describeValue(issue: SchemaIssue, found: unknown): string {
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
    else node = isConfigObject(node) && Object.hasOwn(node, key) ? node[String(key)] : undefined;
  }
  return node;
}
