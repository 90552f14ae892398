import assert from "node:assert/strict";
import plugin from "./boundaries.ts";

/** Start of a module of `shared`, which must have a description. */
export const MODULE = "/** Description. @module */\n";

/** A source text and the rule that it violates. */
export interface Row {
  readonly name: string;
  readonly file: string;
  readonly source: string;
  /** The rule without the plugin's name. If absent, the source violates no rule. */
  readonly rule?: string;
}

/** Lints the source as that file, and compares the violated rules with the row. */
export function check({ file, source, rule }: Row): void {
  const path = new URL(`../../${file}`, import.meta.url).pathname;
  const found = Deno.lint.runPlugin(plugin, path, source).map(({ id, message }) => ({ id, message }));
  if (rule === undefined) assert.deepEqual(found, []);
  else assert.deepEqual(found.map(({ id }) => id), [`gateway/${rule}`]);
}
