/**
 * A config schema as plain data (JSON Schema), for those who walk it: what is a struct with fixed keys, what
 * is a map with keys of the operator's choice, what is documented.
 *
 * @module
 */
import * as z from "@zod/zod";
import type { KeyPath } from "../key_path.ts";

/** One node of a schema: the part of JSON Schema that configs use. */
export interface Shape {
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  /** The keys of a struct. */
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
  /** The values of a map; a struct has `false` or nothing. */
  readonly additionalProperties?: Shape | boolean;
  /** The entries of a list. */
  readonly items?: Shape;
  readonly anyOf?: readonly Shape[];
}

const SHAPES = new WeakMap<z.ZodType, Shape>();

/** The shape of what a schema accepts, before its transforms; made once. */
export function shapeOf(schema: z.ZodType): Shape {
  const known = SHAPES.get(schema);
  if (known !== undefined) return known;
  const shape: object = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  SHAPES.set(schema, shape);
  return shape;
}

/** The shape of a map's values, or `undefined` when the node is not a map. */
export function mapValues(shape: Shape): Shape | undefined {
  if (shape.properties !== undefined || typeof shape.additionalProperties !== "object") return undefined;
  return shape.additionalProperties;
}

/** The shape of a member of a struct or map, or of an entry of a list; `undefined` when the node has none such. */
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
