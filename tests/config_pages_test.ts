import assert from "node:assert/strict";
import { configPages } from "../deploy/config_pages.ts";

Deno.test.each(Object.entries(configPages()).map(([path, text]) => ({ path, text })))(
  "$path is what deno task docs:config writes",
  async ({ path, text }) => {
    assert.equal(await Deno.readTextFile(new URL(`../${path}`, import.meta.url)), text);
  },
);
