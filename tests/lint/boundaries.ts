/**
 * The rules of this workspace for `deno lint`: who may import whom, what a pure file may use, where time and
 * chance come from, who waits, where JSON is parsed, how owners are set, which rule has one place, what must be documented.
 *
 * @module
 */
import { documented } from "./documented.ts";
import { ambient, owners, pure, timers } from "./globals.ts";
import { imports } from "./imports.ts";
import { json } from "./json.ts";
import { onePlace } from "./one_place.ts";

const plugin: Deno.lint.Plugin = {
  name: "gateway",
  rules: { imports, pure, ambient, timers, owners, documented, json, "one-place": onePlace },
};

export default plugin;
