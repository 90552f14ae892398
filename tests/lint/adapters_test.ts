import assert from "node:assert/strict";
import { ADAPTERS } from "./adapters.ts";
import plugin from "./boundaries.ts";
import { ROOT } from "./files.ts";

/** Whether a file would be refused if it were not listed. */
async function actsOutside(path: string): Promise<boolean> {
  const unlisted = `${ROOT}${path.replace(/([^/]+)$/, "unlisted_$1")}`;
  const found = Deno.lint.runPlugin(plugin, unlisted, await Deno.readTextFile(`${ROOT}${path}`));
  return found.some(({ id }) => id === "gateway/pure" || id === "gateway/imports");
}

Deno.test.each(ADAPTERS.filter((entry) => !entry.endsWith("/")).map((path) => ({ path })))(
  "$path has to be listed as an adapter",
  async ({ path }) => {
    assert.ok(await actsOutside(path), "it is pure by now: take it off the list");
  },
);
