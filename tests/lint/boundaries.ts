/**
 * Rules of this workspace for `deno lint`: imports between directories, globals in pure files, clock and randomness,
 * timers, JSON parsers, owners of files, rules with one definition, and docstrings.
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
