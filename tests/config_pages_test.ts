import assert from "node:assert/strict";
import { configPages } from "../deploy/config_pages.ts";

Deno.test.each(Object.entries(configPages()).map(([path, text]) => ({ path, text })))(
  "$path is what deno task docs:config writes",
  async ({ path, text }) => {
    assert.equal(await Deno.readTextFile(new URL(`../${path}`, import.meta.url)), text);
  },
);

Deno.test.each(Object.entries(configPages()).map(([path, text]) => ({ path, text })))(
  "$path has a meaning for every key",
  ({ text }) => {
    const rows = text.split("\n").filter((line) => line.startsWith("| `"));
    assert.ok(rows.length > 10);
    for (const row of rows) assert.doesNotMatch(row, /\| {2}\|$/, row);
  },
);
