/**
 * The arguments of a tool call as the model wrote them.
 *
 * @module
 */
import type { ToolArgs } from "../events.ts";
import { isObject } from "../graph/json_objects.ts";

const MAX_LENGTH = 100_000;
const MAX_DEPTH = 32;

/** Arguments, or what is wrong with them. */
export type ParsedArguments =
  | { readonly kind: "arguments"; readonly args: ToolArgs }
  | { readonly kind: "broken"; readonly problem: string };

/** Reads arguments; an empty text is no arguments. */
export function parseArguments(text: string): ParsedArguments {
  if (text.length > MAX_LENGTH) return broken(`the arguments are longer than ${MAX_LENGTH} characters`);
  if (text.trim() === "") return { kind: "arguments", args: {} };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return broken("the arguments are not valid JSON");
  }
  if (!isObject(value)) return broken("the arguments must be a JSON object");
  if (!isShallow(value, MAX_DEPTH)) return broken(`the arguments nest deeper than ${MAX_DEPTH} levels`);
  return { kind: "arguments", args: value };
}

function broken(problem: string): ParsedArguments {
  return { kind: "broken", problem };
}

function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return depth > 0 && Object.values(value).every((member) => isShallow(member, depth - 1));
}
