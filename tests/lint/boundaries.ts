/**
 * The rules of this workspace for `deno lint`: who may import whom, what a pure file may use, where time and
 * chance come from, who waits, where JSON is parsed, what must be documented.
 *
 * @module
 */
import { documented } from "./documented.ts";
import { ambient, pure, timers } from "./globals.ts";
import { imports } from "./imports.ts";
import { json } from "./json.ts";

const plugin: Deno.lint.Plugin = {
  name: "gateway",
  rules: { imports, pure, ambient, timers, documented, json },
};

export default plugin;
