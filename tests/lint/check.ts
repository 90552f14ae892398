import assert from "node:assert/strict";
import plugin from "./boundaries.ts";

/** The start of a module of `shared`, which has to say what it is. */
export const MODULE = "/** What it is. @module */\n";

/** A source text, and the rule that it breaks. */
export interface Row {
  readonly name: string;
  readonly file: string;
  readonly source: string;
  /** Without the plugin's name; absent when every rule is kept. */
  readonly rule?: string;
}

/** Lints the source as that file, and holds the rules that it breaks against the row's. */
export function check({ file, source, rule }: Row): void {
  const path = new URL(`../../${file}`, import.meta.url).pathname;
  const found = Deno.lint.runPlugin(plugin, path, source).map(({ id, message }) => ({ id, message }));
  if (rule === undefined) assert.deepEqual(found, []);
  else assert.deepEqual(found.map(({ id }) => id), [`gateway/${rule}`]);
}
