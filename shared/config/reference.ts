/**
 * The reference page of a config from its schema: a Markdown table of key, type, default and meaning.
 *
 * @module
 */
import type * as z from "@zod/zod";
import { mapValues, type Shape, shapeOf } from "./problems.ts";

/** A heading, and one row for each key, with `<name>` for a key of the operator's choice, and `[]` for an entry. */
export function describeConfig(
  { title, schema }: { readonly title: string; readonly schema: z.ZodType },
): string {
  const head = [`# ${title}`, "", "| Key | Type | Default | Meaning |", "|---|---|---|---|"];
  return [...head, ...describeMembers(shapeOf(schema), ""), ""].join("\n");
}

function describeMembers(shape: Shape, path: string): readonly string[] {
  const values = mapValues(shape);
  if (values !== undefined) return describeNested(values, `${path}.<name>`);
  if (shape.items !== undefined) return describeNested(shape.items, `${path}[]`);
  return Object.entries(shape.properties ?? {}).flatMap(([key, member]) => {
    const memberPath = path === "" ? key : `${path}.${key}`;
    const isRequired = shape.required?.includes(key) === true && member.default === undefined;
    return [describeKey(memberPath, member, isRequired), ...describeMembers(member, memberPath)];
  });
}

/** Plain entries have no rows: the type of the map or list describes them. */
function describeNested(shape: Shape, path: string): readonly string[] {
  return shape.type === "object" || shape.type === "array" ? describeMembers(shape, path) : [];
}

function describeKey(path: string, shape: Shape, isRequired: boolean): string {
  const fallback = isRequired
    ? "required"
    : shape.default === undefined
    ? ""
    : code(JSON.stringify(shape.default));
  const meaning = (shape.description ?? "").replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const cells = [code(path), describeType(shape), fallback, meaning];
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|").replaceAll("\n", " ")).join(" | ")} |`;
}

function describeType(shape: Shape): string {
  if (shape.anyOf !== undefined) return [...new Set(shape.anyOf.map(describeType))].join(" or ");
  if (shape.const !== undefined) return code(JSON.stringify(shape.const));
  if (shape.enum !== undefined) return shape.enum.map((value) => code(JSON.stringify(value))).join(" ");
  const values = mapValues(shape);
  if (values !== undefined) return `object of ${describeType(values)}`;
  if (shape.items !== undefined) return `array of ${describeType(shape.items)}`;
  return `${shape.type ?? "any"}${describeRange(shape)}`;
}

function describeRange({ minimum, maximum }: Shape): string {
  // Without the bounds of an exact integer.
  const low = minimum === undefined || minimum <= Number.MIN_SAFE_INTEGER ? undefined : minimum;
  const high = maximum === undefined || maximum >= Number.MAX_SAFE_INTEGER ? undefined : maximum;
  if (low !== undefined && high !== undefined) return `, ${low} to ${high}`;
  if (low !== undefined) return `, at least ${low}`;
  return high === undefined ? "" : `, at most ${high}`;
}

function code(text: string): string {
  return `\`${text}\``;
}
