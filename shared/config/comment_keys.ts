/**
 * Keys that start with `_` are comments, except where the operator means them.
 *
 * @module
 */
import { type ConfigObject, createConfigObject, isConfigObject } from "./config_object.ts";
import { mapValues, type Shape, shapeAt } from "./shape.ts";

/**
 * A copy of a config without its comment keys and without maps that are `null` (the same as absent).
 *
 * In a struct, whose keys are known, every `_` key but `_default` is a comment. In a map, whose keys are the
 * operator's names, a `_` key may be a real entry; dropping it would drop a rule unseen. There only a key
 * that ends in `_comment` or `_example`, or a plain text or number where the map holds more than that, is a
 * comment. What is not a comment is checked like everything else.
 */
export function withoutComments(value: ConfigObject, shape: Shape): ConfigObject {
  const node = objectShape(shape);
  const entryShape = mapValues(node);
  // Of a value that may be anything nothing is known to be a comment.
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
  return isConfigObject(value) ? withoutComments(value, shape) : value;
}

/** Of a choice, the branch that an object belongs to. */
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
