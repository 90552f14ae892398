/**
 * The rules of this workspace for `deno lint`: who may import whom, what a pure file may use, where time and
 * chance come from, who waits, where JSON is parsed, which rule has one place, what must be documented.
 *
 * @module
 */
import { documented } from "./documented.ts";
import { ambient, pure, timers } from "./globals.ts";
import { imports } from "./imports.ts";
import { json } from "./json.ts";
import { onePlace } from "./one_place.ts";

const plugin: Deno.lint.Plugin = {
  name: "gateway",
  rules: { imports, pure, ambient, timers, documented, json, "one-place": onePlace },
};

export default plugin;
