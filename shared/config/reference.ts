/**
 * The reference page of a config, from its schema: key, type, default and meaning as a Markdown table.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import * as z from "@zod/zod";
 * import { describeConfig } from "@gateway/shared/config";
 *
 * const schema = z.strictObject({ listen: z.string().default(":1").describe("address of the listener") });
 * const page = describeConfig({ title: "demo.json", schema });
 * assert.match(page, /\| `listen` \| string \| `":1"` \| address of the listener \|/);
 * ```
 *
 * @module
 */
import type * as z from "@zod/zod";
import { mapValues, type Shape, shapeOf } from "./problems.ts";

interface ConfigReference {
  readonly title: string;
  /** The schema of the whole config, with a description for each key. */
  readonly schema: z.ZodType;
}

/** The page: a heading and one row for each key, with `<name>` for a key of the operator's choice, `[]` for an entry. */
export function describeConfig({ title, schema }: ConfigReference): string {
  const rows = describeMembers(shapeOf(schema), "");
  return [`# ${title}`, "", "| Key | Type | Default | Meaning |", "|---|---|---|---|", ...rows, ""].join(
    "\n",
  );
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

/** Entries that are plain values need no row of their own: the type of the map or list says what they are. */
function describeNested(shape: Shape, path: string): readonly string[] {
  return shape.type === "object" || shape.type === "array" ? describeMembers(shape, path) : [];
}

function describeKey(path: string, shape: Shape, isRequired: boolean): string {
  const fallback = isRequired
    ? "required"
    : shape.default === undefined
    ? ""
    : code(JSON.stringify(shape.default));
  const cells = [code(path), describeType(shape), fallback, escapeHtml(shape.description ?? "")];
  return `| ${cells.map(escapeCell).join(" | ")} |`;
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
  // The bounds of an exact integer are nobody's decision.
  const low = minimum === undefined || minimum <= Number.MIN_SAFE_INTEGER ? undefined : minimum;
  const high = maximum === undefined || maximum >= Number.MAX_SAFE_INTEGER ? undefined : maximum;
  if (low !== undefined && high !== undefined) return `, ${low} to ${high}`;
  if (low !== undefined) return `, at least ${low}`;
  return high === undefined ? "" : `, at most ${high}`;
}

function code(text: string): string {
  return `\`${text}\``;
}

function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

function escapeCell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}
