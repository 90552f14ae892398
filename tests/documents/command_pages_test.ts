import assert from "node:assert/strict";
import { commandPages } from "./command_pages.ts";

Deno.test.each(Object.entries(commandPages()).map(([path, text]) => ({ path, text })))(
  "$path is the output of deno task docs:commands",
  async ({ path, text }) => {
    assert.ok(text.includes("## broker-ctl host add") || text.includes("## debate run"));
    assert.equal(await Deno.readTextFile(new URL(`../../${path}`, import.meta.url)), text);
  },
);
